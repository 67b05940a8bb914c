"""A vector times a matrix by one subgroup that streams rows, the fast order on a CPU.

    sums[0 .. width)  +=  factor of row i * row i,  `unroll` rows at a time

The sums stay in a cache, memory is read from `unroll` places, one element after the other, and a sum is loaded and
stored once for so many products.  A turn adds 32 columns; the last one of a row is shifted back until it ends where
the row does, and has sums of its own for all of its columns, so that no turn has a mask:

    columns  0..31   32..63   38..69      of a row of 70
    sums     0..31   32..63   64..95      those of columns 38..63 are not looked at
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

from ..ir.builder import Builder
from ..ir.program import Buffer, Value
from ..ir.types import DataType
from ..records import dataclass
from .collective import SUBGROUP, offset
from .multiply_add import multiply_add, signed, zero

__all__ = ["RowStream"]


@dataclass(frozen=True)
class RowStream:
    """Adds rows of `matrix`, `width` columns of them from `first` on, to `sums`, a whole number of turns.

    `row_start(i)`: the index of the first element of row i.  `row_length`: elements of a row, 32 at least.
    `factor(i)`: what the row is multiplied by, as `signed` gives it.
    """

    b: Builder
    dtype: DataType
    matrix: str
    sums: Buffer
    first: Value | int
    width: Value | int
    row_length: Value | int
    row_start: Callable[[Value], Value]
    factor: Callable[[Value], Value]

    def clear(self) -> None:
        with self._turn() as (index, _, _):
            self.b.store(zero(self.b, self.dtype), self.sums, index)

    def add(self, start: Value | int, stop: Value | int, unroll: int) -> None:
        """Add rows `start` to `stop`."""
        b = self.b
        if isinstance(start, int) and isinstance(stop, int):
            even: Value | int = stop - (stop - start) % unroll
        else:
            even = b.sub(stop, b.rem(b.sub(stop, start), unroll))
        with b.for_(start, even, unroll, dtype=DataType.U32) as rows:
            self._add_rows([offset(b, rows.index, k) for k in range(unroll)])
        with b.for_(even, stop, dtype=DataType.U32) as rest:
            self._add_rows([rest.index])

    def each(self, body: Callable[[Value, Value], None]) -> None:
        """`body(sum, column)` once for each column, 32 neighbouring ones at a time."""
        with self._turn() as (index, column, unshifted), self.b.if_(self.b.ge(column, unshifted)):
            body(self.b.load(self.sums, index), column)

    def _add_rows(self, rows: Sequence[Value]) -> None:
        b = self.b
        factors = [self.factor(row) for row in rows]
        starts = [self.row_start(row) for row in rows]
        with self._turn() as (index, column, _):
            total: Value = b.load(self.sums, index)
            for factor, start in zip(factors, starts, strict=True):
                cell = b.load(self.matrix, b.add(start, column))
                total = multiply_add(b, factor, signed(b, cell), total)
            b.store(total, self.sums, index)

    @contextmanager
    def _turn(self) -> Iterator[tuple[Value, Value, Value]]:
        """A loop over turns: the index of this lane's sum, its column, and that of the first lane if it is not shifted."""
        b, last = self.b, self._last_turn
        with b.for_(0, self._turns, dtype=DataType.U32) as loop:
            ahead = b.mul(loop.index, SUBGROUP)
            begin = (
                b.add(self.first, ahead) if isinstance(self.first, Value) else offset(b, ahead, self.first)
            )
            column = b.add(b.min(begin, last), b.lane_id())
            yield b.add(ahead, b.lane_id()), column, begin

    @cached_property
    def _turns(self) -> Value | int:
        if isinstance(self.width, int):
            return -(-self.width // SUBGROUP)
        return self.b.div(self.b.add(self.width, SUBGROUP - 1), SUBGROUP)

    @cached_property
    def _last_turn(self) -> Value | int:
        """The first column of a turn that ends where the row does."""
        if isinstance(self.row_length, int):
            return self.row_length - SUBGROUP
        return self.b.sub(self.row_length, SUBGROUP)
