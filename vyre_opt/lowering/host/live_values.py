"""Size of the values that are live at the same time, and the choice of values to keep in memory.

LLVM keeps values in registers and on the stack, and its allocation takes quadratic time in how many are live.  So
where those of a subgroup's 32 lanes take more than BUDGET bytes, the large and the long-lived ones go to the
workgroup's scratch memory as soon as they are computed, and are loaded again wherever they are used.

An op whose operands and results are there is a loop over the elements of its vectors.  So vectors go there, too, where
ops that are long code for each element (see `is_heavy`) would be written out for many elements.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Block, Op, Program, Value
from ...records import dataclass
from ..common.lane_shape import CARRIER_BYTES, carrier
from .outline import is_heavy

__all__ = ["BUDGET", "Peak", "TooManyLive", "ValueInMemory", "values_in_memory"]

BUDGET = 1 << 15
"""Bytes of live values that LLVM may keep; the frame of a function takes some times as much."""

LARGE = 1 << 10
"""Bytes of a value from which on it goes to memory, where the budget does not suffice."""

LONG = 16
"""Ops that a smaller value is live for, from which on it goes to memory."""

ROLLED_LANES, MOST_HEAVY = 8, 80
"""Elements of a vector from which on it goes to memory, where the heavy ops on such vectors have more elements in all."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The op at which live values take most, and how many bytes."""

    op: Op | None
    size: int


class TooManyLive(Exception):
    """Values that cannot be kept in memory take more than BUDGET at `peak`."""

    def __init__(self, peak: Peak) -> None:
        super().__init__(peak.size)
        self.peak = peak


@dataclass(frozen=True, slots=True)
class ValueInMemory:
    """A value that is kept in memory, in the slot of a number, with so many bytes.

    Of the values that share a slot one at most is live.
    """

    value: Value
    slot: int
    slot_bytes: int


def values_in_memory(program: Program, is_wide: Callable[[Value], bool]) -> list[ValueInMemory]:
    """The values to be kept in memory; none for a program within the budget, without many heavy ops.

    `is_wide`: whether a value has an element for each lane of a subgroup, not one for all.  Raises TooManyLive.
    """
    ranges = _LiveRanges(program)
    sizes = {value: _size(value) for value in ranges.ends if is_wide(value)}
    heavy = [op.results[0].type.lanes for op in ranges.ops if is_heavy(op)]
    rolls = sum(lanes for lanes in heavy if lanes >= ROLLED_LANES) > MOST_HEAVY
    stores = ranges.peak(sizes).size > BUDGET
    if not rolls and not stores:
        return []

    def is_kept(value: Value) -> bool:
        is_large = stores and (sizes[value] >= LARGE or ranges.length(value) >= LONG)
        return is_large or (rolls and value.type.lanes >= ROLLED_LANES)

    plain = [v for v in sizes if isinstance(v.owner, Op) and not v.owner.regions]
    in_memory = [value for value in plain if is_kept(value)]
    peak = ranges.peak({value: sizes[value] for value in sizes.keys() - set(in_memory)})
    if peak.size > BUDGET:
        raise TooManyLive(peak)
    return ranges.in_slots(in_memory, sizes)


def _size(value: Value) -> int:
    """Bytes of a value in all lanes of a subgroup."""
    return SUBGROUP_SIZE * value.type.lanes * CARRIER_BYTES[carrier(value.type.element)]


class _LiveRanges:
    """Live ranges: the ops between which values are live, by the numbers of ops in program order.

    `starts`, `ends`: of each value that is used.  One from outside a loop is live up to the loop's end.
    """

    def __init__(self, program: Program) -> None:
        self.ops: list[Op] = []
        self.starts: dict[Value, int] = {}
        self.ends: dict[Value, int] = {}
        self._from_outside: dict[int, list[Value]] = {}
        """Values used in an open loop, by its number, and in no larger loop that has them from outside."""
        self._visit(program.body, [])

    def length(self, value: Value) -> int:
        return self.ends[value] - self.starts[value]

    def peak(self, sizes: Mapping[Value, int]) -> Peak:
        """Op at which the values of these sizes take most."""
        changes = [0] * (len(self.ops) + 1)
        for value, size in sizes.items():
            changes[self.starts[value]] += size
            changes[self.ends[value] + 1] -= size
        most_bytes, at, live = 0, None, 0
        for op, change in zip(self.ops, changes, strict=False):
            live += change
            if live > most_bytes:
                most_bytes, at = live, op
        return Peak(at, most_bytes)

    def in_slots(self, values: Iterable[Value], sizes: Mapping[Value, int]) -> list[ValueInMemory]:
        """The values with slots, each as large as its values, and taken again once its last value is dead."""
        free: dict[int, list[int]] = {}
        taken: list[tuple[int, int, int]] = []  # end of the value, bytes, slot
        in_slots: list[ValueInMemory] = []
        slots = 0
        for value in sorted(values, key=self.starts.__getitem__):
            while taken and taken[0][0] < self.starts[value]:
                _, size, slot = heappop(taken)
                free.setdefault(size, []).append(slot)
            of_size = free.get(sizes[value])
            slot = of_size.pop() if of_size else slots
            slots += slot == slots
            in_slots.append(ValueInMemory(value, slot, sizes[value]))
            heappush(taken, (self.ends[value], sizes[value], slot))
        return in_slots

    def _visit(self, block: Block, loops: list[int]) -> None:
        """`loops`: the numbers of the loops around."""
        for op in block.ops:
            number = len(self.ops)
            self.ops.append(op)
            for value in op.operands:
                self._use(value, number, loops)
            inside = [*loops, number] if op.name in ("for", "while") else loops
            for region in op.regions:
                self.starts.update(dict.fromkeys(region.args, number))
                self._visit(region, inside)
            last = len(self.ops) - 1
            if op.regions:  # a loop computes its counter from its bounds in each round
                for value in op.operands:
                    self._use(value, last, loops)
            for value in self._from_outside.pop(number, ()):
                self.ends[value] = last
            self.starts.update(dict.fromkeys(op.results, last))

    def _use(self, value: Value, number: int, loops: list[int]) -> None:
        self.ends[value] = number
        first = bisect_right(loops, self.starts[value])  # the loops before it have the value inside
        if first < len(loops):
            self._from_outside.setdefault(loops[first], []).append(value)
