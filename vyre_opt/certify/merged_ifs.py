"""The claim of `simplify_cf`: ifs became one, with the ops of the earlier ones moved down to the last.

They have one condition, and lie in blocks that run together.  What lies between one and the last in the program's text
may then run before it: no access of one of the two is of a buffer that the other writes, nothing that lets other lanes
in passes an access of what they may write, and nothing that may stop the program passes a store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import z3

from ..ir.program import Op, Program
from .accesses import Access, accesses_of
from .forwarding import lets_others_in, may_stop
from .obligations import Obligation, not_seen
from .points import Nesting

__all__ = ["merged_ifs"]


def merged_ifs(
    program: Program, parts: Sequence[Op], into: Op, merged: Collection[tuple[Op, Op]]
) -> Iterator[Obligation]:
    """`parts`: in program order.  `merged`: pairs of ifs that this or another decision puts into one."""
    nesting = Nesting(program)
    what = "ifs of one condition become one"
    for part in parts:
        if not _run_together(nesting, part, into, merged):
            yield not_seen(what, "they do not run together", [part, into])
    start, stop = nesting.number[parts[-1]], nesting.number[into]
    inside = {op for part in parts for op in part.walk()}
    moved = [op for part in parts for op in part.walk() if not op.definition.is_pure]
    passed = [op for op in nesting.ops[start:stop] if op not in inside and not op.definition.is_pure]
    accesses = {access.op: access for access in accesses_of(nesting)}
    written = {access.buffer for access in accesses.values() if access.is_write}
    for other in passed:
        for op in moved:
            reason = _conflict(op, other, accesses, written)
            if reason is not None:
                yield not_seen(what, reason, [op, other])
                return
    yield Obligation(what, [*parts, into], [], [], z3.BoolVal(True))


def _run_together(nesting: Nesting, part: Op, into: Op, merged: Collection[tuple[Op, Op]]) -> bool:
    """Whether the two ifs have one condition, and the blocks around them are the same or of merged ifs."""
    if any(op.name != "if" for op in (part, into)) or part.results or part.operands != into.operands:
        return False
    one, other = nesting.around[part], nesting.around[into]
    return len(one) == len(other) and all(
        side == its and (op is outer or (op, outer) in merged)
        for (op, side), (outer, its) in zip(one, other, strict=True)
    )


def _conflict(op: Op, other: Op, accesses: dict[Op, Access], written: Collection[str]) -> str | None:
    """Why an op may not pass another one; None if it may."""
    a, b = accesses.get(op), accesses.get(other)
    if a is not None and b is not None and a.buffer == b.buffer and (a.is_write or b.is_write):
        return f"{a} passes {b}"
    for orders, its in ((op, b), (other, a)):
        is_shared = its is not None and its.buffer in written
        if lets_others_in(orders) and (is_shared or (lets_others_in(op) and lets_others_in(other))):
            return f"an access passes this {orders.name}"
    for stop, its in ((op, b), (other, a)):
        if may_stop(stop) and its is not None and its.is_write:
            return f"a store passes this {stop.name}"
    if all(may_stop(each) or "print" in each.definition.effects for each in (op, other)):
        return f"this {op.name} passes this {other.name}"
    return None
