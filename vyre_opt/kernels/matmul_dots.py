"""math.matmul for a vector instead of B: lanes along the depth, whose sums are added up at the end.

One subgroup has `rows` rows of C at a time, and `vectors` columns.  Of both factors of a product with a single column,
lanes side by side read neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.program import Value
from ..ir.types import DataType
from .collective import SUBGROUP, offset, subgroup_total
from .matmul_form import MatmulForm

__all__ = ["Dots"]


class Dots(MatmulForm):
    def block(self, row: Value, column: Value) -> None:
        b = self.b
        columns = [offset(b, column, k) for k in range(self.schedule.columns_per_thread)]
        self.each_rows(row, lambda rows: self.add_rows(rows, columns))

    def add_rows(self, rows: Sequence[Value], columns: Sequence[Value]) -> None:
        b = self.b
        lane = b.lane_id()
        exist = [b.lt(each, self.columns) for each in columns]
        zeros = [b.const(0.0, self.sums)] * (len(rows) * len(columns))
        whole = b.sub(self.depth, b.rem(self.depth, SUBGROUP), name="whole")
        with b.for_(0, whole, SUBGROUP, carry=zeros, dtype=DataType.U32) as depth:
            at = b.add(depth.index, lane)
            depth.yield_(*self.products(rows, columns, at, b.const(True, DataType.BOOL), exist, depth.args))
        rest = b.add(whole, lane)
        sums = self.products(rows, columns, rest, b.lt(rest, self.depth), exist, depth.results)
        totals = iter([subgroup_total(b, total, "add") for total in sums])
        for each in rows:
            for column, exists in zip(columns, exist, strict=True):
                self.put([next(totals)], each, column, b.and_(exists, b.eq(lane, 0)))

    def products(
        self,
        rows: Sequence[Value],
        columns: Sequence[Value],
        at: Value,
        in_depth: Value,
        exist: Sequence[Value],
        sums: Sequence[Value],
    ) -> list[Value]:
        """`sums` and the products of a lane's position along the depth, if it is `in_depth`."""
        b = self.b
        cells = [
            self.element("b", at, self.columns, column, b.and_(in_depth, exists))
            for column, exists in zip(columns, exist, strict=True)
        ]
        factors = [self.element("a", row, self.depth, at, in_depth) for row in rows]
        pairs = ((factor, cell) for factor in factors for cell in cells)
        return [b.fma(factor, cell, total) for (factor, cell), total in zip(pairs, sums, strict=True)]
