"""Elements combined over a workgroup, in the order that language.md fixes: the same for any number of lanes.

positions that are a multiple of 4096 apart      in increasing order, by the lane that has them
the 4096 that are left:   bits 0 and 1           of a group of neighbours, by its lane
                          from bit 11 down       rounds of the workgroup, by the lane; then subgroups, through
                                                 workgroup memory; then the lanes of a subgroup, by shuffles
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import arith
from ..ir.builder import Builder
from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Value
from ..ir.types import DataType

__all__ = ["Fold"]


class Fold:
    """Combines values of one type.  `exchange`: the workgroup buffer that partial results go through, with an element for
    each lane."""

    def __init__(self, b: Builder, combine: str, dtype: DataType, exchange: str) -> None:
        self.b, self.combine, self.dtype, self.exchange = b, combine, dtype, exchange

    def both(self, a: Value, c: Value) -> Value:
        return self.b.op(f"{self.combine}_" if self.combine in ("and", "or") else self.combine, a, c)

    def each(self, some: Sequence[Value], others: Sequence[Value]) -> list[Value]:
        return [self.both(a, c) for a, c in zip(some, others, strict=True)]

    def neutral(self) -> Value:
        encoded = arith.neutral(self.combine, self.dtype)
        value = arith.decode_float(encoded, self.dtype) if self.dtype.is_float else encoded
        return self.b.const(bool(value) if self.dtype.is_bool else value, self.dtype)

    def in_groups(self, rounds: Sequence[Sequence[Value]]) -> Value:
        """Of a lane: the groups of its rounds."""
        totals = [self.both(self.both(a, c), self.both(d, e)) for a, c, d, e in rounds]
        return self.halves(totals)

    def halves(self, values: Sequence[Value]) -> Value:
        """As many values as a power of two, from the highest bit of their number down."""
        while len(values) > 1:
            half = len(values) // 2
            values = self.each(values[:half], values[half:])
        return values[0]

    def over_lanes(self, value: Value) -> Value:
        """The values of all lanes, in each of them."""
        b, lanes = self.b, self.b.program.lanes
        b.barrier()  # others may still read what was there
        b.store(value, self.exchange, b.local_id("x"))
        b.barrier()
        lane = b.lane_id()
        at = [b.add(lane, start) if start else lane for start in range(0, lanes, SUBGROUP_SIZE)]
        return b.subgroup_reduce(self.halves([b.load(self.exchange, each) for each in at]), self.combine)
