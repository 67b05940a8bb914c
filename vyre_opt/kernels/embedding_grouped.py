"""tt.embedding over three cores, with lookups that share a slice of the middle core done together.

Most of what a lookup reads is the slice of the middle core, of r_1 q_1 r_2 elements.  So a workgroup
does all lookups of a chunk that take the same slice (see embedding_chunk), in tiles of `lookups`.

A tile is a matrix product.  Its rows are the rows of the slices of the first core, its columns those
of the one slice of the middle core.  A lane keeps `rows` by `columns` of it in registers:

                     slice of core 1, [s_1, (a_1, s_2)]
    @rows, [s_1,     +---------+---------+----
     (lookup, a_0)]  | a_1 = 0 | a_1 = 1 | ...       a lane's columns belong to one a_1

The last core is applied to these registers: a lane sums over its own s_2, and the lanes of an a_1
exchange partial sums until each has the whole sums of some rows, which it writes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.builder import Builder
from ..ir.embedding_shape import EmbeddingShape
from ..ir.program import Program, Value
from ..ir.types import DataType
from ..lowering.nvptx.targets import STATIC_SHARED_BYTES
from ..records import dataclass
from .collective import SUBGROUP, elements, offset, shared_sums
from .embedding_chunk import ORDER_BYTES, ChunkLookups, chunk_grid
from .embedding_cores import EmbeddingCores
from .embedding_indices import EmbeddingIndices, table_buffers
from .powers_of_two import power_above

__all__ = ["GroupedSchedule", "embedding_grouped", "grouped_grid", "grouped_schedule"]

BUSY_WORKGROUPS = 4 * 132
MOST_TOGETHER = 8192  # lookups of a chunk
"""Four for each multiprocessor of an H100, so that one can compute while others wait for memory."""


@dataclass(frozen=True)
class GroupedSchedule:
    """`chunk`: lookups that a workgroup searches for its digit.  `lookups`: of a tile.  `rows_per_thread`, `columns_per_thread`: the
    part of a tile that a lane computes.  `unroll`: of the sums over s_1."""

    chunk: int = 8192
    lookups: int = 8
    rows_per_thread: int = 8
    columns_per_thread: int = 4
    unroll: int = 8

    def __post_init__(self) -> None:
        if (
            min(self.chunk, self.lookups, self.rows_per_thread, self.columns_per_thread, self.unroll) < 1
            or self.chunk > 1 << 16
        ):
            raise ValueError(f"all at least 1, and a chunk of at most 65536: {self}")

    def why_not(self, shape: EmbeddingShape) -> str | None:
        """Why the schedule does not fit a shape; None if it does."""
        if len(shape.p) != 3:
            return f"it is for 3 cores, not {len(shape.p)}"
        (q0, _, _), (_, inner) = shape.q, shape.r
        width, tile = inner // self.columns_per_thread, self.lookups * q0
        if inner % self.columns_per_thread or width & (width - 1) or width > SUBGROUP:
            return f"the rank {inner} is not {self.columns_per_thread} columns of 1, 2, 4, 8, 16 or 32 lanes"
        if tile % self.rows_per_thread or (self.rows_per_thread % q0 and q0 % self.rows_per_thread):
            return f"{self.rows_per_thread} rows are no part of a tile, and no lookups"
        if not tile <= self.lanes(shape) <= 1024 or self.lanes(shape) % SUBGROUP:
            return f"it takes {self.lanes(shape)} lanes for a tile of {tile} rows"
        if tile * shape.r[0] * 4 + self.chunk * ORDER_BYTES + 16 > STATIC_SHARED_BYTES:
            return f"a tile and a chunk take more than {STATIC_SHARED_BYTES} bytes"
        return None

    def lanes(self, shape: EmbeddingShape) -> int:
        """Lanes of a workgroup."""
        return (self.lookups * shape.q[0] // self.rows_per_thread) * (
            shape.q[1] * shape.r[1] // self.columns_per_thread
        )


def grouped_schedule(shape: EmbeddingShape, count: int) -> GroupedSchedule | None:
    """The default schedule; None if none fits, or if slices are so small, or shared by so few lookups, that
    grouping costs more than it saves (as measured on an H100).

    Workgroups have 128 lanes, or 256 if there are few workgroups.  With more, lanes wait for each other at
    the barriers of a tile; with fewer, the search of a chunk takes long.
    """
    if len(shape.p) != 3 or count < 16 * shape.p[1]:
        return None
    size = shape.slice_size(1)
    if size < 1024 or (size < 4096 and count < 256 * shape.p[1]):
        return None
    chunk = _chunk(shape.p[1], count)
    is_busy = shape.p[1] * -(-count // chunk) >= BUSY_WORKGROUPS
    small, large = (_fitting(shape, chunk, lookups) for lookups in ((4, 8), (16, 32)))
    together = GroupedSchedule(max(chunk, min(MOST_TOGETHER, power_above(count))), 16, 16, 4)
    if not is_busy and together.why_not(shape) is None and together.lanes(shape) >= 256:
        return together  # a digit's lookups are in one chunk, and fill large tiles
    for options, lanes in ((small, 128 if is_busy else 256), (small, 128), (small + large, 64)):
        fitting = next((option for option in options if option.lanes(shape) >= lanes), None)
        if fitting is not None:
            return fitting
    return None


def _chunk(digits: int, count: int) -> int:
    """The length of a chunk: so that a digit has about 16 lookups in it, which fill some tiles; shorter if
    there would be too few workgroups for all multiprocessors."""
    chunk = 2048
    while chunk < min(16 * digits, MOST_TOGETHER) and digits * -(-count // (2 * chunk)) >= BUSY_WORKGROUPS:
        chunk *= 2
    return chunk


def _fitting(shape: EmbeddingShape, chunk: int, lookups: Sequence[int]) -> list[GroupedSchedule]:
    """The schedules that fit a shape, best first: those with many rows a lane, which reuse loads most, and
    of these the ones with small tiles."""
    options = (
        GroupedSchedule(chunk, each, rows, columns)
        for rows in (8, 7, 6, 5, 4)
        for columns in (4, 8)
        for each in lookups
    )
    return [option for option in options if option.why_not(shape) is None]


def grouped_grid(schedule: GroupedSchedule, shape: EmbeddingShape, count: int) -> int:
    """Workgroups for `count` lookups."""
    return chunk_grid(shape.p[1], schedule.chunk, count)


def embedding_grouped(
    shape: EmbeddingShape,
    dtype: DataType,
    schedule: GroupedSchedule,
    out_dtype: DataType,
    separate: bool,
    checked: DataType | None,
) -> Program:
    """The program `embedding`: @cores, @indices, @out in rows; see `embedding`.

    Raises ValueError if the schedule does not fit the shape.
    """
    wrong = schedule.why_not(shape)
    if wrong is not None:
        raise ValueError(f"{schedule}: {wrong}")
    b = Builder("embedding", workgroup=schedule.lanes(shape))
    cores, indices = table_buffers(b, shape, dtype, out_dtype, separate, checked)
    b.buffer("rows", DataType.F32, schedule.lookups * shape.q[0] * shape.r[0], "workgroup")
    _Grouped(b, cores, indices, schedule).build()
    return b.finish(verify=False)


class _Grouped:
    """Emits the body, of a workgroup that does the lookups of one digit i_1 in one chunk."""

    def __init__(
        self, b: Builder, cores: EmbeddingCores, indices: EmbeddingIndices, schedule: GroupedSchedule
    ) -> None:
        shape = cores.shape
        self.b, self.shape, self.cores, self.schedule = b, shape, cores, schedule
        self.indices = indices
        self.lanes = schedule.lanes(shape)
        self.tile = schedule.lookups * shape.q[0]  # rows of a tile
        self.width = shape.r[1] // schedule.columns_per_thread  # lanes of an a_1
        self.found = ChunkLookups(b, cores, indices, schedule.chunk, self.lanes)
        self.lane = self.found.lane

    def build(self) -> None:
        b = self.b
        count = self.found.collect()
        self.place_lane()
        with b.for_(0, count, self.schedule.lookups) as tiles:
            self.start, self.last = tiles.index, b.sub(count, 1)
            self.gather_rows()
            b.barrier("workgroup")
            self.finish(self.product())
            b.barrier("workgroup")
        self.found.trap_if_outside()

    def lookup(self, position: Value) -> Value:
        """The number of lookup `position` of the tile, or of the last lookup if the tile has fewer.

        So all lanes compute something valid; `write` leaves out what lies beyond the last.
        """
        return self.found.lookup(self.b.min(self.b.add(self.start, position), self.last))

    # --- core 0 times core 1 ------------------------------------------------------------------

    def gather_rows(self) -> None:
        """Load the tile into @rows, transposed: `product` then reads neighbouring rows as a vector."""
        b, rank, q0 = self.b, self.shape.r[0], self.shape.q[0]
        pieces = self.lanes // self.tile
        vector = _divisor(rank, (4, 2, 1))
        row, piece = b.rem(self.lane, self.tile), b.div(self.lane, self.tile)
        with b.if_(b.lt(piece, pieces)):
            start = b.add(self.found.slice_of(self.lookup(b.div(row, q0)), 0), b.mul(b.rem(row, q0), rank))
            with b.for_(b.mul(piece, vector), rank, pieces * vector) as loop:
                cells = self.cores.load(0, b.add(start, loop.index), vector)
                for k in range(vector):
                    cell = b.extract(cells, k) if vector > 1 else cells
                    position = b.add(b.mul(offset(b, loop.index, k), self.tile), row)
                    b.store(cell, "rows", position)

    def place_lane(self) -> None:
        """lane = (a_1 * blocks of rows + block) * lanes of an a_1 + number among these."""
        b, blocks = self.b, self.tile // self.schedule.rows_per_thread
        self.number = b.rem(self.lane, self.width, name="number")
        rest = b.div(self.lane, self.width)
        self.row = b.mul(b.rem(rest, blocks), self.schedule.rows_per_thread, name="row")
        self.a1 = b.div(rest, blocks, name="a1")
        self.s2 = b.mul(self.number, self.schedule.columns_per_thread, name="s2")

    def product(self) -> list[Value]:
        """This lane's part of the tile: a vector of columns for each row."""
        b, shape, schedule = self.b, self.shape, self.schedule
        rank, width = shape.r[0], shape.q[1] * shape.r[1]
        column = b.add(b.mul(self.a1, shape.r[1]), self.s2)
        start = b.add(self.cores.slice_start(self.found.digit, 1), column)
        unroll = _divisor(rank, range(schedule.unroll, 0, -1))
        nothing = b.const(0.0, _vector(schedule.columns_per_thread))
        with b.for_(0, rank, unroll, carry=[nothing] * schedule.rows_per_thread) as loop:
            sums = list(loop.args)
            for ahead in range(unroll):
                s = offset(b, loop.index, ahead)
                cells = self.cores.load(1, b.add(start, b.mul(s, width)), schedule.columns_per_thread)
                entries = b.load("rows", b.add(b.mul(s, self.tile), self.row), lanes=schedule.rows_per_thread)
                sums = [
                    b.fma(b.splat(entry, schedule.columns_per_thread), cells, total)
                    for entry, total in zip(elements(b, entries), sums, strict=True)
                ]
            loop.yield_(*sums)
        return list(loop.results)

    # --- times core 2 -------------------------------------------------------------------------

    def finish(self, products: list[Value]) -> None:
        """Sum over this lane's s_2 with the last core, then over the lanes of an a_1, and write to @out."""
        b, q2, q0 = self.b, self.shape.q[2], self.shape.q[0]
        totals = []
        for row, product in enumerate(products):
            if row % q0 == 0:  # the rows of a lookup share its slice
                lookup = self.lookup(b.div(offset(b, self.row, row), q0))
                start = b.add(self.found.slice_of(lookup, 2), b.mul(self.s2, q2))
                cells = [
                    self.cores.load(2, b.add(start, k * q2), q2)
                    for k in range(self.schedule.columns_per_thread)
                ]
            total: Value = b.const(0.0, _vector(q2))
            for factor, cell in zip(elements(b, product), cells, strict=True):
                total = b.fma(b.splat(factor, q2) if q2 > 1 else factor, cell, total)
            totals.append(total)
        shared = shared_sums(b, totals, self.number, self.width)
        with b.if_(shared.writes):
            first = b.add(self.row, shared.first)
            for k, total in enumerate(shared.values):
                self.write(offset(b, first, k), total)

    def write(self, row: Value, total: Value) -> None:
        """Store the q_2 values of a row of the tile for this lane's a_1."""
        b, (q0, q1, q2) = self.b, self.shape.q
        position, a0 = b.div(row, q0), b.rem(row, q0)
        with b.if_(b.le(b.add(self.start, position), self.last)):
            column = b.mul(b.add(b.mul(a0, q1), self.a1), q2)
            lookup = self.lookup(position)
            start = b.mul(lookup, self.shape.columns)
            out = b.program.buffers["out"]
            if self.indices.checked is not None:
                total = self.indices.or_zero(total, self.indices.load(lookup))
            b.store(b.cast(total, total.type.with_element(out.dtype)), out, b.add(start, column))


def _divisor(number: int, candidates: range | tuple[int, ...]) -> int:
    return next(c for c in candidates if number % c == 0)


def _vector(lanes: int) -> DataType:
    return DataType.vec(DataType.F32, lanes) if lanes > 1 else DataType.F32
