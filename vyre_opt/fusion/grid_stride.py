"""Grid-stride loops: programs whose result does not depend on their grid.

    %g = global_id x                             %g = global_id x
    %s = global_size x                           if %g < %n { body of %g }
    for %i = %g to %n step %s { body of %i }
    over any grid                                over ceil_div(n, lanes) workgroups

Over any grid, each i below n is the counter of exactly one invocation in exactly one round: the loop's counter does
not wrap, and ids are all numbers below the global size, once each.  So if nothing else in the program depends on ids
or sizes, each i is done once whatever the grid is, if it has a workgroup, and it decides only in which order.  The order does not
matter if no i touches what another one writes, but by atomics of one kind that commute and whose old values nobody
uses.  That is proven of the form on the right, in which each i has an invocation of its own.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from ..analysis.clamped import clamped_expr
from ..analysis.dependence import DependenceTest
from ..analysis.footprint import Footprints, MemoryAccess
from ..analysis.refusal import Refusal
from ..analysis.regrouping import may_regroup
from ..ir.grids import MAX_LENGTH, Extent, GridCall, bounds, ceil_divided, largest
from ..ir.loops import bounds as loop_bounds
from ..ir.ops import OPS
from ..ir.program import AccessMode, Block, Op, Program, Value
from ..ir.rewrite import clone, constant, constant_value
from ..ir.types import DataType
from ..records import dataclass

__all__ = ["GridStride", "runs_wherever", "single_round"]

IDS = ("global_id", "local_id", "workgroup_id", "lane_id", "subgroup_id", "global_size", "num_workgroups")


@dataclass(frozen=True, slots=True)
class GridStride:
    """`program`: the form with one round.  `extent`: the workgroups that it needs, for a loop over `count` elements; both
    over lengths of its own buffers."""

    program: Program
    extent: Extent
    count: Extent


def single_round(program: Program) -> GridStride | Refusal | None:
    """A grid-stride program with one round of its loop, over as many workgroups as that takes.

    None for a program that has no such loop; a refusal where it has one, and the grid may matter.
    """
    loop = _stride_loop(program)
    if loop is None:
        return None
    refusal = _other_dependence(program, loop)
    if refusal is not None:
        return refusal
    upper = loop_bounds(loop)[1]
    count = upper if isinstance(upper, int) else _extent(upper)
    if count is None or (limits := bounds(count)) is None or not 0 <= limits[0] <= limits[1] <= MAX_LENGTH:
        return _refuse(program, "where its loop ends is not the length of a buffer", loop)
    single = _with_branch(program, loop)
    # a workgroup that finds no element does nothing
    workgroups = largest([1, ceil_divided(count, program.workgroup[0])])
    return _order_matters(single, limits[1]) or GridStride(single, workgroups, count)


def runs_wherever(grid: Extent, count: Extent) -> bool:
    """Whether a grid is known to have a workgroup along x for all lengths that make `count` more than 0."""
    limits = bounds(grid)
    if grid == count or (limits is not None and limits[0] > 0):
        return True
    if isinstance(grid, int) or grid.name in ("len", "param", "sub", "div"):
        return False
    parts = [part for part in grid.args if not isinstance(part, str)]
    if grid.name == "ceil_div":
        by = bounds(parts[1])
        return by is not None and by[0] > 0 and runs_wherever(parts[0], count)
    if grid.name == "add" and not all((least := bounds(part)) and least[0] >= 0 for part in parts):
        return False
    some_or_all = all if grid.name in ("min", "mul") else any
    return some_or_all(runs_wherever(part, count) for part in parts)


def _refuse(program: Program, why: str, op: Op) -> Refusal:
    return Refusal("grid", f"what @{program.name} does may depend on its grid: {why}", loc=op.loc)


def _is_id(value: object, name: str) -> bool:
    op = value.owner if isinstance(value, Value) else None
    return isinstance(op, Op) and op.name == name and op.attrs["axis"] == "x"


def _stride_loop(program: Program) -> Op | None:
    """The loop of the body from the global id by the global size."""
    for op in program.body.ops:
        if op.name == "for":
            lower, _, step = loop_bounds(op)
            if _is_id(lower, "global_id") and _is_id(step, "global_size"):
                return op
    return None


def _other_dependence(program: Program, loop: Op) -> Refusal | None:
    """Name the dependence on ids or sizes, or the join of rounds or lanes, besides the loop's own bounds; None without one."""
    if program.workgroup[1:] != (1, 1):
        return _refuse(program, "its workgroup has more than one dimension", loop)
    if loop.results:
        return _refuse(
            program, f"its loop carries %{loop.results[0].name} from one element to the next", loop
        )
    memory = next((b for b in program.buffers.values() if b.is_workgroup), None)
    if memory is not None:
        return _refuse(program, f"its workgroups have memory of their own, @{memory.name}", loop)
    others = {value for op in program.walk() if op is not loop for value in op.operands}
    for op in program.walk():
        if {"sync", "wait", "subgroup"} & op.definition.effects:
            return _refuse(program, f"lanes meet at a {op.name}", op)
        if op.name in IDS and op.result in others:
            return _refuse(program, f"it uses {op.name} beside its loop", op)
    for op in program.body.ops:
        is_same = op.definition.is_pure or (op.name == "load" and _is_only_read(program, op))
        if op is not loop and not is_same:
            return _refuse(program, f"each invocation runs a {op.name} outside of its loop", op)
    return None


def _is_only_read(program: Program, op: Op) -> bool:
    return program.buffers[op.attrs["buffer"]].access is AccessMode.READ


def _extent(value: Value) -> Extent | None:
    """A number that is the same for the whole grid, over the lengths of the program's buffers; None if it is none."""
    op = value.owner
    extent: Extent | None = constant_value(value)
    if extent is None and isinstance(op, Op) and op.name == "len":
        extent = GridCall("len", (op.attrs["buffer"],))
    elif extent is None and isinstance(op, Op) and op.name in ("add", "mul", "div", "min", "max", "shr"):
        x, y = map(_extent, op.operands)
        if x is None or y is None:
            return None
        by_power = op.name == "shr" and isinstance(y, int) and 0 <= y < 32
        if op.name == "shr" and not by_power:
            return None
        extent = GridCall("div", (x, 1 << y)) if by_power else GridCall(op.name, (x, y))  # type: ignore[operator]
    if extent is None or value.type is not DataType.U32:
        return None
    limits = bounds(extent)
    # within the type, so the number of the text is that of the expression
    return extent if limits is not None and 0 <= limits[0] <= limits[1] <= MAX_LENGTH else None


def _with_branch(program: Program, loop: Op) -> Program:
    """The program with one round of its loop, for the invocation's own global id."""
    ops: list[Op] = []
    mapping: dict[Value, Value] = {}
    for op in program.body.ops:
        if op is not loop:
            ops += clone([op], mapping)
            continue
        lower, upper, _ = loop_bounds(loop)
        assert isinstance(lower, Value)
        index = mapping[lower]
        if isinstance(upper, int):
            ops.append(constant(upper, DataType.U32, "count", loop))
        limit = ops[-1].result if isinstance(upper, int) else mapping[upper]
        exists = Op(OPS["lt"], (index, limit), (Value("exists", DataType.BOOL),), loc=loop.loc)
        mapping[loop.regions[0].args[0]] = index
        body = Block((), clone(loop.regions[0].ops, mapping))
        ops += [exists, Op(OPS["if"], exists.results, (), regions=(body,), loc=loop.loc)]
    buffers = {name: replace(buffer) for name, buffer in program.buffers.items()}
    return replace(program, grid=None, buffers=buffers, body=Block((), ops))


def _order_matters(single: Program, most: int) -> Refusal | None:
    """Two accesses by which the rounds of two elements may depend on each other; None if there are none.

    `most`: elements, at most.
    """
    footprints = Footprints(single)
    groups = max(1, -(-most // single.workgroup[0]))
    dependence = DependenceTest(footprints, (groups, 1, 1))
    used = {value for op in single.walk() for value in op.operands}
    accesses: dict[str, list[MemoryAccess]] = {}
    for event in footprints.events:
        if isinstance(event, MemoryAccess):
            expr = clamped_expr(footprints.affine, event.op.index)
            access = event if expr is None else replace(event, index=expr)
            accesses.setdefault(event.buffer, []).append(access)
    for buffer, each in accesses.items():
        for p in (access for access in each if access.is_write):
            for q in each:
                if _commute(p, q, used) or dependence.disjoint_between_lanes(p, q):
                    continue
                why = f"the rounds of two elements may both access one of @{buffer}, by {p.describe()} and {q.describe()}"
                return _refuse(single, why, q.op)
    return None


def _commute(p: MemoryAccess, q: MemoryAccess, used: Container[Value]) -> bool:
    """Whether the two are atomics that leave the same behind in either order, and what they give is not used."""
    return p.op.name == q.op.name and all(may_regroup(a.op) and a.op.result not in used for a in (p, q))
