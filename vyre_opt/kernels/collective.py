"""Reductions over the lanes of a subgroup, and what the bodies of most kernels are made of.

Floats are summed by a butterfly, as `subgroup_reduce` does: log2(width) xor shuffles, five for a whole subgroup.  The
order of additions is then fixed and every lane ends with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..ir.builder import Builder
from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Buffer, Value
from ..ir.types import DataType
from ..records import dataclass

__all__ = [
    "SharedSums",
    "all_of",
    "as_bits",
    "as_type",
    "claimed_slots",
    "draw_number",
    "elements",
    "fold_lanes",
    "gather",
    "guarded",
    "joined",
    "offset",
    "shared_sums",
    "subgroup_total",
    "wait_until_all",
]

SUBGROUP = SUBGROUP_SIZE


def subgroup_total(b: Builder, value: Value, combine: str, width: int = SUBGROUP) -> Value:
    """Combine `value` over aligned groups of `width` lanes, a power of two; every lane gets the result."""
    if width == SUBGROUP:
        return b.subgroup_reduce(value, combine)
    distance = width // 2
    while distance:
        value = getattr(b, combine)(value, b.subgroup_shuffle(value, distance, "xor"))
        distance //= 2
    return value


def fold_lanes(b: Builder, values: Sequence[Value], combine: str, fastmath: Sequence[str] = ()) -> Value:
    """Combine scalars, or the elements of vectors of one type, into one scalar, pairwise as a tree."""
    pending = elements(b, values[0]) if len(values) == 1 else list(values)
    op = getattr(b, combine)
    while len(pending) > 1:
        pairs = [op(x, y, fastmath=fastmath) for x, y in zip(pending[0::2], pending[1::2], strict=False)]
        pending = pairs + pending[len(pairs) * 2 :]
    return fold_lanes(b, pending, combine, fastmath) if pending[0].type.is_vec else pending[0]


def elements(b: Builder, value: Value) -> list[Value]:
    """The elements of a vector; a scalar alone."""
    return [b.extract(value, k) for k in range(value.type.lanes)] if value.type.is_vec else [value]


def joined(b: Builder, values: Sequence[Value]) -> Value:
    """The vector of several values; a single one alone."""
    return values[0] if len(values) == 1 else b.vector(*values)


def offset(b: Builder, base: Value, ahead: int) -> Value:
    """`base + ahead`, without an op for 0."""
    return b.add(base, ahead) if ahead else base


def as_type(b: Builder, value: Value, dtype: DataType) -> Value:
    """`value` cast to `dtype`, without an op if it has that type."""
    return value if value.type is dtype else b.cast(value, dtype)


def as_bits(b: Builder, value: Value, dtype: DataType) -> Value:
    """The bits of `value` as a value of `dtype`, without an op if it has that type."""
    return value if value.type is dtype else b.bitcast(value, dtype)


def guarded(
    b: Builder,
    condition: Value | None,
    make: Callable[[], Value],
    otherwise: Callable[[], Value] | float = 0,
) -> Value:
    """`make()` where `condition` holds (None: everywhere); elsewhere `otherwise()`, or a constant of that type.

    A branch, not a select: a load in `make` is not executed where the condition fails.
    """
    if condition is None:
        return make()
    with b.if_(condition) as branch:
        value = make()
        branch.yield_(value)
    with branch.else_():
        branch.yield_(otherwise() if callable(otherwise) else b.const(otherwise, value.type))
    return branch.result


def all_of(b: Builder, *conditions: Value | None) -> Value | None:
    """The conjunction of `conditions`; None stands for one that always holds, also as the result."""
    known = [c for c in conditions if c is not None]
    if not known:
        return None
    both = known[0]
    for condition in known[1:]:
        both = b.and_(both, condition)
    return both


@dataclass(frozen=True)
class SharedSums:
    """Sums that `shared_sums` leaves to a lane: values number `first`, `first` + 1, ...

    Several lanes may have the same sums; `writes` is true in exactly one of them.
    """

    values: list[Value]
    first: Value
    writes: Value


def shared_sums(
    b: Builder, values: Sequence[Value], number: Value, width: int, stride: int = 1
) -> SharedSums:
    """Sum each of `values` over a group of `width` lanes; each lane ends with a share of the sums.

    The lanes of a group are `stride` apart, and `number` is a lane's number in it.  `width` and `stride` are
    powers of two, groups are aligned.  In each step two lanes exchange halves:

        lane 0 has  0 1 2 3    keeps 0 1, gets 0 1 from lane 1
        lane 1 has  0 1 2 3    keeps 2 3, gets 2 3 from lane 0

    So n values take about n shuffles in all, where a butterfly for each would take n * log2(width).
    """
    sums = list(values)
    first, writes = b.const(0), b.const(True, DataType.BOOL)
    distance = width // 2
    while distance:
        upper = b.ne(b.and_(number, distance), 0)
        half = len(sums) // 2
        if len(sums) % 2:  # no halves to exchange: both lanes make all sums, the lower one writes them
            sums = [b.add(value, b.subgroup_shuffle(value, distance * stride, "xor")) for value in sums]
            writes = b.and_(writes, b.not_(upper))
        else:
            pairs = list(zip(sums[:half], sums[half:], strict=True))
            sent = [b.select(upper, low, high) for low, high in pairs]
            received = [b.subgroup_shuffle(value, distance * stride, "xor") for value in sent]
            retained = [b.select(upper, high, low) for low, high in pairs]
            sums = [b.add(mine, theirs) for mine, theirs in zip(retained, received, strict=True)]
            first = b.add(first, b.select(upper, b.const(half), 0))
        distance //= 2
    return SharedSums(sums, first, writes)


def draw_number(b: Builder, is_first: Value, ticket: Buffer, slot: Buffer) -> Value:
    """The next number of @ticket, counted from 0 in the order in which workgroups draw: one for a whole workgroup.

    `is_first`: true in one lane.  `slot`: an element of workgroup memory.  Executes one barrier.
    """
    with b.if_(is_first):
        b.store(b.atomic_add(ticket, 0, 1), slot, 0)
    b.barrier("workgroup")
    return b.load(slot, 0)


def claimed_slots(b: Builder, wants: Sequence[Value], counter: Buffer) -> Iterator[Value]:
    """Slot of a list that this lane may fill, for each of `wants`, bools, where it holds.

    The lanes of a subgroup get theirs by one atomic addition to element 0 of `counter`.  The ops for a slot are emitted
    when it is asked for.
    """
    ones, dtype = [b.cast(want, DataType.U32) for want in wants], counter.dtype
    mine = fold_lanes(b, ones, "add")
    before = b.subgroup_scan(mine, "exclusive", "add")
    total = as_type(b, b.subgroup_reduce(mine, "add"), dtype)
    first = guarded(b, b.eq(b.lane_id(), 0), lambda: b.atomic_add(counter, 0, total))
    slot = b.add(b.subgroup_shuffle(first, 0), as_type(b, before, dtype))
    for one in ones:
        yield slot
        slot = b.add(slot, as_type(b, one, dtype))


def wait_until_all(
    b: Builder, read: Callable[[], Sequence[Value]], is_missing: Callable[..., Value]
) -> list[Value]:
    """The words that the lanes of a subgroup `read`, again and again until `is_missing(*words)` in no lane.

    `read` loads by atomics: a plain load could be hoisted out of the loop.
    """
    with b.while_(list(read())) as loop:
        missing = b.subgroup_ballot(is_missing(*loop.args))
        loop.condition(b.ne(missing, 0))
        loop.yield_(*read())
    return list(loop.results)


def gather(b: Builder, slots: Buffer, count: int, neutral: float) -> Value:
    """Lane i of each subgroup reads slot i; lanes from `count` on get `neutral`."""
    lane = b.lane_id()
    if count == SUBGROUP:
        return b.load(slots, lane)
    # clamped, so that lanes without a slot load in bounds, too
    loaded = b.load(slots, b.min(lane, count - 1))
    return b.select(b.lt(lane, count), loaded, b.const(neutral, slots.dtype))
