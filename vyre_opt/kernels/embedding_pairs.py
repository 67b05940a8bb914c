"""tt.embedding over two cores, a lookup for each subgroup.

A row is a matrix product of two slices, over the rank between them.  A lane does some of the sums' terms for 4 columns
and all rows:

    slice of core 1, [s, a_1]       lane = group of `vector` s * (columns / 4) + a_1 / 4
    slice of core 0, [a_0, s]       `vector` neighbouring s of each a_0

So both slices are read by vectors, each element of core 1 once.  Then the lanes of a column exchange partial sums until
each has the whole sums of some elements of the row.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.embedding_shape import EmbeddingShape
from ..ir.program import Program, Value
from ..ir.types import DataType
from ..records import dataclass
from .collective import SUBGROUP, as_type, elements, guarded, shared_sums
from .embedding_cores import EmbeddingCores
from .embedding_indices import EmbeddingIndices, table_buffers
from .tiles import each_tile, tiles_of

__all__ = ["PairSchedule", "embedding_pairs", "pair_grid", "pair_schedule"]

VECTOR = 4  # columns of a lane
MOST_SUMS = 64  # that a lane may keep in registers


@dataclass(frozen=True)
class PairSchedule:
    """`lanes`: of a workgroup, whole subgroups.  `lookups`: of a subgroup, up to 32, one after the other.  `vector`: of
    a sum that a lane loads at once.  `strided`: right for every grid."""

    lanes: int = 128
    lookups: int = 4
    vector: int = 4
    strided: bool = False

    def __post_init__(self) -> None:
        if self.lanes % SUBGROUP or not SUBGROUP <= self.lanes <= 1024:
            raise ValueError(f"lanes are a multiple of 32 up to 1024: {self}")
        if not 1 <= self.lookups <= SUBGROUP or self.vector not in (1, 2, 4):
            raise ValueError(f"1 to 32 lookups of a subgroup, vectors of 1, 2 or 4 terms: {self}")

    @property
    def tile(self) -> int:
        """Lookups of a workgroup."""
        return self.lanes // SUBGROUP * self.lookups

    def why_not(self, shape: EmbeddingShape) -> str | None:
        """Why the schedule does not fit a shape; None if it does."""
        if len(shape.p) != 2:
            return f"it is for 2 cores, not {len(shape.p)}"
        (rows, columns), (rank,) = shape.q, shape.r
        across = columns // VECTOR
        if columns % VECTOR or across & (across - 1) or across > SUBGROUP:
            return f"{columns} columns are not 1, 2, 4, 8, 16 or 32 vectors of {VECTOR}"
        if rows * VECTOR > MOST_SUMS:
            return f"a lane would keep {rows * VECTOR} sums, more than {MOST_SUMS}"
        if rank % self.vector:
            return f"the rank {rank} is not a multiple of {self.vector}"
        return None


def pair_schedule(shape: EmbeddingShape, count: int) -> PairSchedule | None:
    """The default schedule for `count` lookups on a GPU; None if none fits, or if lanes would have no term."""
    for vector in (4, 2, 1):
        # subgroups take several lookups where there are enough for all multiprocessors
        schedule = PairSchedule(128, 4 if count >= 1 << 15 else 1, vector)
        if schedule.why_not(shape) is None and shape.r[0] >= vector * _groups(shape):
            return schedule
    return None


def _groups(shape: EmbeddingShape) -> int:
    """Number of groups of lanes that have the same columns."""
    return SUBGROUP * VECTOR // shape.q[1]


def pair_grid(schedule: PairSchedule, count: int) -> int:
    """Workgroups for `count` lookups."""
    return max(1, -(-count // schedule.tile))


def embedding_pairs(
    shape: EmbeddingShape,
    dtype: DataType,
    schedule: PairSchedule,
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
    b = Builder("embedding", workgroup=schedule.lanes)
    cores, indices = table_buffers(b, shape, dtype, out_dtype, separate, checked)
    work = _Pairs(b, cores, indices, schedule)
    count = b.len("indices", name="n")
    with each_tile(b, tiles_of(b, count, schedule.tile), schedule.strided) as tile:
        work.build(b.mul(tile, schedule.tile), count)
    return b.finish(verify=False)


class _Pairs:
    """Emits the lookups of a workgroup."""

    def __init__(
        self, b: Builder, cores: EmbeddingCores, indices: EmbeddingIndices, schedule: PairSchedule
    ) -> None:
        self.b, self.shape, self.cores, self.schedule = b, cores.shape, cores, schedule
        self.indices = indices
        across = self.shape.q[1] // VECTOR
        self.groups = SUBGROUP // across
        lane = b.lane_id()
        self.group = b.div(lane, across, name="group")
        self.column = b.mul(b.rem(lane, across), VECTOR, name="column")

    def build(self, start: Value, count: Value) -> None:
        b, lookups = self.b, self.schedule.lookups
        first = b.add(start, b.mul(b.subgroup_id(), lookups), name="first")
        exist = b.min(b.sub(b.max(count, first), first), lookups, name="exist")
        lane = b.lane_id()  # lane l has the index of lookup l
        index = guarded(b, b.lt(lane, exist), lambda: self.indices.load(b.add(first, lane)))
        with b.for_(0, exist, dtype=DataType.U32) as loop:
            self.lookup(b.subgroup_shuffle(index, loop.index, "idx"), b.add(first, loop.index))
        if self.indices.checked is not None:
            with b.if_(self.indices.is_outside(index)):
                self.indices.trap()

    def lookup(self, index: Value, number: Value) -> None:
        b, (rows, columns) = self.b, self.shape.q
        row = self.indices.row(index)
        left, right = (self.cores.slice_start(self.cores.digit(row, k), k) for k in (0, 1))
        sums = [element for total in self.products(left, right) for element in elements(b, total)]
        shared = shared_sums(b, sums, self.group, self.groups, SUBGROUP // self.groups)
        out = b.program.buffers["out"]
        start = b.add(b.mul(number, rows * columns), self.column)
        values = shared.values
        if self.indices.checked is not None:
            values = [self.indices.or_zero(value, index) for value in values]
        together = min(len(values) & -len(values), VECTOR)  # elements that are neighbours in a row
        with b.if_(shared.writes):
            for k in range(0, len(values), together):
                at = b.add(shared.first, k)
                target = b.add(b.mul(b.div(at, VECTOR), columns), b.rem(at, VECTOR))
                whole = b.vector(*values[k : k + together]) if together > 1 else values[k]
                b.store(as_type(b, whole, whole.type.with_element(out.dtype)), out, b.add(start, target))

    def products(self, left: Value, right: Value) -> list[Value]:
        """This lane's terms of the sums of its columns: a vector for each row."""
        b, rank, vector = self.b, self.shape.r[0], self.schedule.vector
        step = self.groups * vector
        whole = rank // step * step
        first_term = b.mul(self.group, vector)
        sums: list[Value] = [b.const(0.0, _vector(VECTOR))] * self.shape.q[0]
        if whole > step:
            with b.for_(0, whole, step, carry=sums, dtype=DataType.U32) as loop:
                loop.yield_(*self.add_terms(left, right, b.add(first_term, loop.index), list(loop.args)))
            sums = list(loop.results)
        elif whole:
            sums = self.add_terms(left, right, first_term, sums)
        if whole < rank:
            s = b.add(first_term, whole)
            sums = self.add_terms(left, right, b.min(s, rank - vector), sums, b.lt(s, rank))
        return sums

    def add_terms(
        self, left: Value, right: Value, s: Value, sums: list[Value], exist: Value | None = None
    ) -> list[Value]:
        """The sums with the terms from `s` on, if they `exist`."""
        b, rank, columns, vector = self.b, self.shape.r[0], self.shape.q[1], self.schedule.vector

        def load(core: int, index: Value, lanes: int) -> Value:
            loaded = self.cores.load(core, index, lanes)
            return loaded if exist is None else b.select(exist, loaded, 0.0)

        cells = b.add(b.add(right, self.column), b.mul(s, columns))
        across = [load(1, b.add(cells, k * columns), VECTOR) for k in range(vector)]
        down = b.add(left, s)
        factors = [elements(b, load(0, b.add(down, row * rank), vector)) for row in range(self.shape.q[0])]
        for k in range(vector):
            sums = [
                b.fma(b.splat(row_factors[k], VECTOR), across[k], total)
                for row_factors, total in zip(factors, sums, strict=True)
            ]
        return sums


def _vector(lanes: int) -> DataType:
    return DataType.vec(DataType.F32, lanes) if lanes > 1 else DataType.F32
