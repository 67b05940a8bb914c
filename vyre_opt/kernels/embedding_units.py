"""tt.embedding over three cores on matrix units, of bf16, with lookups that share a slice of the middle core done together.

A workgroup does all lookups of a chunk that take the same slice of the middle core (see embedding_chunk), which it copies
to @middle once.  Each of its subgroups then does some of them by itself, a strip of 16 rows at a time:

    @rows, [(lookup, a_0), s_1]   x   @middle, [s_1, (a_1, s_2)]          for one a_1 after the other
             the products, [(lookup, a_0), s_2]   x   @last, [s_2, (lookup, a_2)]   ->   @sums

The second product multiplies the rows of each lookup by the slices of all, side by side, of which only its own count: so
few columns are less than matrix units take at a time anyhow.  Its left factor are the sums of the first, in f32, as two
parts of bf16: what rounding to bf16 gives, and what that leaves.  So they keep 16 bits of their fraction, unless they are
infinite: then the two parts make NaN.

While one waits for its next strip, others multiply.  Ranks are filled up to multiples of 16 by zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod, sqrt

from ..ir.builder import Builder
from ..ir.embedding_shape import EmbeddingShape
from ..ir.program import Program, Value
from ..ir.types import DataType
from ..records import dataclass
from .collective import SUBGROUP
from .embedding_chunk import ORDER_BYTES, ChunkLookups, chunk_grid
from .embedding_cores import EmbeddingCores
from .embedding_indices import EmbeddingIndices, table_buffers
from .powers_of_two import power_above, power_of
from .targets import MULTIPROCESSORS, has_matrix_units, workgroup_bytes
from .tiles import tiles_of

__all__ = ["EmbeddingUnitSchedule", "embedding_unit_grid", "embedding_unit_schedule", "embedding_units"]

ROWS = 16  # of a strip, and of the depth of a product
PAD = 8  # elements between lines, so that they lie in different banks
MOST_ACROSS = 64  # columns of @last
MOST_WIDTH = 32  # columns of a matrix of sums
CHUNKS = (2048, 4096, 8192, 16384, 32768)
MOST_SUBGROUPS = 32  # that a multiprocessor has the registers for
OWN_BYTES = 1024  # of workgroup memory, that a GPU takes for itself
BEGINNING, SEARCHED, COPIED = 2, 16, 5
"""Costs in units of the time of a strip: beginning and ending a workgroup, a lane's searched lookups, its copied pieces.
Measured on an H200, at 12 shapes with up to 15 schedules each: the choice takes at most 1.07 times the best one's time."""
UNROLLED = 16  # pieces of a lane, at most; more are in a loop


@dataclass(frozen=True)
class EmbeddingUnitSchedule:
    """`chunk`: lookups that a workgroup searches for its digit.  `subgroups`: of a workgroup."""

    chunk: int = 8192
    subgroups: int = 8

    def __post_init__(self) -> None:
        if not 1 <= self.chunk <= 1 << 16 or not 1 <= self.subgroups <= 32:
            raise ValueError(f"chunks of up to 65536, 1 to 32 subgroups: {self}")

    @property
    def lanes(self) -> int:
        return self.subgroups * SUBGROUP

    def shared_bytes(self, shape: EmbeddingShape, out_dtype: DataType = DataType.BF16) -> int:
        """Workgroup memory, for results of a type."""
        size = _Sizes.of(shape)
        strip = ROWS * (size.depth + PAD) + size.rank * (size.across + PAD)
        sums = shape.q[1] * ROWS * (size.across + PAD) * (out_dtype.size_bytes or 1)
        middle = size.depth * (size.wide + PAD)
        return 2 * middle + self.subgroups * (2 * strip + sums) + self.chunk * ORDER_BYTES + 16


@dataclass(frozen=True)
class _Sizes:
    """Sizes of a shape in workgroup memory: `lookups` of a strip; `depth` and `rank`, r_1 and r_2 as multiples of 16; `wide`, columns of
    @middle; `across`, columns of @last."""

    lookups: int
    depth: int
    rank: int
    wide: int
    across: int

    @classmethod
    def of(cls, shape: EmbeddingShape) -> _Sizes:
        (q0, q1, q2), (depth, rank) = shape.q, (-(-r // ROWS) * ROWS for r in shape.r)
        lookups = max(1, min(ROWS // q0, MOST_ACROSS // q2))
        across = max(8, power_above(lookups * q2))
        return cls(lookups, depth, rank, q1 * rank, across)


def why_no_units(shape: EmbeddingShape) -> str | None:
    """Why this form does not fit a shape, on any GPU; None if it does."""
    if len(shape.p) != 3:
        return f"it is for 3 cores, not {len(shape.p)}"
    if shape.q[0] > ROWS or shape.q[2] > MOST_ACROSS:
        return f"q of the first core is at most {ROWS}, of the last {MOST_ACROSS}: {shape.numbers}"
    return None


def embedding_unit_schedule(
    shape: EmbeddingShape, count: int, dtype: DataType, out_dtype: DataType, target: str
) -> EmbeddingUnitSchedule | None:
    """The default schedule for `count` lookups on an architecture; None if none fits, or if slices are so small, or shared by so few
    lookups, that the search costs more than it saves (as measured on an H200)."""
    if dtype is not DataType.BF16 or not has_matrix_units(target) or why_no_units(shape) is not None:
        return None
    if count < 4 * shape.p[1] or shape.slice_size(1) < max(1024, 4 * shape.p[1]):
        return None
    size, room = _Sizes.of(shape), workgroup_bytes(target)

    def taken(schedule: EmbeddingUnitSchedule) -> int:
        return schedule.shared_bytes(shape, out_dtype) + OWN_BYTES

    def cost(schedule: EmbeddingUnitSchedule) -> float:
        """Cost of all workgroups, with concurrent ones counted once, in units of a subgroup's time for a strip."""
        grid = embedding_unit_grid(schedule, shape, count)
        resident = min(room // taken(schedule), MOST_SUBGROUPS // schedule.subgroups)
        found = count / grid + sqrt(count / grid)  # of which some have more than others
        rounds = ceil(ceil(found / size.lookups) / schedule.subgroups)
        searched, copied = schedule.chunk / schedule.lanes, size.depth * size.wide / PAD / schedule.lanes
        each = rounds + BEGINNING + searched / SEARCHED + copied / COPIED
        return ceil(grid / (MULTIPROCESSORS * resident)) * each

    options = (EmbeddingUnitSchedule(chunk, subgroups) for chunk in CHUNKS for subgroups in (4, 8, 16))
    return min((each for each in options if taken(each) <= room), key=cost, default=None)


def embedding_unit_grid(schedule: EmbeddingUnitSchedule, shape: EmbeddingShape, count: int) -> int:
    """Workgroups for `count` lookups."""
    return chunk_grid(shape.p[1], schedule.chunk, count)


def embedding_units(
    shape: EmbeddingShape,
    dtype: DataType,
    schedule: EmbeddingUnitSchedule,
    out_dtype: DataType,
    separate: bool,
    checked: DataType | None,
) -> Program:
    """The program `embedding`: @cores of f16 or bf16, @indices, @out in rows; see `embedding`.

    Raises ValueError if the schedule does not fit the shape.
    """
    wrong = why_no_units(shape)
    if wrong is not None:
        raise ValueError(f"{schedule}: {wrong}")
    if dtype.size_bytes != 2:
        raise ValueError(f"matrix units take cores of f16 and bf16 here, not {dtype}")
    b = Builder("embedding", workgroup=schedule.lanes)
    cores, indices = table_buffers(b, shape, dtype, out_dtype, separate, checked)
    _Units(b, cores, indices, schedule, dtype, out_dtype).build()
    return b.finish(verify=False)


class _Units:
    """Emits the body, of a workgroup that does the lookups of one digit i_1 in one chunk."""

    def __init__(
        self,
        b: Builder,
        cores: EmbeddingCores,
        indices: EmbeddingIndices,
        schedule: EmbeddingUnitSchedule,
        dtype: DataType,
        out_dtype: DataType,
    ) -> None:
        self.b, self.shape, self.cores, self.schedule = b, cores.shape, cores, schedule
        self.indices, self.dtype, self.out_dtype = indices, dtype, out_dtype
        self.size = size = _Sizes.of(self.shape)
        self.found = ChunkLookups(b, cores, indices, schedule.chunk, schedule.lanes)
        b.buffer("middle", dtype, (size.depth, size.wide + PAD), "workgroup")
        b.buffer("rows", dtype, (schedule.subgroups, ROWS, size.depth + PAD), "workgroup")
        b.buffer("last", dtype, (schedule.subgroups, size.rank, size.across + PAD), "workgroup")
        lines = self.shape.q[1] * ROWS
        b.buffer("sums", out_dtype, (schedule.subgroups, lines, size.across + PAD), "workgroup")
        self.subgroup = b.subgroup_id(name="subgroup")
        self.lane = b.lane_id(name="own")

    def build(self) -> None:
        b = self.b
        self.fill_up()
        count = self.found.collect()
        self.last = b.sub(count, 1, name="last")
        with b.if_(b.gt(count, 0)):
            self.copy_middle()
            b.copy_wait(0)
            b.barrier("workgroup")
            self.each_strip(tiles_of(b, count, self.size.lookups))
        self.found.trap_if_outside()

    def each_strip(self, strips: Value) -> None:
        b = self.b
        with b.for_(self.subgroup, strips, self.schedule.subgroups, dtype=DataType.U32) as loop:
            self.copy_strip(loop.index)
            b.copy_wait(0)
            b.barrier("subgroup")
            self.multiply()
            b.barrier("subgroup")
            self.write(loop.index)

    # --- copies

    def fill_up(self) -> None:
        """Zeros where ranks, or the columns of a strip's lookups, do not fill matrices."""
        size, (r1, r2) = self.size, self.shape.r
        if r1 < size.depth or r2 < size.rank:
            self.fill("middle")
        if r1 < size.depth or size.lookups * self.shape.q[0] < ROWS:
            self.fill("rows")
        if r2 < size.rank or size.lookups * self.shape.q[2] < size.across:
            self.fill("last")

    def fill(self, name: str) -> None:
        b = self.b
        *above, columns = (extent or 1 for extent in b.program.buffers[name].shape)
        lines = prod(above)
        nothing = b.const(0, DataType.vec(self.dtype, PAD))
        with b.for_(self.found.lane, lines * columns // PAD, self.schedule.lanes) as loop:
            line, column = b.div(loop.index, columns // PAD), b.mul(b.rem(loop.index, columns // PAD), PAD)
            index = [line] if len(above) == 1 else [b.div(line, above[1]), b.rem(line, above[1])]
            b.store(nothing, name, (*index, column))

    def copy_middle(self) -> None:
        """The slice of the middle core to @middle."""
        b, (r1, r2), q1 = self.b, self.shape.r, self.shape.q[1]
        piece = self.piece(1, r2)
        start = self.cores.slice_start(self.found.digit, 1)
        across = r2 // piece
        with b.for_(self.found.lane, r1 * q1 * across, self.schedule.lanes) as loop:
            number, line = b.mul(b.rem(loop.index, across), piece), b.div(loop.index, across)
            s1, a1 = b.div(line, q1), b.rem(line, q1)
            column = b.add(b.mul(a1, self.size.rank), number)
            self.copy(1, b.add(start, b.mul(loop.index, piece)), piece, "middle", (s1, column))

    def copy_strip(self, strip: Value) -> None:
        """Begin to copy the slices of the first and the last core of the lookups of a strip."""
        b, (r1, r2), (q0, _, q2) = self.b, self.shape.r, self.shape.q
        lookups = self.size.lookups
        first = b.mul(strip, lookups)

        def start(number: Value, k: int) -> Value:
            slot = b.min(b.add(first, number), self.last)
            return self.found.slice_of(self.found.lookup(slot), k)

        piece = self.piece(0, r1)
        each = q0 * r1 // piece

        def of_first(number: Value) -> None:
            lookup, inner = b.div(number, each), b.rem(number, each)
            row = b.add(b.mul(lookup, q0), b.div(inner, r1 // piece))
            column = b.mul(b.rem(inner, r1 // piece), piece)
            self.copy(
                0, b.add(start(lookup, 0), b.mul(inner, piece)), piece, "rows", (self.subgroup, row, column)
            )

        self.each_piece(lookups * each, of_first)
        piece_of_last = self.piece(2, q2)
        each_of_last = q2 * r2 // piece_of_last

        def of_last(number: Value) -> None:
            lookup, inner = b.div(number, each_of_last), b.rem(number, each_of_last)
            across = q2 // piece_of_last
            column = b.add(b.mul(lookup, q2), b.mul(b.rem(inner, across), piece_of_last))
            index = self.subgroup, b.div(inner, across), column
            self.copy(2, b.add(start(lookup, 2), b.mul(inner, piece_of_last)), piece_of_last, "last", index)

        self.each_piece(lookups * each_of_last, of_last)

    def each_piece(self, count: int, body: Callable[[Value], None]) -> None:
        """`body` for the numbers below `count` that are this lane's."""
        b = self.b
        if count <= UNROLLED * SUBGROUP and count % SUBGROUP == 0:
            for turn in range(0, count, SUBGROUP):
                body(b.add(self.lane, turn))
            return
        with b.for_(self.lane, count, SUBGROUP) as loop:
            body(loop.index)

    def piece(self, k: int, extent: int) -> int:
        """Elements of core k that a lane copies at a time: a whole number of an extent, all aligned."""
        begin = 0 if self.cores.separate else self.shape.start(k)
        return power_of(extent | begin, PAD)

    def copy(self, k: int, index: Value, piece: int, name: str, indices: tuple[Value, ...]) -> None:
        b = self.b
        value = b.load(f"core{k}" if self.cores.separate else "cores", index, lanes=piece)
        b.copy_async(value, name, indices)

    # --- products

    def multiply(self) -> None:
        """The products of a strip to @sums, one a_1 after the other."""
        b, size = self.b, self.size
        left = DataType.matrix(ROWS, ROWS, self.dtype, "a")
        zero = b.const(0)
        rows = [
            b.matrix_load("rows", (self.subgroup, zero, b.const(k)), left) for k in range(0, size.depth, ROWS)
        ]
        starts, widths = _parts(size.rank)
        last = [
            b.matrix_load(
                "last",
                (self.subgroup, b.const(s), zero),
                DataType.matrix(width, size.across, self.dtype, "b"),
            )
            for s, width in zip(starts, widths, strict=True)
        ]
        with b.for_(0, self.shape.q[1], dtype=DataType.U32) as loop:
            column = b.mul(loop.index, size.rank)
            total = b.const(0.0, DataType.matrix(ROWS, size.across, DataType.F32, "acc"))
            for s, width, right in zip(starts, widths, last, strict=True):
                product = self.product(rows, b.add(column, s), width)
                for part in self.parts(product, width):
                    total = b.matrix_mul_add(part, right, total)
            whole = b.cast(total, DataType.matrix(ROWS, size.across, self.out_dtype, "acc"))
            b.matrix_store(whole, "sums", (self.subgroup, b.mul(loop.index, ROWS), zero))

    def product(self, rows: Sequence[Value], column: Value, width: int) -> Value:
        """The rows of a strip by some columns of @middle."""
        b = self.b
        right = DataType.matrix(ROWS, width, self.dtype, "b")
        total = b.const(0.0, DataType.matrix(ROWS, width, DataType.F32, "acc"))
        for k, left in enumerate(rows):
            total = b.matrix_mul_add(left, b.matrix_load("middle", (b.const(k * ROWS), column), right), total)
        return total

    def parts(self, sums: Value, width: int) -> list[Value]:
        """Sums as left factors: rounded, and what that leaves."""
        b = self.b
        rounded = b.cast(sums, DataType.matrix(ROWS, width, self.dtype, "acc"))
        rest = b.sub(sums, b.cast(rounded, sums.type))
        left = DataType.matrix(ROWS, width, self.dtype, "a")
        return [b.cast(sums, left), b.cast(rest, left)]

    # --- results

    def write(self, strip: Value) -> None:
        """The rows of a strip's lookups from @sums to @out; of a lookup's columns in @sums only its own."""
        b, (q0, q1, q2) = self.b, self.shape.q
        piece = power_of(q2, PAD)
        across = q2 // piece
        each = q0 * q1 * across

        def put(number: Value) -> None:
            position, inner = b.div(number, each), b.rem(number, each)
            slot = b.add(b.mul(strip, self.size.lookups), position)
            with b.if_(b.le(slot, self.last)):
                part, row = b.rem(inner, across), b.div(inner, across)
                line = b.add(b.mul(b.rem(row, q1), ROWS), b.add(b.mul(position, q0), b.div(row, q1)))
                column = b.add(b.mul(position, q2), b.mul(part, piece))
                value: Value = b.load("sums", (self.subgroup, line, column), lanes=piece)
                lookup = self.found.lookup(slot)
                if self.indices.checked is not None:
                    value = self.indices.or_zero(value, self.indices.load(lookup))
                index = b.add(b.mul(lookup, self.shape.columns), b.mul(inner, piece))
                b.store(value, "out", index)

        self.each_piece(self.size.lookups * each, put)


def _parts(rank: int) -> tuple[list[int], list[int]]:
    """Offsets and widths of the matrices of sums along a rank."""
    starts, widths, start = [], [], 0
    while start < rank:
        width = MOST_WIDTH
        while width > rank - start:
            width //= 2
        starts.append(start)
        widths.append(width)
        start += width
    return starts, widths
