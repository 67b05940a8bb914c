"""A vector times a matrix by one subgroup that streams rows, the fast order on a CPU.

    sums[0 .. width)  +=  factor of row i * row i,  `unroll` rows at a time

The sums stay in a cache, memory is read from `unroll` places, one element after the other, and a sum is loaded and
stored once for so many products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

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
        if self.whole != 0:
            if isinstance(start, int) and isinstance(stop, int):
                even: Value | int = start + (stop - start) // unroll * unroll
            else:
                count = b.sub(stop, start)
                even = b.add(b.sub(count, b.rem(count, unroll)), start)
            with b.for_(start, even, unroll, dtype=DataType.U32) as rows:
                self._add_rows([offset(b, rows.index, k) for k in range(unroll)])
            with b.for_(even, stop, dtype=DataType.U32) as rest:
                self._add_rows([rest.index])
        # The columns behind the last turn are walked, since a masked turn of several rows is much code.
        with self._behind_the_turns() as column:
            if column is not None:
                with b.for_(start, stop, carry=[b.load(self.sums, column)], dtype=DataType.U32) as loop:
                    loop.yield_(
                        self._plus(loop.args[0], self.factor(loop.index), self.row_start(loop.index), column)
                    )
                b.store(loop.result, self.sums, column)

    def _add_rows(self, rows: Sequence[Value]) -> None:
        b = self.b
        factors = [self.factor(row) for row in rows]
        starts = [self.row_start(row) for row in rows]
        with b.for_(0, self.whole, SUBGROUP, dtype=DataType.U32) as turn:
            column = b.add(turn.index, b.lane_id())
            total = b.load(self.sums, column)
            for factor, start in zip(factors, starts, strict=True):
                total = self._plus(total, factor, start, column)
            b.store(total, self.sums, column)

    def _plus(self, total: Value, factor: Value, start: Value, column: Value) -> Value:
        b = self.b
        cell = b.load(self.matrix, b.add(start, column))
        return multiply_add(b, factor, signed(b, cell), total)

    def each_turn(self, body: Callable[[Value], None]) -> None:
        """`body(column)` for all columns, 32 neighbouring ones at a time."""
        b = self.b
        if self.whole != 0:
            with b.for_(0, self.whole, SUBGROUP, dtype=DataType.U32) as turn:
                body(b.add(turn.index, b.lane_id()))
        with self._behind_the_turns() as column:
            if column is not None:
                body(column)

    @cached_property
    def whole(self) -> Value | int:
        """The columns in turns of 32."""
        if isinstance(self.width, int):
            return self.width // SUBGROUP * SUBGROUP
        return self.b.and_(self.width, ~(SUBGROUP - 1) & 0xFFFFFFFF)

    @contextmanager
    def _behind_the_turns(self) -> Iterator[Value | None]:
        """This lane's column behind the last turn, in a branch of those that have one; None where none has."""
        if self.whole == self.width:
            yield None
            return
        column = self.b.add(self.b.lane_id(), self.whole)
        with self.b.if_(self.b.lt(column, self.width)):
            yield column
