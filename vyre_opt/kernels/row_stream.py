"""A vector times a matrix by one subgroup that streams rows, the fast order on a CPU.

    sums[0 .. width)  +=  factor of row i * row i,  `unroll` rows at a time

The sums stay in a cache, memory is read from `unroll` places, one element after the other, and a sum is loaded and
stored once for so many products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir.builder import Builder
from ..ir.program import Buffer, Value
from ..ir.types import DataType
from .collective import SUBGROUP, offset
from .multiply_add import multiply_add, signed, zero

__all__ = ["RowStream"]


@dataclass(frozen=True)
class RowStream:
    """Adds rows of `matrix` to `sums`.

    `row_start(i)`: the index of the first element of row i.  `factor(i)`: what the row is multiplied by, as
    `signed` gives it.  `width`: elements of a row that count.
    """

    b: Builder
    dtype: DataType
    matrix: str
    sums: Buffer
    width: Value | int
    row_start: Callable[[Value], Value]
    factor: Callable[[Value], Value]

    def clear(self) -> None:
        self.each_turn(lambda column: self.b.store(zero(self.b, self.dtype), self.sums, column))

    def add(self, start: Value | int, stop: Value | int, unroll: int) -> None:
        """Add rows `start` to `stop`."""
        b = self.b
        if isinstance(start, int) and isinstance(stop, int):
            even: Value | int = start + (stop - start) // unroll * unroll
        else:
            count = b.sub(stop, start)
            even = b.add(b.sub(count, b.rem(count, unroll)), start)
        with b.for_(start, even, unroll, dtype=DataType.U32) as rows:
            self._add_rows([offset(b, rows.index, k) for k in range(unroll)])
        with b.for_(even, stop, dtype=DataType.U32) as rest:
            self._add_rows([rest.index])

    def _add_rows(self, rows: Sequence[Value]) -> None:
        b = self.b
        factors = [self.factor(row) for row in rows]
        starts = [self.row_start(row) for row in rows]

        def add(column: Value) -> None:
            total = b.load(self.sums, column)
            for factor, start in zip(factors, starts, strict=True):
                cell = b.load(self.matrix, b.add(start, column))
                total = multiply_add(b, factor, signed(b, cell), total)
            b.store(total, self.sums, column)

        self.each_turn(add)

    def each_turn(self, body: Callable[[Value], None]) -> None:
        """`body(column)` for all columns, 32 neighbouring ones at a time."""
        b, lane = self.b, self.b.lane_id()
        if isinstance(self.width, int):
            whole: Value | int = self.width // SUBGROUP * SUBGROUP
        else:
            whole = b.and_(self.width, ~(SUBGROUP - 1) & 0xFFFFFFFF)
        if whole != 0:
            with b.for_(0, whole, SUBGROUP, dtype=DataType.U32) as turn:
                body(b.add(turn.index, lane))
        if whole != self.width:
            last = b.add(lane, whole)
            with b.if_(b.lt(last, self.width)):
                body(last)
