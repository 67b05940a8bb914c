"""tt.embedding over three cores, with the lookups of one slice of the middle core done together.

Of what a lookup reads, the slice of the middle core is by far the most: r_1 q_1 r_2 elements.
So a workgroup takes one digit i_1 and one chunk of the lookups, and does those of the chunk
that have this digit, however few or many:

    indices of the chunk  ->  @order, the places of those with the digit  ->  tiles of `lookups`

A tile is a matrix product.  Its rows are the rows of the first core's slices, its columns those
of the one slice of the middle core, and a lane keeps `rows` by `columns` of it in registers:

                     slice of core 1, [s_1, (a_1, s_2)]
    @rows, [s_1,     +---------+---------+----
     (lookup, a_0)]  | a_1 = 0 | a_1 = 1 | ...       a lane's columns belong to one a_1

The last core is applied to these registers: a lane sums over its own s_2, and the lanes of an
a_1 exchange halves of their rows until each has whole sums of its own rows to write.

The grid is a workgroup for each digit and chunk, digits first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ..ir.builder import Builder
from ..ir.program import Program, Value
from ..ir.types import DataType
from .collective import SUBGROUP, shared_sums
from .embedding_shape import EmbeddingShape

__all__ = ["GroupedSchedule", "embedding_grouped", "grouped_grid", "grouped_schedule"]

WORKGROUP_BYTES = 48 * 1024
ORDER = DataType.U16
BUSY_WORKGROUPS = 4 * 132
"""Four for each processor of an H100, so that there is one that computes while others wait."""


@dataclass(frozen=True)
class GroupedSchedule:
    """`chunk` lookups that a workgroup looks through; `lookups` of a tile, of which a lane makes
    `rows` by `columns`; `unroll` of the sums over s_1."""

    chunk: int = 8192
    lookups: int = 8
    rows: int = 8
    columns: int = 4
    unroll: int = 8

    def __post_init__(self) -> None:
        if min(self.chunk, self.lookups, self.rows, self.columns, self.unroll) < 1 or self.chunk > 1 << 16:
            raise ValueError(f"all at least 1, and a chunk of at most 65536: {self}")

    def why_not(self, shape: EmbeddingShape) -> str | None:
        """What rules the schedule out for a shape."""
        if len(shape.p) != 3:
            return f"it is for 3 cores, not {len(shape.p)}"
        (q0, _, _), (_, inner) = shape.q, shape.r
        width, tile = inner // self.columns, self.lookups * q0
        if inner % self.columns or width & (width - 1) or width > SUBGROUP:
            return f"the rank {inner} is not {self.columns} columns of 1, 2, 4, 8, 16 or 32 lanes"
        if tile % self.rows or (self.rows % q0 and q0 % self.rows):
            return f"{self.rows} rows are no part of a tile, and no lookups"
        if not tile <= self.lanes(shape) <= 1024 or self.lanes(shape) % SUBGROUP:
            return f"it takes {self.lanes(shape)} lanes for a tile of {tile} rows"
        if tile * shape.r[0] * 4 + self.chunk * 2 + 16 > WORKGROUP_BYTES:
            return f"a tile and a chunk take more than {WORKGROUP_BYTES} bytes"
        return None

    def lanes(self, shape: EmbeddingShape) -> int:
        """Of a workgroup."""
        return (self.lookups * shape.q[0] // self.rows) * (shape.q[1] * shape.r[1] // self.columns)


def grouped_schedule(shape: EmbeddingShape, count: int) -> GroupedSchedule | None:
    """The best that the shape allows; None where there is none, or where slices are so small or
    shared by so few that looking for the lookups costs more (seen on an H100).

    Workgroups of 128 lanes, of 256 where there are few of them.  More lanes would wait for each other in a
    tile, fewer take long to look through a chunk.
    """
    if len(shape.p) != 3 or count < 16 * shape.p[1]:
        return None
    size = shape.slice_size(1)
    if size < 1024 or (size < 4096 and count < 256 * shape.p[1]):
        return None
    chunk = _chunk(shape.p[1], count)
    is_busy = shape.p[1] * -(-count // chunk) >= BUSY_WORKGROUPS
    small, large = (_fitting(shape, chunk, lookups) for lookups in ((4, 8), (16, 32)))
    for options, lanes in ((small, 128 if is_busy else 256), (small, 128), (small + large, 64)):
        fitting = next((option for option in options if option.lanes(shape) >= lanes), None)
        if fitting is not None:
            return fitting
    return None


def _chunk(digits: int, count: int) -> int:
    """Of which a digit has 16 lookups or so, some tiles full; shorter where processors would be idle."""
    chunk = 2048
    while chunk < min(16 * digits, 8192) and digits * -(-count // (2 * chunk)) >= BUSY_WORKGROUPS:
        chunk *= 2
    return chunk


def _fitting(shape: EmbeddingShape, chunk: int, lookups: Sequence[int]) -> list[GroupedSchedule]:
    """What the shape allows, tall parts of a tile first, for few loads, and then small tiles."""
    options = (
        GroupedSchedule(chunk, each, rows, columns)
        for rows in (8, 7, 6, 5, 4)
        for columns in (4, 8)
        for each in lookups
    )
    return [option for option in options if option.why_not(shape) is None]


def grouped_grid(schedule: GroupedSchedule, shape: EmbeddingShape, count: int) -> int:
    """Workgroups for `count` lookups."""
    return shape.p[1] * max(1, -(-count // schedule.chunk))


def embedding_grouped(
    shape: EmbeddingShape, dtype: DataType, schedule: GroupedSchedule, out_dtype: DataType
) -> Program:
    """The program `embedding`: @cores, @indices (u32, below the product of p), @out in rows.

    Raises ValueError where the schedule is none for the shape.
    """
    wrong = schedule.why_not(shape)
    if wrong is not None:
        raise ValueError(f"{schedule}: {wrong}")
    b = Builder("embedding", workgroup=schedule.lanes(shape))
    b.buffer("cores", dtype, shape.elements, "read", 0)
    b.buffer("indices", DataType.U32, None, "read", 1)
    b.buffer("out", out_dtype, None, "write", 2, live_out=True)
    b.buffer("order", ORDER, schedule.chunk, "workgroup")
    b.buffer("found", DataType.U32, 1, "workgroup")
    b.buffer("rows", DataType.F32, schedule.lookups * shape.q[0] * shape.r[0], "workgroup")
    _Grouped(b, shape, schedule).build()
    return b.finish(verify=False)


class _Grouped:
    def __init__(self, b: Builder, shape: EmbeddingShape, schedule: GroupedSchedule) -> None:
        self.b, self.shape, self.schedule = b, shape, schedule
        self.lanes = schedule.lanes(shape)
        self.tile = schedule.lookups * shape.q[0]  # rows of a tile
        self.width = shape.r[1] // schedule.columns  # lanes of an a_1
        self.lane = b.local_id("x", name="lane")
        workgroup = b.workgroup_id("x")
        self.digit = b.rem(workgroup, shape.p[1], name="digit")
        self.first = b.mul(b.div(workgroup, shape.p[1]), schedule.chunk, name="first")

    def build(self) -> None:
        b = self.b
        self.collect()
        self.place_lane()
        count = b.load("found", 0, name="n")
        with b.for_(0, count, self.schedule.lookups) as tiles:
            self.start, self.last = tiles.index, b.sub(count, 1)
            self.gather_rows()
            b.barrier("workgroup")
            self.finish(self.product())
            b.barrier("workgroup")

    # --- which lookups ------------------------------------------------------------------------

    def collect(self) -> None:
        """The chunk's lookups with this digit into @order, in any order; how many into @found."""
        b, lanes = self.b, self.lanes
        with b.if_(b.eq(self.lane, 0)):
            b.store(b.const(0), "found", 0)
        b.barrier("workgroup")
        count = b.len("indices")
        exist = b.min(b.sub(b.max(count, self.first), self.first), self.schedule.chunk)
        rounds = b.div(exist, 4 * lanes)
        with b.for_(0, rounds) as loop:  # four at once, so that their loads overlap
            start = b.add(b.mul(loop.index, 4 * lanes), self.lane)
            places = [b.add(start, k * lanes) if k else start for k in range(4)]
            indices = [b.load("indices", b.add(self.first, place)) for place in places]
            for place, index in zip(places, indices, strict=True):
                self.keep(place, index)
        with b.for_(b.add(b.mul(rounds, 4 * lanes), self.lane), exist, lanes) as loop:
            self.keep(loop.index, b.load("indices", b.add(self.first, loop.index)))
        b.barrier("workgroup")

    def keep(self, place: Value, index: Value) -> None:
        b = self.b
        with b.if_(b.eq(self.digit_of(index, 1), self.digit)):
            slot = b.atomic_add("found", 0, 1)
            b.store(b.cast(place, ORDER), "order", slot)

    def digit_of(self, index: Value, k: int) -> Value:
        b, p = self.b, self.shape.p
        below = prod(p[k + 1 :])
        digit = b.div(index, below) if below > 1 else index
        return b.rem(digit, p[k]) if k else digit

    def lookup(self, place: Value) -> Value:
        """The number of the tile's lookup `place`; of the last one that is there, beyond it."""
        b = self.b
        slot = b.min(b.add(self.start, place), self.last)
        return b.add(self.first, b.cast(b.load("order", slot), DataType.U32))

    def slice_of(self, lookup: Value, k: int) -> Value:
        """Where the slice of core k that a lookup takes begins."""
        b, shape = self.b, self.shape
        start = b.mul(self.digit_of(b.load("indices", lookup), k), shape.slice_size(k))
        return b.add(start, shape.start(k)) if k else start

    def elements(self, index: Value, lanes: int) -> Value:
        """Of @cores, as f32."""
        loaded = self.b.load("cores", index, lanes=lanes)
        return self.b.cast(loaded, loaded.type.with_element(DataType.F32))

    # --- core 0 times core 1 ------------------------------------------------------------------

    def gather_rows(self) -> None:
        """The rows of the tile, each in a column of @rows."""
        b, rank, q0 = self.b, self.shape.r[0], self.shape.q[0]
        pieces = self.lanes // self.tile
        vector = _divisor(rank, (4, 2, 1))
        row, piece = b.rem(self.lane, self.tile), b.div(self.lane, self.tile)
        with b.if_(b.lt(piece, pieces)):
            start = b.add(self.slice_of(self.lookup(b.div(row, q0)), 0), b.mul(b.rem(row, q0), rank))
            with b.for_(b.mul(piece, vector), rank, pieces * vector) as loop:
                cells = self.elements(b.add(start, loop.index), vector)
                for k in range(vector):
                    cell = b.extract(cells, k) if vector > 1 else cells
                    place = b.add(b.mul(b.add(loop.index, k) if k else loop.index, self.tile), row)
                    b.store(cell, "rows", place)

    def place_lane(self) -> None:
        """lane = (a_1 * blocks of rows + block) * lanes of an a_1 + its number there"""
        b, blocks = self.b, self.tile // self.schedule.rows
        self.number = b.rem(self.lane, self.width, name="number")
        rest = b.div(self.lane, self.width)
        self.row = b.mul(b.rem(rest, blocks), self.schedule.rows, name="row")
        self.a1 = b.div(rest, blocks, name="a1")
        self.s2 = b.mul(self.number, self.schedule.columns, name="s2")

    def product(self) -> list[Value]:
        """This lane's part of the tile: a vector of columns for each row."""
        b, shape, schedule = self.b, self.shape, self.schedule
        rank, width = shape.r[0], shape.q[1] * shape.r[1]
        column = b.add(b.mul(self.a1, shape.r[1]), self.s2)
        slice_start = b.add(b.mul(self.digit, shape.slice_size(1)), shape.start(1))
        start = b.add(slice_start, column)
        unroll = _divisor(rank, range(schedule.unroll, 0, -1))
        nothing = b.const(0.0, _vector(schedule.columns))
        with b.for_(0, rank, unroll, carry=[nothing] * schedule.rows) as loop:
            sums = list(loop.args)
            for ahead in range(unroll):
                s = b.add(loop.index, ahead) if ahead else loop.index
                cells = self.elements(b.add(start, b.mul(s, width)), schedule.columns)
                entries = b.load("rows", b.add(b.mul(s, self.tile), self.row), lanes=schedule.rows)
                sums = [
                    b.fma(b.splat(entry, schedule.columns), cells, total)
                    for entry, total in zip(self.parts(entries, schedule.rows), sums, strict=True)
                ]
            loop.yield_(*sums)
        return list(loop.results)

    def parts(self, vector: Value, lanes: int) -> list[Value]:
        return [self.b.extract(vector, k) for k in range(lanes)] if lanes > 1 else [vector]

    # --- times core 2 -------------------------------------------------------------------------

    def finish(self, products: list[Value]) -> None:
        """The last core over this lane's s_2; then whole sums, and those of some rows to @out."""
        b, q2, q0 = self.b, self.shape.q[2], self.shape.q[0]
        totals = []
        for row, product in enumerate(products):
            if row % q0 == 0:  # the rows of a lookup share its slice
                lookup = self.lookup(b.div(b.add(self.row, row) if row else self.row, q0))
                start = b.add(self.slice_of(lookup, 2), b.mul(self.s2, q2))
                cells = [self.elements(b.add(start, k * q2), q2) for k in range(self.schedule.columns)]
            total = b.const(0.0, _vector(q2))
            for factor, cell in zip(self.parts(product, self.schedule.columns), cells, strict=True):
                total = b.fma(b.splat(factor, q2) if q2 > 1 else factor, cell, total)
            totals.append(total)
        shared = shared_sums(b, totals, self.number, self.width)
        with b.if_(shared.writes):
            first = b.add(self.row, shared.first)
            for k, total in enumerate(shared.values):
                self.write(b.add(first, k) if k else first, total)

    def write(self, row: Value, total: Value) -> None:
        """A row of the tile has q_2 values of @out."""
        b, (q0, q1, q2) = self.b, self.shape.q
        place, a0 = b.div(row, q0), b.rem(row, q0)
        with b.if_(b.le(b.add(self.start, place), self.last)):
            column = b.mul(b.add(b.mul(a0, q1), self.a1), q2)
            start = b.mul(self.lookup(place), self.shape.columns)
            out = b.program.buffers["out"]
            b.store(b.cast(total, total.type.with_element(out.dtype)), out, b.add(start, column))


def _divisor(number: int, candidates: range | tuple[int, ...]) -> int:
    return next(c for c in candidates if number % c == 0)


def _vector(lanes: int) -> DataType:
    return DataType.vec(DataType.F32, lanes) if lanes > 1 else DataType.F32
