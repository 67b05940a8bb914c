"""math.matmul on a CPU: one subgroup, whose lanes are those of the vector registers, over a panel of B.

        columns    0..31 32..63
                  +------+------+
        step      |   @panel    |      rows of B, copied side by side, stay in the second cache
                  +------+------+
        rows of A | sums | sums |      `rows_per_thread` times `columns_per_thread` sums of a lane, in registers
                  +------+------+

An element of A is loaded once for all columns of the panel, a vector of B once for `rows_per_thread` rows.  The copy is made once
for a whole block of C.  It makes neighbours of what the inner loop reads, however long the rows of B are, and takes
edges and conversions out of that loop: columns beyond the last are zeros.  Where the depth has several steps, the sums
wait in @sums meanwhile.  Of both, a lane reads only what it wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.builder import Builder
from ..ir.program import Value
from ..ir.types import DataType
from .collective import SUBGROUP, as_type, offset
from .matmul_form import MatmulForm, MatmulProblem, MatmulSchedule

__all__ = ["Panels"]


class Panels(MatmulForm):
    def __init__(self, b: Builder, problem: MatmulProblem, schedule: MatmulSchedule) -> None:
        super().__init__(b, problem, schedule)
        self.width = schedule.block_n
        b.buffer("panel", self.sums, schedule.block_k * self.width, "workgroup")
        b.buffer("sums", self.sums, schedule.block_m * self.width, "workgroup")

    def block(self, row: Value, column: Value) -> None:
        b, schedule = self.b, self.schedule
        with b.for_(0, self.depth, schedule.block_k, dtype=DataType.U32) as steps:
            start = steps.index
            length = b.min(b.sub(self.depth, start), schedule.block_k, name="length")
            self.copy_panel(start, length, column)
            self.each_rows(row, lambda rows: self.add_rows(rows, row, column, start, length))

    def copy_panel(self, start: Value, length: Value, column: Value) -> None:
        """Rows `start` to `start + length` of B, from `column` on, to @panel."""
        b = self.b
        with b.for_(0, length, dtype=DataType.U32) as rows:
            for lane_column in self.own_columns():
                index = b.add(column, lane_column)
                exists = b.lt(index, self.columns)
                value = self.element("b", b.add(start, rows.index), self.columns, index, exists)
                b.store(value, "panel", b.add(b.mul(rows.index, self.width), lane_column))

    def add_rows(self, rows: Sequence[Value], row: Value, column: Value, start: Value, length: Value) -> None:
        """Add the products of a step to the sums of some rows of the block, and store them in C after the last step."""
        b = self.b
        indices = [
            b.add(b.mul(b.sub(each, row), self.width), lane_column)
            for each in rows
            for lane_column in self.own_columns()
        ]
        with b.if_(b.eq(start, 0)) as first:
            first.yield_(*[b.const(0.0, self.sums)] * len(indices))
        with first.else_():
            first.yield_(*[b.load("sums", index) for index in indices])
        starts = [self.index("a", each, self.depth, start) for each in rows]
        with b.for_(0, length, carry=first.results, dtype=DataType.U32) as depth:
            cells = [
                b.load("panel", b.add(b.mul(depth.index, self.width), lane_column))
                for lane_column in self.own_columns()
            ]
            sums = iter(depth.args)
            totals: list[Value] = []
            for first_cell in starts:
                factor = as_type(b, b.load("a", b.add(first_cell, depth.index)), self.sums)
                totals += [b.fma(factor, cell, next(sums)) for cell in cells]
            depth.yield_(*totals)
        with b.if_(b.eq(b.add(start, length), self.depth)) as last:
            totals_of = iter(depth.results)
            for each in rows:
                for lane_column in self.own_columns():
                    target = b.add(column, lane_column)
                    self.put([next(totals_of)], each, target, b.lt(target, self.columns))
        with last.else_():
            for total, index in zip(depth.results, indices, strict=True):
                b.store(total, "sums", index)

    def own_columns(self) -> list[Value]:
        """The columns of the panel that are this lane's."""
        return [
            offset(self.b, self.b.lane_id(), k * SUBGROUP) for k in range(self.schedule.columns_per_thread)
        ]
