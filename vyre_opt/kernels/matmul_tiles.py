"""math.matmul on a GPU without matrix units: a workgroup has a block of C in its registers.

Steps of A and of B lie in two places of workgroup memory.  While the lanes multiply by one of them, what they have loaded
of the next step waits in registers, and goes to the other place:

    place         0        1        0        1
    loaded      k = 0    k = 1    k = 2    k = 3
    multiplied           k = 0    k = 1    k = 2 ...       one barrier a step

A lies there transposed, so that a lane loads factors of both as vectors: those of the rows and the columns that it has side by
side, `vector_m` and `vector_n`, which it has once in each of equal parts of the block.  Lanes of a subgroup are `tall` by
`wide`:

                  x 0     1     2  ..  7
            y 0   0     2     4     14         lanes 0 and 1 have other rows and the same columns, lanes 0 and 2 the same
              1   1     3     5     15         rows and other columns: of a vector of 16 bytes that all of such pairs share,
              2  16    18    20     30         half a subgroup is served at once
              3  17    19    21     31

Rows and columns beyond the ends of C are computed from the last ones that there are, and not stored; beyond the depth there
are zeros.  So only the last step has a branch for each load.  With `prefetch`, the factors of a position of the depth are loaded
while those of the one before are multiplied, over the barrier, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import gcd

from ..ir.builder import Builder
from ..ir.program import Value
from ..ir.types import DataType
from ..records import dataclass
from .collective import SUBGROUP, as_type, elements, guarded, joined, offset
from .matmul_form import MatmulForm, MatmulProblem, MatmulSchedule
from .powers_of_two import power_of

__all__ = ["Tiles"]

WIDE = 8  # lanes of a subgroup over columns, where the lanes of a workgroup allow


@dataclass(frozen=True)
class _Piece:
    """Elements that a lane copies: where they are in a tile, and in the buffer for the first step of the depth."""

    row: Value
    column: Value
    origin: Value


class Tiles(MatmulForm):
    def __init__(self, b: Builder, problem: MatmulProblem, schedule: MatmulSchedule) -> None:
        super().__init__(b, problem, schedule)
        s = schedule
        self.lanes_m = s.lanes // s.lanes_n
        most = problem.vector
        self.vector_m, self.vector_n = power_of(s.rows_per_thread, most), power_of(s.columns_per_thread, most)
        self.a_piece = self.piece(self.depth_multiple, s.block_k, s.block_m)
        self.b_piece = self.piece(self.columns_multiple, s.block_n, s.block_k)
        b.buffer("tile_a", self.sums, (2, s.block_k, s.block_m + self.vector_m), "workgroup")
        b.buffer("tile_b", self.sums, (2, s.block_k, s.block_n), "workgroup")

    def piece(self, multiple: int, line: int, lines: int) -> int:
        """Elements that a lane moves at a time of lines of a tile; of its buffer's, the length is a multiple of `multiple`."""
        return power_of(gcd(multiple, line, line * lines // self.schedule.lanes), self.problem.vector)

    def block(self, row: Value, column: Value) -> None:
        b, s = self.b, self.schedule
        with b.if_(b.lt(row, self.rows)):
            self.locate(row, column)
            self.store_step(b.const(0), self.load_step(b.const(0)))
            b.barrier("workgroup")
            zeros = [b.const(0.0, self.sums)] * (s.rows_per_thread * s.columns_per_thread)
            first = self.factors(b.const(0), b.const(0)) if s.prefetch else []
            with b.for_(0, self.depth, s.block_k, carry=[*zeros, *first], dtype=DataType.U32) as steps:
                sums: Sequence[Value] = steps.args[: len(zeros)]
                factors: Sequence[Value] = steps.args[len(zeros) :]
                place = b.and_(b.div(steps.index, s.block_k), 1, name="place")
                other = b.xor(place, 1)
                following = self.load_step(b.add(steps.index, s.block_k))
                if s.prefetch:
                    for depth in range(1, s.block_k):
                        ahead = self.factors(place, b.const(depth))
                        sums, factors = self.multiplied(factors, sums), ahead
                else:
                    sums = self.multiply_step(place, sums)
                self.store_step(other, following)
                b.barrier("workgroup")
                if s.prefetch:  # after the last step, zeros
                    ahead = self.factors(other, b.const(0))
                    sums, factors = self.multiplied(factors, sums), ahead
                steps.yield_(*sums, *factors)
            if s.prefetch and s.strided:
                b.barrier("workgroup")  # the next block begins in the place that was read last
            self.store_block(row, column, steps.results[: len(zeros)])

    def locate(self, row: Value, column: Value) -> None:
        """Elements that a lane copies, and the rows and columns of its part of the block, the first of each vector."""
        b, s = self.b, self.schedule
        lane = b.local_id("x")
        last_row, last_column = b.sub(self.rows, 1), b.sub(self.columns, self.b_piece)
        self.whole = b.sub(self.depth, b.rem(self.depth, s.block_k), name="whole")

        def of_a(down: Value, along: Value) -> Value:
            return self.index("a", b.min(b.add(row, down), last_row), self.depth, along)

        def of_b(down: Value, along: Value) -> Value:
            return self.index("b", down, self.columns, b.min(b.add(column, along), last_column))

        self.pieces_a = self.pieces(s.block_m, s.block_k, self.a_piece, of_a)
        self.pieces_b = self.pieces(s.block_k, s.block_n, self.b_piece, of_b)

        wide = min(_widths(s.lanes_n, self.lanes_m), key=lambda width: abs(width - WIDE))
        tall = SUBGROUP // wide
        pair = min(tall, 2)
        in_subgroup = b.rem(lane, SUBGROUP)
        x = b.rem(b.div(in_subgroup, pair), wide)
        y = b.add(b.rem(lane, pair), b.mul(b.div(in_subgroup, pair * wide), pair))
        subgroup, across = b.div(lane, SUBGROUP), s.lanes_n // wide
        x = b.mul(b.add(b.mul(b.rem(subgroup, across), wide), x), self.vector_n, name="x")
        y = b.mul(b.add(b.mul(b.div(subgroup, across), tall), y), self.vector_m, name="y")
        self.own_rows = [offset(b, y, k * self.lanes_m) for k in range(0, s.rows_per_thread, self.vector_m)]
        self.own_columns = [
            offset(b, x, k * s.lanes_n) for k in range(0, s.columns_per_thread, self.vector_n)
        ]

    # --- from memory to a place in workgroup memory

    def pieces(
        self, lines: int, line: int, piece: int, origin: Callable[[Value, Value], Value]
    ) -> list[_Piece]:
        """The pieces of a tile of so many lines that a lane copies: neighbouring lanes have neighbouring ones."""
        b, lanes, across = self.b, self.schedule.lanes, line // piece
        lane = b.local_id("x")
        row, column = b.div(lane, across), b.mul(b.rem(lane, across), piece)
        made: list[_Piece] = []
        for first in range(0, lines * across, lanes):
            if lanes % across == 0:
                here = offset(b, row, first // across)
            else:
                number = b.add(lane, first)
                here, column = b.div(number, across), b.mul(b.rem(number, across), piece)
            made.append(_Piece(here, column, origin(here, column)))
        return made

    def load_step(self, start: Value) -> list[Value]:
        """The pieces of A and of B for the step that begins at `start`, as far as it lies in the depth; else zeros."""
        b = self.b
        step_b = b.mul(start, self.columns)

        def load(is_whole: bool) -> list[Value]:
            loaded = []
            for piece in self.pieces_a:
                exists = None if is_whole else b.lt(b.add(start, piece.column), self.depth)
                loaded.append(self.load("a", b.add(piece.origin, start), self.a_piece, exists))
            for piece in self.pieces_b:
                exists = None if is_whole else b.lt(b.add(start, piece.row), self.depth)
                loaded.append(self.load("b", b.add(piece.origin, step_b), self.b_piece, exists))
            return loaded

        with b.if_(b.lt(start, self.whole)) as branch:
            branch.yield_(*load(True))
        with branch.else_():
            branch.yield_(*load(False))
        return list(branch.results)

    def load(self, buffer: str, index: Value, piece: int, exists: Value | None) -> Value:
        """A piece as it is stored: conversions would wait for it."""
        return guarded(self.b, exists, lambda: self.b.load(buffer, index, piece))

    def store_step(self, place: Value, loaded: Sequence[Value]) -> None:
        b, count = self.b, len(self.pieces_a)
        for piece, value in zip(self.pieces_a, loaded[:count], strict=True):
            for ahead, element in enumerate(elements(b, value)):
                at = (place, offset(b, piece.column, ahead), piece.row)
                b.store(as_type(b, element, self.sums), "tile_a", at)
        for piece, value in zip(self.pieces_b, loaded[count:], strict=True):
            values = [as_type(b, element, self.sums) for element in elements(b, value)]
            b.store(joined(b, values), "tile_b", (place, piece.row, piece.column))

    # --- products and results

    def multiply_step(self, place: Value, sums: Sequence[Value]) -> Sequence[Value]:
        """`sums` and the products of a step."""
        b, s = self.b, self.schedule
        if s.unroll == s.block_k:
            return self.multiply_run(place, b.const(0), sums)
        with b.for_(0, s.block_k, s.unroll, carry=sums, dtype=DataType.U32) as depth:
            depth.yield_(*self.multiply_run(place, depth.index, depth.args))
        return depth.results

    def multiply_run(self, place: Value, start: Value, sums: Sequence[Value]) -> Sequence[Value]:
        """`unroll` positions of a step, from `start` on."""
        for ahead in range(self.schedule.unroll):
            sums = self.multiplied(self.factors(place, offset(self.b, start, ahead)), sums)
        return sums

    def multiplied(self, factors: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
        """`sums` and the products of the factors of one position of the depth."""
        rows = self.schedule.rows_per_thread
        pairs = zip(product(factors[:rows], factors[rows:]), sums, strict=True)
        return [self.b.fma(left, right, total) for (left, right), total in pairs]

    def factors(self, place: Value, depth: Value) -> list[Value]:
        """The elements of A, and of B, that a lane multiplies at a position of the depth."""
        b = self.b
        left = [b.load("tile_a", (place, depth, row), self.vector_m) for row in self.own_rows]
        right = [b.load("tile_b", (place, depth, column), self.vector_n) for column in self.own_columns]
        return [factor for loaded in left + right for factor in elements(b, loaded)]

    def store_block(self, row: Value, column: Value, sums: Sequence[Value]) -> None:
        b = self.b
        width = min(self.columns_multiple, self.vector_n)
        rows = [b.add(row, offset(b, start, k)) for start in self.own_rows for k in range(self.vector_m)]
        runs = [
            b.add(column, offset(b, start, k))
            for start in self.own_columns
            for k in range(0, self.vector_n, width)
        ]
        in_columns = [b.lt(run, self.columns) for run in runs]
        totals = iter(sums)
        for each in rows:
            in_rows = b.lt(each, self.rows)
            for run, exists in zip(runs, in_columns, strict=True):
                self.put([next(totals) for _ in range(width)], each, run, b.and_(in_rows, exists))


def _widths(lanes_n: int, lanes_m: int) -> list[int]:
    """Lanes side by side that a subgroup may have in a workgroup of `lanes_m` x `lanes_n`."""
    widths = [1 << k for k in range(SUBGROUP.bit_length())]
    return [width for width in widths if lanes_n % width == 0 and lanes_m % (SUBGROUP // width) == 0]
