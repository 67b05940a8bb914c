"""math.matmul on a CPU without copies, for so few rows that a copy of B would cost more than their products.

One subgroup has `rows` rows of C at a time, its lanes and `vectors` over columns; it reads B row by row, where it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.program import Value
from ..ir.types import DataType
from .collective import SUBGROUP, as_type, offset
from .matmul_form import MatmulForm

__all__ = ["Direct"]


class Direct(MatmulForm):
    def block(self, row: Value, column: Value) -> None:
        self.each_rows(row, lambda rows: self.add_rows(rows, column))

    def add_rows(self, rows: Sequence[Value], column: Value) -> None:
        b = self.b
        columns = [
            b.add(column, offset(b, b.lane_id(), k * SUBGROUP))
            for k in range(self.schedule.columns_per_thread)
        ]
        exist = [b.lt(each, self.columns) for each in columns]
        starts = [self.index("a", each, self.depth, b.const(0)) for each in rows]
        zeros = [b.const(0.0, self.sums)] * (len(rows) * len(columns))
        with b.for_(0, self.depth, carry=zeros, dtype=DataType.U32) as depth:
            pairs = zip(columns, exist, strict=True)
            cells = [self.element("b", depth.index, self.columns, each, exists) for each, exists in pairs]
            sums = iter(depth.args)
            totals = []
            for start in starts:
                factor = as_type(b, b.load("a", b.add(start, depth.index)), self.sums)
                totals += [b.fma(factor, cell, next(sums)) for cell in cells]
            depth.yield_(*totals)
        results = iter(depth.results)
        for each in rows:
            for own_column, exists in zip(columns, exist, strict=True):
                self.put([next(results)], each, own_column, exists)
