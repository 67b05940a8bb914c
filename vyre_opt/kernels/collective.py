"""What lanes do together: combine a value within a subgroup, and across a workgroup.

Sums of floats go by a butterfly of five shuffles (or fewer, where fewer lanes share a
value), so that their order is fixed and every lane ends with the same bits; the op
`subgroup_reduce` would add in lane order, which takes 31 steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir.builder import Builder
from ..ir.program import Buffer, Value
from ..ir.types import DataType

__all__ = [
    "SharedSums",
    "all_of",
    "butterfly",
    "fold_lanes",
    "gather",
    "guarded",
    "shared_sums",
    "subgroup_total",
    "workgroup_total",
]

SUBGROUP = 32


def butterfly(b: Builder, value: Value, combine: str, width: int = SUBGROUP) -> Value:
    """`value` combined over the `width` lanes (a power of two, aligned) that share it; all get it."""
    distance = width // 2
    while distance:
        value = getattr(b, combine)(value, b.subgroup_shuffle(value, distance, "xor"))
        distance //= 2
    return value


def subgroup_total(b: Builder, value: Value, combine: str, width: int = SUBGROUP) -> Value:
    """As `butterfly`; by the op where that is one instruction and the order does not matter."""
    if width == SUBGROUP and (value.type.is_int or combine in ("min", "max")):
        return b.subgroup_reduce(value, combine)
    return butterfly(b, value, combine, width)


def fold_lanes(b: Builder, values: Sequence[Value], combine: str, fastmath: Sequence[str] = ()) -> Value:
    """Scalars or vectors of one type, as a tree, down to one scalar."""
    pending = list(values)
    if len(pending) == 1 and pending[0].type.is_vec:
        pending = [b.extract(pending[0], lane) for lane in range(pending[0].type.lanes)]
    op = getattr(b, combine)
    while len(pending) > 1:
        pairs = [op(x, y, fastmath=fastmath) for x, y in zip(pending[0::2], pending[1::2], strict=False)]
        pending = pairs + pending[len(pairs) * 2 :]
    return fold_lanes(b, pending, combine, fastmath) if pending[0].type.is_vec else pending[0]


def guarded(
    b: Builder, condition: Value | None, make: Callable[[], Value], otherwise: Callable[[], Value]
) -> Value:
    """`make()` where `condition` holds (None: everywhere), `otherwise()` elsewhere."""
    if condition is None:
        return make()
    with b.if_(condition) as branch:
        branch.yield_(make())
    with branch.else_():
        branch.yield_(otherwise())
    return branch.result


def all_of(b: Builder, *conditions: Value | None) -> Value | None:
    """All of `conditions`, of which None always holds."""
    known = [c for c in conditions if c is not None]
    if not known:
        return None
    both = known[0]
    for condition in known[1:]:
        both = b.and_(both, condition)
    return both


def workgroup_total(b: Builder, value: Value, slots: Buffer | None, lanes: int) -> Value:
    """The sum of `value` over a workgroup of `lanes` (a multiple of 32), through `slots`, one a subgroup
    (None for a single subgroup).

    Holds one barrier; a second use of the same slots needs another before it.
    """
    total = subgroup_total(b, value, "add")
    if slots is None:
        return total
    with b.if_(b.eq(b.lane_id(), 0)):
        b.store(total, slots, b.subgroup_id())
    b.barrier("workgroup")
    return subgroup_total(b, gather(b, slots, lanes // SUBGROUP, 0), "add")


@dataclass(frozen=True)
class SharedSums:
    """`values` of this lane are the sums of the values from number `first` on; where several lanes
    have the same ones, `writes` holds in one of them."""

    values: list[Value]
    first: Value
    writes: Value


def shared_sums(
    b: Builder, values: Sequence[Value], number: Value, width: int, stride: int = 1
) -> SharedSums:
    """Each of `values` summed over the `width` lanes (a power of two, as is `stride`, aligned) that
    are numbered by `number` and `stride` apart; the sums are shared out among them as far as they go.

        lane 0 has  0 1 2 3    keeps 0 1, gets 0 1 from lane 1
        lane 1 has  0 1 2 3    keeps 2 3, gets 2 3 from lane 0
    """
    sums = list(values)
    first, writes = b.const(0), b.const(True, DataType.BOOL)
    distance = width // 2
    while distance:
        upper = b.ne(b.and_(number, distance), 0)
        half = len(sums) // 2
        if len(sums) % 2:
            sums = [b.add(value, b.subgroup_shuffle(value, distance * stride, "xor")) for value in sums]
            writes = b.and_(writes, b.not_(upper))
        else:
            pairs = list(zip(sums[:half], sums[half:], strict=True))
            sent = [b.select(upper, low, high) for low, high in pairs]
            received = [b.subgroup_shuffle(value, distance * stride, "xor") for value in sent]
            own = [b.select(upper, high, low) for low, high in pairs]
            sums = [b.add(mine, theirs) for mine, theirs in zip(own, received, strict=True)]
            first = b.add(first, b.select(upper, b.const(half), 0))
        distance //= 2
    return SharedSums(sums, first, writes)


def gather(b: Builder, slots: Buffer, count: int, neutral: float) -> Value:
    """Lane i of each subgroup reads slot i; lanes without one get `neutral`."""
    lane = b.lane_id()
    if count == SUBGROUP:
        return b.load(slots, lane)
    held = b.load(slots, b.min(lane, count - 1))
    exists = b.lt(lane, count)
    return b.select(exists, held, b.const(neutral, slots.dtype))
