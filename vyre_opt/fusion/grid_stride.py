"""Grid-stride loops: programs whose result does not depend on their grid.

    %g = global_id x                             %g = global_id x
    %s = global_size x                           if %g < %n { body of %g }
    for %i = %g to %n step %s { body of %i }
    over any grid                                over ceil_div(n, lanes) workgroups

Over any grid, each i below n is the counter of exactly one invocation in exactly one round: the loop's counter does
not wrap, and ids take each number below the global size once.  So if nothing else in the program depends on ids or sizes,
a grid of at least one workgroup decides only the order of the i.  The order does not matter if no i touches elements
that another one writes, except by commuting atomics of one kind whose results are unused.  That is proven for the form on
the right, in which each i has an invocation of its own.
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
    """`program`: the form with one round.  `extent`: the workgroups that it needs for a loop over `count` elements; both
    are expressions over lengths of its own buffers."""

    program: Program
    extent: Extent
    count: Extent


def single_round(program: Program) -> GridStride | Refusal | None:
    """The form of a grid-stride program with one round of its loop, over as many workgroups as that takes.

    None for a program without such a loop; a refusal if its result may depend on the grid.
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
    branch_form = _with_branch(program, loop)
    # at least one workgroup: without elements it does nothing
    workgroups = largest([1, ceil_divided(count, program.workgroup[0])])
    return _order_matters(branch_form, limits[1]) or GridStride(branch_form, workgroups, count)


def runs_wherever(grid: Extent, count: Extent) -> bool:
    """Whether a grid is known to have a workgroup along x for all lengths that make `count` more than 0."""
    limits = bounds(grid)
    if grid == count or (limits is not None and limits[0] > 0):
        return True
    if isinstance(grid, int) or grid.name in ("len", "param", "sub", "div"):
        return False
    parts = [part for part in grid.args if not isinstance(part, str)]
    if grid.name == "ceil_div":
        divisor = bounds(parts[1])
        return divisor is not None and divisor[0] > 0 and runs_wherever(parts[0], count)
    if grid.name == "add" and not all((low := bounds(part)) and low[0] >= 0 for part in parts):
        return False
    quantifier = all if grid.name in ("min", "mul") else any
    return quantifier(runs_wherever(part, count) for part in parts)


def _refuse(program: Program, reason: str, op: Op) -> Refusal:
    return Refusal("grid", f"what @{program.name} does may depend on its grid: {reason}", loc=op.loc)


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
    """Refusal for a dependence on ids or sizes besides the loop's bounds, or between rounds or lanes; None without one."""
    if program.workgroup[1:] != (1, 1):
        return _refuse(program, "its workgroup has more than one dimension", loop)
    if loop.results:
        return _refuse(
            program, f"its loop carries %{loop.results[0].name} from one element to the next", loop
        )
    memory = next((b for b in program.buffers.values() if b.is_workgroup), None)
    if memory is not None:
        return _refuse(program, f"its workgroups have memory of their own, @{memory.name}", loop)
    used_elsewhere = {value for op in program.walk() if op is not loop for value in op.operands}
    for op in program.walk():
        if {"sync", "wait", "subgroup"} & op.definition.effects:
            return _refuse(program, f"lanes meet at a {op.name}", op)
        if op.name in IDS and op.result in used_elsewhere:
            return _refuse(program, f"it uses {op.name} beside its loop", op)
    for op in program.body.ops:
        is_same = op.definition.is_pure or (op.name == "load" and _is_only_read(program, op))
        if op is not loop and not is_same:
            return _refuse(program, f"each invocation runs a {op.name} outside of its loop", op)
    return None


def _is_only_read(program: Program, op: Op) -> bool:
    return program.buffers[op.attrs["buffer"]].access is AccessMode.READ


def _extent(value: Value) -> Extent | None:
    """`value` as an expression over lengths of the program's buffers; None if it is no such expression."""
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
    # no value wraps in its type, so the program computes the value of the expression
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


def _order_matters(single: Program, max_count: int) -> Refusal | None:
    """Refusal for two accesses through which rounds of two elements may depend on each other; None without any.

    `max_count`: upper bound of the number of elements.
    """
    footprints = Footprints(single)
    groups = max(1, -(-max_count // single.workgroup[0]))
    dependence = DependenceTest(footprints, (groups, 1, 1))
    used_values = {value for op in single.walk() for value in op.operands}
    accesses: dict[str, list[MemoryAccess]] = {}
    for event in footprints.events:
        if isinstance(event, MemoryAccess):
            expr = clamped_expr(footprints.affine, event.op.index)
            access = event if expr is None else replace(event, index=expr)
            accesses.setdefault(event.buffer, []).append(access)
    for buffer, buffer_accesses in accesses.items():
        for p in (access for access in buffer_accesses if access.is_write):
            for q in buffer_accesses:
                if _commute(p, q, used_values) or dependence.disjoint_between_lanes(p, q):
                    continue
                reason = f"the rounds of two elements may both access one of @{buffer}, by {p.describe()} and {q.describe()}"
                return _refuse(single, reason, q.op)
    return None


def _commute(p: MemoryAccess, q: MemoryAccess, used: Container[Value]) -> bool:
    """Whether both are atomics that commute, with unused results."""
    return p.op.name == q.op.name and all(may_regroup(a.op) and a.op.result not in used for a in (p, q))
