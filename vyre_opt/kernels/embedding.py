"""tt.embedding: rows of a table that is stored as a tensor train of 2 to 4 cores.

Core k has shape [p_k, r_k, q_k, r_k+1], with r_0 = r_d = 1; @cores holds one core after the other.
An index is written as digits i_k in the mixed radix p_0, p_1, ..., the most significant first.  Its
row is the product of the slices core_k[i_k]:

    row[a_0, a_1, ...] = sum over s_1, s_2, ...  core_0[i_0, 0, a_0, s_1] core_1[i_1, s_1, a_1, s_2] ...

A workgroup does several lookups.  After core k the partial product of a lookup is a matrix of
q_0 ... q_k rows and r_k+1 columns, stored in workgroup memory by columns.  In the step of core k + 1
a lane computes `rows` rows of one column (a, s') of the next matrix.  Neighbouring lanes then read
neighbouring elements of the core, and the same elements of the matrix, which is a broadcast.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from ..ir.builder import Builder
from ..ir.embedding_shape import MAX_TABLE_BYTES, EmbeddingShape
from ..ir.program import Program, Value
from ..ir.types import DataType
from ..records import dataclass
from .collective import SUBGROUP, as_type, guarded, offset
from .embedding_cores import EmbeddingCores
from .embedding_grouped import (
    BUSY_WORKGROUPS,
    GroupedSchedule,
    embedding_grouped,
    grouped_grid,
    grouped_schedule,
)
from .embedding_indices import EmbeddingIndices, table_buffers
from .embedding_merge import Group, merged_groups
from .embedding_pairs import PairSchedule, embedding_pairs, pair_grid, pair_schedule
from .embedding_units import (
    EmbeddingUnitSchedule,
    embedding_unit_grid,
    embedding_unit_schedule,
    embedding_units,
)
from .targets import is_gpu
from .tiles import each_tile, tiles_of

__all__ = [
    "EmbeddingSchedule",
    "EmbeddingShape",
    "EmbeddingUnitSchedule",
    "GroupedSchedule",
    "PairSchedule",
    "Schedule",
    "embedding",
    "embedding_grid",
    "embedding_schedule",
    "merge_for",
]

MOST_UNROLLED = 256  # rows of a lane, or rounds: each is code of its own
MANY_LOOKUPS = 1 << 15
FEW_WORKGROUPS = 256  # that keep an H200 busy with lookups of up to 64 columns, if their lanes are many


@dataclass(frozen=True)
class EmbeddingSchedule:
    """`lanes` and `lookups`: of a workgroup.  `rows_per_thread`: that a lane computes at once, at most.  `unroll`: of the
    sums over a rank.  `strided`: right for every grid.
    """

    lanes: int = 128
    lookups: int = 4
    rows_per_thread: int = 8
    unroll: int = 4
    strided: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.lanes <= 1024 or self.lookups < 1:
            raise ValueError(f"1 to 1024 lanes, at least one lookup: {self}")
        if not 1 <= self.rows_per_thread <= MOST_UNROLLED or not 1 <= self.unroll <= MOST_UNROLLED:
            raise ValueError(f"1 to {MOST_UNROLLED} rows of a lane, and rounds together: {self}")


Schedule = EmbeddingSchedule | EmbeddingUnitSchedule | GroupedSchedule | PairSchedule


def embedding_schedule(
    shape: EmbeddingShape,
    strided: bool = False,
    count: int | None = None,
    target: str = "",
    dtype: DataType = DataType.F32,
    out_dtype: DataType | None = None,
) -> Schedule:
    """The default schedule for `count` lookups, None if unknown; for the CPU target, see `_cpu_schedule`.

    On a GPU lookups are grouped by slice, if there are enough of them to share slices, and those of bf16 multiplied by its
    matrix units if it is known to have them (`target` sm_90, say); of two cores with large ranks a subgroup does a lookup.  Otherwise a workgroup
    does as many lookups, up to 4, as fit into workgroup memory; on a GPU fewer, if `count` would leave
    multiprocessors idle, and a single lookup of 256 columns or more gets 256 lanes.  Four of 32 columns or fewer have work
    for 64 lanes, which are 4 to 8 % faster than 128 on an H200 at ranks of 4 and 8, if there are many workgroups.
    """
    if target == "cpu":
        return _cpu_schedule(shape, strided)
    known = count if is_gpu(target) else None
    if known and not strided:
        units = embedding_unit_schedule(shape, known, dtype, out_dtype or dtype, target)
        grouped = units or grouped_schedule(shape, known)
        if grouped is not None:
            return grouped
    pairs = pair_schedule(shape, known) if known else None
    if pairs is not None:
        return replace(pairs, strided=strided)
    lookups = 4
    while lookups > 1 and shape.table_bytes(lookups) > MAX_TABLE_BYTES // 2:
        lookups //= 2
    columns = max(q * rank for q, rank in zip(shape.q, shape.ranks[1:], strict=True))
    busy = BUSY_WORKGROUPS if columns > 2 * SUBGROUP else FEW_WORKGROUPS
    while known and lookups > 1 and known < lookups * busy:
        lookups //= 2
    lanes = 128
    if known and lookups == 1 and columns >= 256:
        lanes = 256
    elif known and known >= MANY_LOOKUPS and lookups == 4 and columns <= SUBGROUP:
        lanes = 64
    elif known and lookups == 4 and known < lookups * BUSY_WORKGROUPS and columns > SUBGROUP:
        lanes = 256
    return EmbeddingSchedule(lanes, lookups, strided=strided)


def merge_for(shape: EmbeddingShape, dtype: DataType, target: str) -> list[Group]:
    """The cores of a table to be made one each before lookups, see `merged_groups`; where a GPU has a schedule for the result
    that is made for it, and not for matrix units if it has one for them.
    """
    if not is_gpu(target):
        return merged_groups(shape)

    def on_units(shape: EmbeddingShape) -> bool:
        return embedding_unit_schedule(shape, MANY_LOOKUPS, dtype, dtype, target) is not None

    if on_units(shape):
        return [(k, k + 1) for k in range(len(shape.p))]
    groups = merged_groups(shape, on_units)
    if len(groups) < len(shape.p):
        return groups
    return merged_groups(shape, lambda shape: pair_schedule(shape, MANY_LOOKUPS) is not None)


def _cpu_schedule(shape: EmbeddingShape, strided: bool) -> EmbeddingSchedule:
    """A lane for each column of the step with the most multiplications.

    The column of a lane is then its own number in every round, and lookup and rows of a round are the same
    for all lanes.  So a subgroup reads the core by vectors and the matrix by broadcasts, not by gathers.  If
    the columns are not whole subgroups, one subgroup that does one lookup at a time has the same effect.  The
    last step has few columns: up to 8 lookups are done at once, so that it has work for all lanes.
    """
    schedule = EmbeddingSchedule(SUBGROUP, 1, rows_per_thread=8, unroll=1, strided=strided)
    ranks, q = shape.ranks, shape.q

    def sums(k: int) -> int:
        return ranks[k] * prod(q[: k + 1]) * ranks[k + 1]

    heaviest = max(range(1, len(q)), key=sums)
    columns = q[heaviest] * ranks[heaviest + 1]
    if columns > SUBGROUP and (columns % SUBGROUP or columns > 1024):
        return schedule
    lanes, lookups = max(columns, SUBGROUP), 1
    busy = (
        max(1, prod(q[:-1]) // schedule.rows_per_thread) * q[-1]
    )  # lanes that the last step has work for, a lookup
    while lookups < 8 and lookups * busy < lanes and shape.table_bytes(2 * lookups) <= MAX_TABLE_BYTES:
        lookups *= 2
    return replace(schedule, lanes=lanes, lookups=lookups)


def embedding_grid(schedule: Schedule, shape: EmbeddingShape, count: int) -> int:
    """Workgroups for `count` lookups."""
    if isinstance(schedule, GroupedSchedule):
        return grouped_grid(schedule, shape, count)
    if isinstance(schedule, PairSchedule):
        return pair_grid(schedule, count)
    if isinstance(schedule, EmbeddingUnitSchedule):
        return embedding_unit_grid(schedule, shape, count)
    return max(1, -(-count // schedule.lookups))


@lru_cache(maxsize=64)
def embedding(
    shape: EmbeddingShape,
    dtype: DataType = DataType.F32,
    schedule: Schedule | None = None,
    out_dtype: DataType | None = None,
    separate: bool = False,
    checked: DataType | None = None,
) -> Program:
    """The program `embedding`: @cores, @indices (u32, below the product of p), @out in rows.

    `separate`: each core is a buffer of its own, @core0, @core1, ...  `checked`: the type of @indices, if they may be
    out of range, see EmbeddingIndices.  Raises ValueError for tables that do not fit into workgroup memory.
    """
    schedule = schedule or embedding_schedule(shape)
    if isinstance(schedule, GroupedSchedule):
        return embedding_grouped(shape, dtype, schedule, out_dtype or dtype, separate, checked)
    if isinstance(schedule, EmbeddingUnitSchedule):
        return embedding_units(shape, dtype, schedule, out_dtype or dtype, separate, checked)
    if isinstance(schedule, PairSchedule):
        return embedding_pairs(shape, dtype, schedule, out_dtype or dtype, separate, checked)
    if shape.table_bytes(schedule.lookups) > MAX_TABLE_BYTES:
        raise ValueError(
            f"{schedule.lookups} lookups need {shape.table_bytes(schedule.lookups)} bytes of workgroup memory, "
            f"more than {MAX_TABLE_BYTES}; lower the ranks"
        )
    b = Builder("embedding", workgroup=schedule.lanes)
    cores, indices = table_buffers(b, shape, dtype, out_dtype or dtype, separate, checked)
    for name, size in zip(("even", "odd"), shape.tables, strict=True):
        if size:
            b.buffer(name, DataType.F32, size * schedule.lookups, "workgroup")
    b.buffer("found", DataType.U32, schedule.lookups, "workgroup")
    work = _Embedding(b, cores, indices, schedule)
    count = b.len("indices", name="n")
    with each_tile(b, tiles_of(b, count, schedule.lookups), schedule.strided) as tile:
        work.build(b.mul(tile, schedule.lookups, name="first"), count)
        if schedule.strided:
            b.barrier("workgroup")
    return b.finish(verify=False)


class _Embedding:
    """Emits the body: @found holds the tile's indices, @even and @odd the matrices of its lookups."""

    def __init__(
        self, b: Builder, cores: EmbeddingCores, indices: EmbeddingIndices, schedule: EmbeddingSchedule
    ) -> None:
        self.b, self.shape, self.cores, self.schedule = b, cores.shape, cores, schedule
        self.indices = indices
        self.lane = b.local_id("x", name="lane")

    def build(self, first: Value, count: Value) -> None:
        """The lookups from number `first` on; those from `count` on do not exist."""
        b, lookups = self.b, self.schedule.lookups
        exist = b.sub(count, first)
        with b.for_(self.lane, lookups, self.schedule.lanes) as loop:
            inside = b.lt(loop.index, exist)
            # index 0 for a lookup that does not exist: it is computed as others are, but not written
            index = guarded(b, inside, lambda: self.indices.load(b.add(first, loop.index)))
            b.store(index, "found", loop.index)
        b.barrier("workgroup")
        self.begin()
        last = len(self.shape.p) - 1
        for k in range(1, last + 1):
            b.barrier("workgroup")
            self.step(k, first, exist, is_last=k == last)
        if self.indices.checked is not None:
            lookups_of_lane = b.for_(self.lane, lookups, self.schedule.lanes)
            with lookups_of_lane as loop, b.if_(self.indices.is_outside(b.load("found", loop.index))):
                self.indices.trap()

    def slice_start(self, lookup: Value, k: int) -> Value:
        """Offset in its buffer of the slice of core k that a lookup takes."""
        row = self.indices.row(self.b.load("found", lookup))
        return self.cores.slice_start(self.cores.digit(row, k), k)

    def begin(self) -> None:
        """Copy the slices of the first core to @even, transposed to [s, a]."""
        b, shape = self.b, self.shape
        size, q, rank = shape.table(0), shape.q[0], shape.ranks[1]
        with b.for_(self.lane, size * self.schedule.lookups, self.schedule.lanes) as loop:
            lookup, cell = b.div(loop.index, size), b.rem(loop.index, size)
            value = self.cores.load(0, b.add(self.slice_start(lookup, 0), cell))
            across = b.add(b.mul(b.rem(cell, rank), q), b.div(cell, rank))
            b.store(value, "even", b.add(b.mul(lookup, size), across))

    def step(self, k: int, first: Value, exist: Value, is_last: bool) -> None:
        """Multiply the matrices after core k - 1 by core k, into the other buffer or @out."""
        b, shape, schedule = self.b, self.shape, self.schedule
        rows, columns = prod(shape.q[:k]), shape.q[k] * shape.ranks[k + 1]
        together = self.rows_together(rows, columns)
        blocks = rows // together
        with b.for_(self.lane, schedule.lookups * blocks * columns, schedule.lanes) as loop:
            column = b.rem(loop.index, columns)
            rest = b.div(loop.index, columns) if schedule.lookups * blocks > 1 else b.const(0)
            block = b.rem(rest, blocks) if blocks > 1 else b.const(0)
            lookup = b.div(rest, blocks) if blocks > 1 else rest
            row = b.mul(block, together)
            sums = self.products(k, lookup, row, column, together, columns)
            if is_last:
                with b.if_(b.lt(lookup, exist)):
                    self.write(first, lookup, row, column, sums)
            else:
                self.keep(k, lookup, row, column, sums)

    def rows_together(self, rows: int, columns: int) -> int:
        """The largest divisor of `rows`, up to the schedule's, that leaves work for every lane."""
        together = self.schedule.rows_per_thread
        while together > 1 and (
            rows % together or self.schedule.lookups * (rows // together) * columns < self.schedule.lanes
        ):
            together -= 1
        return together

    def products(
        self, k: int, lookup: Value, row: Value, column: Value, together: int, columns: int
    ) -> list[Value]:
        """The sums over the rank between core k - 1 and core k, for `together` rows from `row` on."""
        b, shape = self.b, self.shape
        rank, rows = shape.ranks[k], prod(shape.q[:k])
        table = "even" if k % 2 else "odd"
        cells = b.add(self.slice_start(lookup, k), column)
        entries = b.add(b.mul(lookup, shape.table(k - 1)), row)
        unroll = self.schedule.unroll
        while rank % unroll:
            unroll -= 1
        with b.for_(0, rank, unroll, carry=[b.const(0.0, DataType.F32)] * together) as loop:
            sums = list(loop.args)
            for ahead in range(unroll):
                s = offset(b, loop.index, ahead)
                cell = self.cores.load(k, b.add(cells, b.mul(s, columns)))
                entry = b.load(table, b.add(entries, b.mul(s, rows)), lanes=together)
                for i in range(together):
                    left = b.extract(entry, i) if together > 1 else entry
                    sums[i] = b.fma(left, cell, sums[i])
            loop.yield_(*sums)
        return list(loop.results)

    def keep(self, k: int, lookup: Value, row: Value, column: Value, sums: list[Value]) -> None:
        """Store to the other buffer, as [s', row * q + a]."""
        b, shape = self.b, self.shape
        q, rank = shape.q[k], shape.ranks[k + 1]
        wide = prod(shape.q[: k + 1])
        a, s = b.div(column, rank), b.rem(column, rank)
        start = b.add(b.mul(lookup, shape.table(k)), b.mul(s, wide))
        index = b.add(start, b.add(b.mul(row, q), a))
        for i, value in enumerate(sums):
            b.store(value, "odd" if k % 2 else "even", offset(b, index, i * q))

    def write(self, first: Value, lookup: Value, row: Value, column: Value, sums: list[Value]) -> None:
        b, q = self.b, self.shape.q[-1]
        start = b.mul(b.add(first, lookup), self.shape.columns)
        element = b.add(start, b.add(b.mul(row, q), column))
        out = self.b.program.buffers["out"]
        if self.indices.checked is not None:
            index = b.load("found", lookup)
            sums = [self.indices.or_zero(value, index) for value in sums]
        for i, value in enumerate(sums):
            b.store(as_type(b, value, out.dtype), out, offset(b, element, i * q))
