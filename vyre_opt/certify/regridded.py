"""Launches over another grid than their own: the programs that a joined one then has to hold, and what makes that right.

A workgroup `w` runs the workgroups `factor * w` to `factor * w + factor - 1` of a launch, as far as there are so many;
they run in any order, so one after the other will do, if none waits for another.  Each of them is run by one workgroup:
there is room for all, and no number wraps, since a grid has 2^32 invocations at most and `factor` is at most half of
the lanes.

A loop `for %i = global_id to %n step global_size` that is taken with one round has an invocation for each `%i` below
`%n`.  It has one over any grid, in one of the rounds.  What a round does may not depend on others, and nothing else on
the grid.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from itertools import product

import z3

from ..ir.grids import Extent, GridCall, fold
from ..ir.loops import bounds
from ..ir.pipeline import Launch
from ..ir.program import AccessMode, Block, Op, Program, Value
from ..ir.rewrite import clone
from ..ir.types import DataType
from ..records import dataclass
from .accesses import Access, accesses_of, are_apart, named
from .expected_ops import OpSequence, emit_extent, ids_of, without_ids
from .grid_terms import LONGEST, extent_parts, extent_term, lengths_in_range, variable_name
from .in_bounds import shown_at
from .independence import check_workgroups
from .mismatch import Mismatch
from .obligations import Obligation
from .points import Group, Nesting, Point

__all__ = ["Regridded", "expected_program"]

COMMUTE = {"atomic_add", "atomic_and", "atomic_or", "atomic_xor", "atomic_min", "atomic_max"}
PLACES = {"global_id", "local_id", "workgroup_id", "lane_id", "subgroup_id", "num_workgroups", "global_size"}


@dataclass(frozen=True)
class Regridded:
    """Run of a launch over the grid `groups` along x: `factor` of its workgroups in each, `single` rounds of its loop."""

    launch: Launch
    program: Program
    factor: int
    single: bool
    groups: Extent
    lengths: Mapping[str, int | None]

    @property
    def names(self) -> dict[str, str]:
        """The pipeline's buffer for each of the program's."""
        formals = [buffer.name for buffer in self.program.bound_buffers]
        return dict(zip(formals, self.launch.buffers, strict=True))


def expected_program(of: Regridded) -> tuple[Program, list[Obligation]]:
    """Expected program of a launch within the joined one, and its obligations.  Raises Mismatch."""
    if of.program.workgroup[1:] != (1, 1) or of.launch.grid[1:] != (1, 1):
        raise Mismatch(f"@{of.program.name} has more than one dimension")
    if not 1 <= of.factor or (of.factor > 1 and 2 * of.factor > of.program.workgroup[0]):
        raise Mismatch(f"a workgroup runs {of.factor} of @{of.program.name}")
    check_workgroups(of.program)
    program, obligations = of.program, list[Obligation]()
    extent = fold(of.launch.grid[0], of.lengths)
    if of.single:
        program, limit = _one_round(of.program)
        obligations += _rounds_are_independent(program)
        obligations.append(_room_for_rounds(of, program, limit))
        extent = _workgroups(of, limit)
    else:
        obligations.append(_room(of, extent))
    groups = fold(of.groups, of.lengths)
    if of.factor == 1 and isinstance(extent, int) and groups == extent:
        return program, obligations
    return _in_turn(of, program, extent, groups), obligations


# --- workgroups in turn ---------------------------------------------------------------------


def _in_turn(of: Regridded, program: Program, extent: Extent, groups: Extent) -> Program:
    u32, top = DataType.U32, OpSequence(program)
    count = emit_extent(top, extent, of.names)
    workgroup, local = top.op("workgroup_id", u32, axis="x"), top.op("local_id", u32, axis="x")
    turn, inner = Value("turn", u32), OpSequence(program) if of.factor > 1 else top
    group = workgroup
    if of.factor > 1:
        group = inner.op("add", u32, top.op("mul", u32, workgroup, top.number(of.factor)), turn)
    exists = inner.op("lt", DataType.BOOL, group, count)
    body = without_ids(clone(program.body.ops, {}), ids_of(inner, group, count, local))
    if isinstance(groups, int) and isinstance(extent, int) and groups * of.factor == extent:
        inner.ops += body
    else:
        inner.statement("if", exists, blocks=[Block((), body)])
    if of.factor > 1:
        if any(buffer.is_workgroup for buffer in program.buffers.values()):
            if any(op.name == "copy_async" for op in program.walk()):
                inner.statement("copy_wait", pending=0)
            inner.statement("barrier", scope="workgroup")
        top.statement("for", blocks=[Block((turn,), inner.ops)], lower=0, upper=of.factor, step=1)
    return replace(program, grid=None, body=Block((), top.ops))


def _room(of: Regridded, extent: Extent) -> Obligation:
    """Obligations that each workgroup of the launch is run by one of the joined launch, and that no id wraps."""
    lengths: dict[str, z3.ArithRef] = {}
    have, need = (extent_term(part, of.lengths, lengths) for part in (of.groups, extent))
    parts = [extent_term(part, of.lengths, lengths) for part in extent_parts(extent)]
    return Obligation(
        f"there is room for each workgroup of @{of.program.name}",
        [],
        [],
        [z3.And(length >= 0, length <= LONGEST) for length in lengths.values()],
        z3.And(
            of.factor * have >= need, need <= LONGEST, *(z3.And(part >= 0, part < 1 << 63) for part in parts)
        ),
        dict(lengths),
    )


# --- loops over the grid --------------------------------------------------------------------


def _one_round(program: Program) -> tuple[Program, Value | int]:
    """The program with one round of its loop, and where that ends.  Raises Mismatch if the grid may matter."""
    loops = [op for op in program.body.ops if op.name == "for" and _is_over_grid(op)]
    if len(loops) != 1 or loops[0].results or any(b.is_workgroup for b in program.buffers.values()):
        raise Mismatch(f"@{program.name} has not one loop over its grid that carries nothing")
    (loop,) = loops
    elsewhere = {value for op in program.walk() if op is not loop for value in op.operands}
    for op in program.walk():
        if op.name in PLACES and op.result in elsewhere:
            raise Mismatch(f"this {op.name} is used elsewhere than in the loop's bounds", op)
        if op.definition.effects & {"sync", "wait", "subgroup"}:
            raise Mismatch(f"lanes meet at this {op.name}", op)
    lower, limit, _ = bounds(loop)
    assert isinstance(lower, Value)
    ops = OpSequence(program)
    copies: dict[Value, Value] = {}
    for op in program.body.ops:
        if op is not loop:
            is_input = op.name == "load" and program.buffers[op.attrs["buffer"]].access is AccessMode.READ
            if not op.definition.is_pure and not is_input:
                raise Mismatch(f"this {op.name} is run by every lane of the grid", op)
            ops.ops += clone([op], copies)
            continue
        end = copies[limit] if isinstance(limit, Value) else ops.number(limit)
        exists = ops.op("lt", DataType.BOOL, copies[lower], end)
        copies[loop.regions[0].args[0]] = copies[lower]
        body = Block((), clone(loop.regions[0].ops, copies))
        ops.statement("if", exists, blocks=[body])
    single = replace(program, grid=None, body=Block((), ops.ops))
    return single, copies[limit] if isinstance(limit, Value) else limit


def _is_over_grid(loop: Op) -> bool:
    lower, _, step = bounds(loop)
    return _is_id(lower, "global_id") and _is_id(step, "global_size")


def _is_id(value: Value | int, name: str) -> bool:
    op = value.owner if isinstance(value, Value) else None
    return isinstance(op, Op) and op.name == name and op.attrs["axis"] == "x"


def _rounds_are_independent(single: Program) -> Iterator[Obligation]:
    """Rounds of two elements touch no element that one of them writes, but by atomics that commute."""
    nesting = Nesting(single)
    used = {value for op in nesting.ops for value in op.operands}
    accesses = accesses_of(nesting)
    for a, b in product(accesses, accesses):
        if a.buffer == b.buffer and a.is_write and not _commute(a, b, used):
            yield _apart(nesting, a, b)


def _commute(a: Access, b: Access, used: Container[Value]) -> bool:
    return (
        a.op.name == b.op.name
        and a.op.name in COMMUTE
        and all(x.op.result not in used and _is_any_order_right(x.op) for x in (a, b))
    )


def _is_any_order_right(op: Op) -> bool:
    """Whether any order is right for an atomic in COMMUTE: a sum of floats depends on its order, and `reassoc` alone leaves that open."""
    is_sum = op.name == "atomic_add" and op.result.type.is_float
    return not is_sum or "reassoc" in op.attrs.get("fastmath", ())


def _apart(nesting: Nesting, a: Access, b: Access) -> Obligation:
    grid = (None, 1, 1)
    p, q = (Point.any(nesting, Group(nesting.program, name, grid), name) for name in ("first", "second"))
    at, to = p.indices(a.op), q.indices(b.op)
    differs = [p.group.workgroup_id(0).term != q.group.workgroup_id(0).term, p.local[0] != q.local[0]]
    return Obligation(
        f"{a} and {b} in rounds of two elements are apart",
        [a.op, b.op],
        [p, q],
        [p.reaches(a.op), q.reaches(b.op), z3.Or(differs), *lengths_in_range(p), *lengths_in_range(q)],
        are_apart(a, at, b, to),
        {**shown_at(p, **named("first element", at)), **shown_at(q, **named("second element", to))},
    )


def _workgroups(of: Regridded, limit: Value | int) -> Extent:
    """Number of workgroups with an invocation for each element below the limit, over the pipeline's buffers."""
    lanes = of.program.workgroup[0]
    most = limit if isinstance(limit, int) else fold(_extent(of, limit), of.lengths)
    if isinstance(most, int):
        return max(1, -(-most // lanes))
    return GridCall("max", (1, GridCall("ceil_div", (most, lanes))))


def _extent(of: Regridded, value: Value) -> Extent:
    op = value.owner
    if isinstance(op, Op) and op.name == "const":
        return int(op.attrs["value"])
    if isinstance(op, Op) and op.name == "len":
        return GridCall("len", (of.names[op.attrs["buffer"]],))
    if isinstance(op, Op) and op.name in ("add", "mul", "div", "min", "max"):
        x, y = (_extent(of, operand) for operand in op.operands)
        return GridCall(op.name, (x, y))
    if isinstance(op, Op) and op.name == "shr":
        x, y = (_extent(of, operand) for operand in op.operands)
        if isinstance(y, int) and 0 <= y < 32:
            return GridCall("div", (x, 1 << y))
    raise Mismatch(f"where the loop of @{of.program.name} ends is not a length")


def _room_for_rounds(of: Regridded, single: Program, limit: Value | int) -> Obligation:
    """There is an invocation for each element: the limit, as the program computes it, is no more than the invocations.

    And the launch's own grid has a workgroup where there is an element, so that it would do something, too.
    """
    nesting = Nesting(single)
    counts = {
        formal: count for formal, actual in of.names.items() if (count := of.lengths[actual]) is not None
    }
    point = Point.any(nesting, Group(single, "any", (None, 1, 1), counts), "any")
    lengths: dict[str, z3.ArithRef] = {}
    formals = {actual: formal for formal, actual in of.names.items()}
    for extent in extent_parts(of.groups):
        if isinstance(extent, GridCall) and extent.name == "len" and str(extent.args[0]) in formals:
            lengths[str(extent.args[0])] = point.group.length(formals[str(extent.args[0])]).term
    end = z3.IntVal(limit) if isinstance(limit, int) else point.integer(limit).term
    groups = extent_term(of.groups, of.lengths, lengths)
    grid = fold(of.launch.grid[0], of.lengths)
    for part in extent_parts(grid):
        if isinstance(part, GridCall) and part.name in ("len", "param"):
            lengths.setdefault(variable_name(part), z3.Int(variable_name(part)))
    workgroups = extent_term(grid, of.lengths, lengths)
    return Obligation(
        f"there is an invocation for each element of the loop of @{single.name}",
        [],
        [point],
        [z3.And(n >= 0, n <= LONGEST) for name, n in lengths.items() if not name.startswith("@")],
        z3.And(of.factor * groups * single.workgroup[0] >= end, z3.Or(workgroups >= 1, end <= 0)),
        {**lengths, "end": end},
    )
