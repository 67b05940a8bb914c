"""Elements combined over a workgroup, in the order that language.md fixes: the same for every layout.

positions that are a multiple of 4096 apart      in increasing order, by the lane that has them
the 4096 that are left:   bits 0 and 1           of a group of neighbours, by its lane
                          from bit 11 down       rounds of the workgroup, by the lane; then subgroups, through
                                                 workgroup memory; then the lanes of a subgroup, by shuffles

Down the rows of a block it is the same, but that neighbours are in other lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import arith
from ..ir.builder import Builder
from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Value
from ..ir.types import DataType
from .layout import Layout
from .memory import Memory
from .schedule import FOLDED, GROUP

__all__ = ["Fold"]

IN_SUBGROUP = SUBGROUP_SIZE.bit_length() - 1
"""Bits of a lane's number that say which of its subgroup it is."""
AT_ONCE = 4
"""Values of a lane that go through workgroup memory together, at most."""

Row = Sequence[Value]


class Fold:
    """Combines values of one type."""

    def __init__(self, b: Builder, combine: str, dtype: DataType, memory: Memory) -> None:
        self.b, self.combine, self.dtype, self.memory = b, combine, dtype, memory

    def both(self, a: Value, c: Value) -> Value:
        return self.b.op(f"{self.combine}_" if self.combine in ("and", "or") else self.combine, a, c)

    def each(self, some: Row, others: Row) -> list[Value]:
        return [self.both(a, c) for a, c in zip(some, others, strict=True)]

    def neutral(self) -> Value:
        encoded = arith.neutral(self.combine, self.dtype)
        value = arith.decode_float(encoded, self.dtype) if self.dtype.is_float else encoded
        return self.b.const(bool(value) if self.dtype.is_bool else value, self.dtype)

    # --- along rows ------------------------------------------------------------------------------

    def along_rows(self, groups: Sequence[Row], layout: Layout) -> Value:
        """Of a lane's groups of one row, all of them, in each lane of the row."""
        step = layout.column_lanes * layout.width
        total = self.halves([self.of_group(group) for group in self.folded(groups, step)])
        lanes = 0 if layout.columns == 1 else _bits(layout.column_lanes)
        return self.over_lanes([total], range(lanes)[::-1])[0]

    def of_group(self, group: Row) -> Value:
        if len(group) < GROUP:
            return group[0]
        a, c, d, e = group
        return self.both(self.both(a, c), self.both(d, e))

    # --- down columns ----------------------------------------------------------------------------

    def down_columns(self, rows: Sequence[Row], layout: Layout) -> list[Value]:
        """Of a lane's elements of its rows, the sums of columns, in each lane of them."""
        across, lanes = _bits(layout.column_lanes), 0 if layout.rows == 1 else _bits(layout.row_lanes)
        columns = self.folded(rows, layout.row_lanes)
        for bit in range(2):
            if bit < lanes:
                flat = self.over_lanes([value for row in columns for value in row], [across + bit])
                width = len(columns[0])
                columns = [flat[at : at + width] for at in range(0, len(flat), width)]
            elif len(columns) > 1:
                columns = [self.each(columns[k], columns[k + 1]) for k in range(0, len(columns), 2)]
        while len(columns) > 1:
            half = len(columns) // 2
            columns = [self.each(a, c) for a, c in zip(columns[:half], columns[half:], strict=True)]
        return self.over_lanes(columns[0], range(across + 2, across + lanes)[::-1])

    # --- what both are made of ----------------------------------------------------------------------

    def folded(self, rounds: Sequence[Row], step: int) -> list[list[Value]]:
        """Rounds of so many positions each: those a multiple of FOLDED apart combined, and as many as a power of two."""
        most, sums = FOLDED // step, [list(each) for each in rounds[: FOLDED // step]]
        for number, values in enumerate(rounds[most:]):
            sums[number % most] = self.each(sums[number % most], values)
        count = 1
        while count < len(sums):
            count *= 2
        return sums + [[self.neutral()] * len(sums[0]) for _ in range(count - len(sums))]

    def halves(self, values: Row) -> Value:
        """As many values as a power of two, from the highest bit of their number down."""
        while len(values) > 1:
            half = len(values) // 2
            values = self.each(values[:half], values[half:])
        return values[0]

    def over_lanes(self, values: Row, bits: Sequence[int]) -> list[Value]:
        """Each value combined with those of the lanes whose numbers differ in these bits, from the first bit to the last."""
        far = [bit for bit in bits if bit >= IN_SUBGROUP]
        combined = list(values)
        if far:
            combined = []
            for at in range(0, len(values), AT_ONCE):
                combined += self.through_memory(values[at : at + AT_ONCE], far)
        near = [bit for bit in bits if bit < IN_SUBGROUP]
        if len(near) == IN_SUBGROUP:
            return [self.b.subgroup_reduce(value, self.combine) for value in combined]
        for bit in near:
            combined = [self.both(v, self.b.subgroup_shuffle(v, 1 << bit, "xor")) for v in combined]
        return combined

    def through_memory(self, values: Row, bits: Sequence[int]) -> list[Value]:
        b, lanes = self.b, self.b.program.lanes
        place = self.memory.of("exchange", self.dtype, len(values) * lanes)
        lane = b.local_id("x")
        b.barrier()  # others may still read what was there
        for number, value in enumerate(values):
            b.store(value, place, b.add(lane, number * lanes) if number else lane)
        b.barrier()
        first = b.and_(lane, lanes - 1 - sum(1 << bit for bit in bits))
        offsets = [0]
        for bit in bits[::-1]:
            offsets = [*offsets, *(offset + (1 << bit) for offset in offsets)]
        sums: list[Value] = []
        for number in range(len(values)):
            at = [b.add(first, offset + number * lanes) for offset in offsets]
            sums.append(self.halves([b.load(place, each) for each in at]))
        return sums


def _bits(lanes: int) -> int:
    """Of the numbers of so many lanes."""
    return lanes.bit_length() - 1
