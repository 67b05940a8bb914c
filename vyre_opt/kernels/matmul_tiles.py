"""math.matmul on a GPU without matrix units: a workgroup has a block of C in its registers.

A step of A and of B lies in workgroup memory, zeros beyond the edges of both, so that the loop over it has no branch.
Lane (x, y) has the sums of the rows y, y + lanes_m, ... and the columns x, x + lanes_n, ... of the block: of what the lanes
of a subgroup load together, neighbours in a row are neighbours in memory, and rows of A, which are one element longer
than a step, lie in different banks.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.program import Value
from ..ir.types import DataType
from .collective import offset
from .matmul_form import MatmulForm, MatmulProblem, MatmulSchedule

__all__ = ["Tiles"]


class Tiles(MatmulForm):
    def __init__(self, b: Builder, problem: MatmulProblem, schedule: MatmulSchedule) -> None:
        super().__init__(b, problem, schedule)
        self.lanes_m = schedule.lanes // schedule.lanes_n
        self.pitch = schedule.block_k + 1
        b.buffer("tile_a", self.sums, schedule.block_m * self.pitch, "workgroup")
        b.buffer("tile_b", self.sums, schedule.block_k * schedule.block_n, "workgroup")

    def block(self, row: Value, column: Value) -> None:
        b, schedule = self.b, self.schedule
        lane = b.local_id("x")
        x, y = b.rem(lane, schedule.lanes_n, name="x"), b.div(lane, schedule.lanes_n, name="y")
        rows = [offset(b, y, k * self.lanes_m) for k in range(schedule.rows_per_thread)]
        columns = [offset(b, x, k * schedule.lanes_n) for k in range(schedule.columns_per_thread)]
        zeros = [b.const(0.0, self.sums)] * (len(rows) * len(columns))
        with b.for_(0, self.depth, schedule.block_k, carry=zeros, dtype=DataType.U32) as steps:
            self.copy(row, column, steps.index)
            b.barrier("workgroup")
            with b.for_(0, schedule.block_k, carry=steps.args, dtype=DataType.U32) as depth:
                left = [b.load("tile_a", b.add(b.mul(each, self.pitch), depth.index)) for each in rows]
                right = [
                    b.load("tile_b", b.add(b.mul(depth.index, schedule.block_n), each)) for each in columns
                ]
                sums = iter(depth.args)
                depth.yield_(*[b.fma(factor, cell, next(sums)) for factor in left for cell in right])
            b.barrier("workgroup")
            steps.yield_(*depth.results)
        totals = iter(steps.results)
        for each in rows:
            row_here = b.add(row, each)
            in_rows = b.lt(row_here, self.rows)
            for other in columns:
                column_here = b.add(column, other)
                self.put(
                    next(totals), row_here, column_here, b.and_(in_rows, b.lt(column_here, self.columns))
                )

    def copy(self, row: Value, column: Value, start: Value) -> None:
        """A step of A and B, from `start` on along the depth, to workgroup memory, all lanes together."""
        b, schedule = self.b, self.schedule
        lane = b.local_id("x")
        with b.for_(lane, schedule.block_m * schedule.block_k, schedule.lanes) as cells:
            down, along = b.div(cells.index, schedule.block_k), b.rem(cells.index, schedule.block_k)
            row_here, depth = b.add(row, down), b.add(start, along)
            exists = b.and_(b.lt(row_here, self.rows), b.lt(depth, self.depth))
            value = self.element("a", row_here, self.depth, depth, exists)
            b.store(value, "tile_a", b.add(b.mul(down, self.pitch), along))
        with b.for_(lane, schedule.block_k * schedule.block_n, schedule.lanes) as cells:
            along, side = b.div(cells.index, schedule.block_n), b.rem(cells.index, schedule.block_n)
            column_here, depth = b.add(column, side), b.add(start, along)
            exists = b.and_(b.lt(column_here, self.columns), b.lt(depth, self.depth))
            b.store(self.element("b", depth, self.columns, column_here, exists), "tile_b", cells.index)
