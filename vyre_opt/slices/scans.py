"""Scans along rows, in the order that language.md fixes: the same for every layout.

4 neighbours         one after the other, by the lane that has them
32 such groups       by shuffles from the lanes 1, 2, 4, 8, 16 before           a chunk, of 128 positions
32 chunks            by workgroup memory, and the same shuffles                 a block, of 4096 positions
blocks               one after the other
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Value
from .elements import Elements
from .layout import FOLDED, GROUP, Layout
from .sums import Fold

__all__ = ["Scan"]

CHUNK = SUBGROUP_SIZE * GROUP
"""Positions that the lanes of a subgroup have at a time."""

Row = Sequence[Sequence[Value]]


class Scan:
    """Scan along the rows of a layout.  `mode`: inclusive or exclusive."""

    def __init__(self, fold: Fold, elements: Elements, layout: Layout, mode: str) -> None:
        self.fold, self.elements, self.layout, self.b = fold, elements, layout, elements.b
        self.is_exclusive = mode == "exclusive"
        self.lane = elements.lane_of_columns(layout)
        """Number of the lane in its row."""
        self.in_subgroup = self.b.and_(self.lane, min(layout.column_lanes, SUBGROUP_SIZE) - 1)

    def of(self, rows: Sequence[Row]) -> Mapping[tuple[int, int], Sequence[Value]]:
        """`rows`: an invocation's groups of each row, with neutral elements where there is none."""
        values: dict[tuple[int, int], Sequence[Value]] = {}
        for i, row in enumerate(rows):
            groups = [self.one_by_one(group) for group in row]
            for j, group in enumerate(self.from_left(groups)):
                values[i, j] = group
        return values

    def one_by_one(self, group: Sequence[Value]) -> list[Value]:
        up_to: list[Value] = []
        for value in group:
            up_to.append(self.fold.both(up_to[-1], value) if up_to else value)
        return up_to

    def from_left(self, groups: Sequence[Sequence[Value]]) -> list[Sequence[Value]]:
        """Combine the total of all elements left of each group with the group's elements."""
        before, totals = [], []
        for group in groups:
            total = self.over_lanes(group[-1], self.in_subgroup)
            before.append(self.of_lane_before(total, self.in_subgroup))
            totals.append(total)
        outer = self.before_chunks(totals)
        results: list[Sequence[Value]] = []
        for group, inner, chunk in zip(groups, before, outer, strict=True):
            elements = [inner, *(self.fold.both(inner, value) for value in group)]
            for outside in chunk:
                elements = [self.fold.both(outside, value) for value in elements]
            results.append(elements[:-1] if self.is_exclusive else elements[1:])
        return results

    def over_lanes(self, value: Value, lane: Value) -> Value:
        """Combine the values of the lanes of a row in a subgroup, up to this lane."""
        b, distance, limit = self.b, 1, SUBGROUP_SIZE
        while distance < limit:
            lower = b.subgroup_shuffle(value, distance, "up")
            value = b.select(b.ge(lane, distance), self.fold.both(lower, value), value)
            distance *= 2
        return value

    def of_lane_before(self, value: Value, lane: Value) -> Value:
        """The value of the previous lane; the neutral element for the first lane."""
        b = self.b
        return b.select(b.eq(lane, 0), self.fold.neutral(), b.subgroup_shuffle(value, 1, "up"))

    def before_chunks(self, totals: Sequence[Value]) -> list[list[Value]]:
        """Total before the chunk of the invocation, for each round: the chunks of its block, and the blocks."""
        layout, b, fold = self.layout, self.b, self.fold
        in_round = layout.column_lanes // SUBGROUP_SIZE
        count = in_round * len(totals)
        if count <= 1:
            return [[] for _ in totals]
        place = self.elements.memory.of("chunks", fold.dtype, count * layout.row_lanes)
        first = b.mul(self.elements.lane_of_rows(layout), count)
        chunk = b.shr(self.lane, SUBGROUP_SIZE.bit_length() - 1)
        b.barrier()
        with b.if_(b.eq(self.in_subgroup, SUBGROUP_SIZE - 1)):
            for j, total in enumerate(totals):
                b.store(total, place, b.add(first, b.add(chunk, j * in_round)))
        b.barrier()
        of_block = FOLDED // CHUNK
        lane, before = b.lane_id(), list[list[Value]]()
        total_before: Value | None = None
        for start in range(0, count, of_block):
            number = b.min(b.add(lane, start), count - 1)
            value = b.load(place, b.add(first, number))
            if start + of_block > count:
                value = b.select(b.lt(lane, count - start), value, fold.neutral())
            up_to = self.over_lanes(value, lane)
            previous = self.of_lane_before(up_to, lane)
            for j in range(start // in_round, min(len(totals), (start + of_block) // in_round)):
                number_in_block = b.add(chunk, j * in_round - start)
                before_chunk = b.subgroup_shuffle(previous, number_in_block, "idx")
                before.append([before_chunk] if total_before is None else [before_chunk, total_before])
            total = b.subgroup_shuffle(up_to, of_block - 1, "idx")
            total_before = total if total_before is None else fold.both(total_before, total)
        return before
