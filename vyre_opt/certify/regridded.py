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

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import z3

from ..ir.grids import Extent, GridCall, fold, length_key
from ..ir.loops import bounds
from ..ir.ops import BEYOND_WORKGROUP, OPS
from ..ir.pipeline import Launch
from ..ir.program import AccessMode, Block, Op, Program, Value
from ..ir.rewrite import clone
from ..ir.types import DataType
from .accesses import Access, accesses_of, are_apart, named
from .bodies import Mismatch
from .in_bounds import shown_at
from .obligations import Obligation
from .points import Group, Nesting, Point

__all__ = ["Regridded", "expected_program", "lengths_in_range"]

LONGEST = (1 << 32) - (1 << 16)
"""Elements of a buffer whose length a program of a pipeline takes as a u32; more are an error of the launch."""

COMMUTE = {"atomic_add", "atomic_and", "atomic_or", "atomic_xor", "atomic_min", "atomic_max"}
PLACES = {"global_id", "local_id", "workgroup_id", "lane_id", "subgroup_id", "num_workgroups", "global_size"}


@dataclass(frozen=True)
class Regridded:
    """How a launch runs over the grid `groups` along x: `factor` of its workgroups in each, `single` rounds of its loop."""

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
    """What the joined program has to hold for a launch, and what has to be true for that.  Raises Mismatch."""
    if of.program.workgroup[1:] != (1, 1) or of.launch.grid[1:] != (1, 1):
        raise Mismatch(f"@{of.program.name} has more than one dimension")
    if not 1 <= of.factor or (of.factor > 1 and 2 * of.factor > of.program.workgroup[0]):
        raise Mismatch(f"a workgroup runs {of.factor} of @{of.program.name}")
    _check_independence(of.program)
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


def lengths_in_range(point: Point) -> list[z3.BoolRef]:
    """What a launch says of the lengths that its program takes as a u32."""
    program = point.group.program
    lengths = {
        op.attrs["buffer"] for op in program.walk() if op.name == "len" and op.result.type is DataType.U32
    }
    return [point.group.length(name).term <= LONGEST for name in sorted(lengths)]


# --- workgroups in turn ---------------------------------------------------------------------


def _check_independence(program: Program) -> None:
    """Raises Mismatch for a program whose workgroups may wait for each other."""
    has_while = any(op.name == "while" for op in program.walk())
    for op in program.walk():
        is_ordered = "atomic" in op.definition.effects and op.attrs["order"] != "relaxed"
        if is_ordered or (has_while and "atomic" in op.definition.effects):
            raise Mismatch(f"workgroups of @{program.name} may wait for each other", op)
        if "print" in op.definition.effects:
            raise Mismatch(f"lines of @{program.name} come in the order of its workgroups", op)
        if op.name == "barrier" and op.attrs["scope"] in BEYOND_WORKGROUP:
            raise Mismatch(f"workgroups of @{program.name} wait for each other", op)


class _OpSequence:
    """Ops that stand one behind the other."""

    def __init__(self, program: Program) -> None:
        self.ops: list[Op] = []
        self.program = program

    def op(self, name: str, dtype: DataType, *operands: Value, **attrs: object) -> Value:
        result = Value(name, dtype)
        self.ops.append(Op(OPS[name], operands, (result,), attrs, (), self.program.loc))
        return result

    def number(self, value: int, dtype: DataType = DataType.U32) -> Value:
        return self.op("const", dtype, value=value)


def _in_turn(of: Regridded, program: Program, extent: Extent, groups: Extent) -> Program:
    lanes, u32 = program.workgroup[0], DataType.U32
    top = _OpSequence(program)
    count = top.number(extent) if isinstance(extent, int) else _count(of, top, extent)
    workgroup, local = top.op("workgroup_id", u32, axis="x"), top.op("local_id", u32, axis="x")
    turn, inner = Value("turn", u32), _OpSequence(program) if of.factor > 1 else top
    group = workgroup
    if of.factor > 1:
        group = inner.op("add", u32, top.op("mul", u32, workgroup, top.number(of.factor)), turn)
    exists = inner.op("lt", DataType.BOOL, group, count)
    first = inner.op("mul", u32, group, inner.number(lanes))
    ids = {"workgroup_id": group, "global_id": inner.op("add", u32, first, local), "num_workgroups": count}
    ids["global_size"] = inner.op("mul", u32, count, inner.number(lanes))
    body = _without_ids(clone(program.body.ops, {}), ids)
    if isinstance(groups, int) and isinstance(extent, int) and groups * of.factor == extent:
        inner.ops += body
    else:
        inner.ops.append(Op(OPS["if"], (exists,), (), {}, (Block((), body),), program.loc))
    if of.factor > 1:
        if any(buffer.is_workgroup for buffer in program.buffers.values()):
            if any(op.name == "copy_async" for op in program.walk()):
                inner.ops.append(Op(OPS["copy_wait"], (), (), {"pending": 0}, (), program.loc))
            inner.ops.append(Op(OPS["barrier"], (), (), {"scope": "workgroup"}, (), program.loc))
        limits = {"lower": 0, "upper": of.factor, "step": 1}
        top.ops.append(Op(OPS["for"], (), (), limits, (Block((turn,), inner.ops),), program.loc))
    return replace(program, grid=None, body=Block((), top.ops))


def _without_ids(ops: Sequence[Op], ids: Mapping[str, Value]) -> list[Op]:
    """The ops with other values for ids along x."""
    other: dict[Value, Value] = {}

    def visit(block: Sequence[Op]) -> list[Op]:
        kept = []
        for op in block:
            op.operands = tuple(other.get(value, value) for value in op.operands)
            if op.name in ids and op.attrs["axis"] == "x":
                other[op.result] = ids[op.name]
                continue
            for region in op.regions:
                region.ops = visit(region.ops)
            kept.append(op)
        return kept

    return visit(ops)


def _count(of: Regridded, top: _OpSequence, extent: Extent) -> Value:
    """The number of workgroups, computed as a u64, in which it does not wrap."""
    formals = {actual: formal for formal, actual in of.names.items()}
    u64 = DataType.U64

    def wide(part: Extent) -> Value:
        if isinstance(part, int):
            return top.number(part, u64)
        if part.name == "len":
            if part.args[0] not in formals:
                raise Mismatch(f"@{of.program.name} does not know how long @{part.args[0]} is")
            length = top.op("len", DataType.U32, buffer=formals[str(part.args[0])])
            return top.op("cast", u64, length)
        x, y = (wide(arg) for arg in part.args if not isinstance(arg, str))
        if part.name == "ceil_div":
            return top.op("div", u64, top.op("add", u64, x, top.op("sub", u64, y, top.number(1, u64))), y)
        return top.op(part.name, u64, x, y)

    return top.op("cast", DataType.U32, wide(extent))


def _room(of: Regridded, extent: Extent) -> Obligation:
    """Each workgroup of the launch is one that a workgroup of the whole runs; and what is computed does not wrap."""
    lengths: dict[str, z3.ArithRef] = {}
    have, need = (_term(part, of.lengths, lengths) for part in (of.groups, extent))
    parts = [_term(part, of.lengths, lengths) for part in _parts(extent)]
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


def _parts(extent: Extent) -> Iterator[Extent]:
    yield extent
    if isinstance(extent, GridCall):
        for arg in extent.args:
            if not isinstance(arg, str):
                yield from _parts(arg)


def _variable(extent: GridCall) -> str:
    """The name of a length or a param among the terms of an expression."""
    name, *dimension = extent.args
    return f"@{name}" if extent.name == "param" else length_key(str(name), *dimension)


def _term(extent: Extent, known: Mapping[str, int | None], lengths: dict[str, z3.ArithRef]) -> z3.ArithRef:
    if isinstance(extent, int):
        return z3.IntVal(extent)
    if extent.name in ("len", "param") and (key := _variable(extent)) in lengths:
        return lengths[key]
    if extent.name == "len" and len(extent.args) > 1:
        raise Mismatch(f"the grid depends on one dimension of @{extent.args[0]}")
    if extent.name == "len":
        name = str(extent.args[0])
        count = known.get(name)
        return z3.IntVal(count) if count is not None else lengths.setdefault(name, z3.Int(f"len.{name}"))
    if extent.name == "param":
        raise Mismatch(f"the grid depends on the param @{extent.args[0]}")
    x, y = (_term(arg, known, lengths) for arg in extent.args if not isinstance(arg, str))
    if extent.name in ("div", "ceil_div") and not (z3.is_int_value(y) and y.as_long() > 0):
        raise Mismatch("the grid divides by what may be 0")
    terms = {
        "add": lambda: x + y,
        "sub": lambda: x - y,
        "mul": lambda: x * y,
        "div": lambda: x / y,
        "ceil_div": lambda: (x + y - 1) / y,
        "min": lambda: z3.If(x < y, x, y),
        "max": lambda: z3.If(x > y, x, y),
    }
    return terms[extent.name]()


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
    ops = _OpSequence(program)
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
        ops.ops.append(Op(OPS["if"], (exists,), (), {}, (body,), loop.loc))
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
    """Of one in COMMUTE: a sum of floats depends on its order, and is left open by `reassoc` alone."""
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
    """As many as have an invocation for each element below the limit, over the pipeline's buffers."""
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
    for extent in _parts(of.groups):
        if isinstance(extent, GridCall) and extent.name == "len" and str(extent.args[0]) in formals:
            lengths[str(extent.args[0])] = point.group.length(formals[str(extent.args[0])]).term
    end = z3.IntVal(limit) if isinstance(limit, int) else point.integer(limit).term
    groups = _term(of.groups, of.lengths, lengths)
    grid = fold(of.launch.grid[0], of.lengths)
    for part in _parts(grid):
        if isinstance(part, GridCall) and part.name in ("len", "param"):
            lengths.setdefault(_variable(part), z3.Int(_variable(part)))
    workgroups = _term(grid, of.lengths, lengths)
    return Obligation(
        f"there is an invocation for each element of the loop of @{single.name}",
        [],
        [point],
        [z3.And(n >= 0, n <= LONGEST) for name, n in lengths.items() if not name.startswith("@")],
        z3.And(of.factor * groups * single.workgroup[0] >= end, z3.Or(workgroups >= 1, end <= 0)),
        {**lengths, "end": end},
    )
