"""Reductions over a workgroup, in the order that language.md fixes: the same for every layout.

positions that are a multiple of 4096 apart      in increasing order, by their lane
the remaining 4096:       bits 0 and 1           of a group of neighbours, by its lane
                          from bit 11 down       rounds of the workgroup, by the lane; then subgroups, through
                                                 workgroup memory; then the lanes of a subgroup, by shuffles

Down the columns of a block the order is the same, but neighbours are in different lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import arith
from ..ir.builder import Builder
from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Value
from ..ir.types import DataType
from .layout import FOLDED, GROUP, Layout
from .memory import Memory

__all__ = ["Fold"]

IN_SUBGROUP = SUBGROUP_SIZE.bit_length() - 1
"""Bits of a lane's number within its subgroup."""
AT_ONCE = 4
"""The most values of a lane that go through workgroup memory together."""

Row = Sequence[Value]


def _bits(lanes: int) -> int:
    """Bits that number the lanes."""
    return lanes.bit_length() - 1


class Fold:
    """Combines values of one type."""

    def __init__(
        self, b: Builder, combine: str, dtype: DataType, memory: Memory, workgroups: int = 1
    ) -> None:
        self.b, self.combine, self.dtype, self.memory = b, combine, dtype, memory
        self.workgroups = workgroups
        self.is_ordered = dtype.is_float and combine in ("add", "mul")
        """Whether the order changes results; if not, each lane combines its own values first."""

    def both(self, a: Value, c: Value) -> Value:
        return self.b.op(f"{self.combine}_" if self.combine in ("and", "or") else self.combine, a, c)

    def each(self, left: Row, right: Row) -> list[Value]:
        return [self.both(a, c) for a, c in zip(left, right, strict=True)]

    def neutral(self) -> Value:
        encoded = arith.neutral(self.combine, self.dtype)
        value = arith.decode_float(encoded, self.dtype) if self.dtype.is_float else encoded
        return self.b.const(bool(value) if self.dtype.is_bool else value, self.dtype)

    # --- along rows ------------------------------------------------------------------------------

    def along_rows(self, groups: Sequence[Row], layout: Layout) -> Value:
        """Combine all of a lane's groups of one row; each lane of the row gets the result."""
        lanes = 1 if layout.columns == 1 else layout.column_lanes
        totals = [[self.of_group(group)] for group in self.fold_rounds(groups, lanes * layout.width)]
        return self.across(totals, 0, lanes, layout, _bits(GROUP // layout.width))[0]

    def of_group(self, group: Row) -> Value:
        """Combine neighbours: two, then two of these."""
        while len(group) > 1:
            group = self.each(group[::2], group[1::2])
        return group[0]

    # --- down columns ----------------------------------------------------------------------------

    def down_columns(self, rows: Sequence[Row], layout: Layout) -> list[Value]:
        """Combine a lane's elements of its rows into sums of columns, in each lane of them."""
        lanes = 1 if layout.rows == 1 else layout.row_lanes
        return self.across(self.fold_rounds(rows, lanes), _bits(layout.column_lanes), lanes, layout)

    # --- steps of both ------------------------------------------------------------------------------

    def across(
        self, rounds: Sequence[Row], first: int, count: int, layout: Layout, low: int = _bits(GROUP)
    ) -> list[Value]:
        """Combine rounds of elements whose neighbours are in other lanes.

        The lanes differ in `count` places, numbered by bits from `first` on.  `low`: bits to combine before the rounds."""
        lanes, sums = _bits(count), [list(each) for each in rounds]
        exchanged_bits: list[int] = []
        low = low if self.is_ordered or layout.bands == 1 else 0
        for bit in range(low):
            if bit >= lanes:
                if len(sums) > 1:
                    sums = [self.each(sums[k], sums[k + 1]) for k in range(0, len(sums), 2)]
            elif lanes > 1 and len(sums) > 1 and first + bit < IN_SUBGROUP:
                sums = self.exchange_halves(sums, layout.lane_bit(first + bit))
                exchanged_bits.append(first + bit)
            else:
                flat, width = [value for row in sums for value in row], len(sums[0])
                flat = self.over_lanes(flat, [first + bit], layout)
                sums = [flat[at : at + width] for at in range(0, len(flat), width)]
        while len(sums) > 1:
            half = len(sums) // 2
            sums = [self.each(a, c) for a, c in zip(sums[:half], sums[half:], strict=True)]
        results = self.over_lanes(sums[0], exchanged_bits[::-1], layout)
        return self.over_lanes(results, range(first + low, first + lanes)[::-1], layout)

    def exchange_halves(self, rounds: Sequence[Row], bit: int) -> list[list[Value]]:
        """Half as many rounds, combined over lanes that differ in a bit: lanes without it get the even rounds, the others
        the odd ones.  So each lane sends half of its values."""
        b = self.b
        is_odd = b.ne(b.and_(b.local_id("x"), 1 << bit), 0)
        results: list[list[Value]] = []
        for even, odd in zip(rounds[::2], rounds[1::2], strict=True):
            keep = [b.select(is_odd, c, a) for a, c in zip(even, odd, strict=True)]
            send = [b.select(is_odd, a, c) for a, c in zip(even, odd, strict=True)]
            results.append(self.each(keep, [b.subgroup_shuffle(v, 1 << bit, "xor") for v in send]))
        return results

    def fold_rounds(self, rounds: Sequence[Row], step: int) -> list[list[Value]]:
        """Combine rounds of `step` positions that are a multiple of FOLDED apart; pad their number to a power of two."""
        period, sums = FOLDED // step, [list(each) for each in rounds[: FOLDED // step]]
        for number, values in enumerate(rounds[period:]):
            sums[number % period] = self.each(sums[number % period], values)
        count = 1
        while count < len(sums):
            count *= 2
        return sums + [[self.neutral()] * len(sums[0]) for _ in range(count - len(sums))]

    def halves(self, values: Row) -> Value:
        """Combine a power of two of values, from the highest bit of their number down."""
        while len(values) > 1:
            half = len(values) // 2
            values = self.each(values[:half], values[half:])
        return values[0]

    def over_lanes(self, values: Row, bits: Sequence[int], layout: Layout) -> list[Value]:
        """Combine each value over the lanes whose places differ in these bits, from the first bit to the last."""
        workgroup_bits = _bits(self.workgroups)  # of a lane's number, that say which workgroup it is in
        far = [bit - workgroup_bits for bit in bits if bit >= IN_SUBGROUP + workgroup_bits]
        results = list(values)
        if far:
            results = []
            for at in range(0, len(values), AT_ONCE):
                results += self.through_memory(values[at : at + AT_ONCE], far)
        if workgroup_bits and IN_SUBGROUP in bits:
            results = self.over_workgroups(results)
        near = [bit for bit in bits if bit < IN_SUBGROUP]
        if len(near) == IN_SUBGROUP:
            return [self.b.subgroup_reduce(value, self.combine) for value in results]
        for bit in near:
            distance = 1 << layout.lane_bit(bit)
            results = [self.both(v, self.b.subgroup_shuffle(v, distance, "xor")) for v in results]
        return results

    def through_memory(self, values: Row, bits: Sequence[int]) -> list[Value]:
        b, lanes = self.b, self.b.program.lanes
        place = self.memory.of("exchange", self.dtype, len(values) * lanes)
        lane = b.local_id("x")
        b.barrier()  # other lanes may still read the buffer's earlier contents
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

    def over_workgroups(self, values: Row) -> list[Value]:
        """Combine each value over the workgroups that share a row, lane by lane; all subgroups have the same values by now."""
        b, count = self.b, self.workgroups * SUBGROUP_SIZE
        place = self.memory.fresh("shared", self.dtype, len(values) * count)
        lane, rank = b.lane_id(), b.rem(b.workgroup_id("x"), self.workgroups)
        own_place = b.add(b.mul(rank, SUBGROUP_SIZE), lane)
        with b.if_(b.lt(b.local_id("x"), SUBGROUP_SIZE)):
            for number, value in enumerate(values):
                b.store(value, place, b.add(own_place, number * count) if number else own_place)
        b.barrier("cluster")
        parts = [
            [
                b.load(place, b.add(lane, number * count + each * SUBGROUP_SIZE))
                for each in range(self.workgroups)
            ]
            for number in range(len(values))
        ]
        return [self.halves(part) for part in parts]
