"""math.matvec_fixed: y = M x in signed 16.16, M in rows.  Two forms:

    plain      a subgroup for each row, whose lanes read neighbouring elements.  `unroll` turns of 32 elements are
               loaded together, so that their loads are in flight at the same time; turns left over are done one by one

    predicated for a GPU: `lanes` for `rows_per_thread` rows at once, which use an element of x where it is loaded once.  A
               row's last turn is whole, too: what is beyond the row's end is loaded from its last elements and
               counts as zero, so that no branch lies between loads

                   columns   0..v-1   v..2v-1  ...  (lanes - 1)v..      lanes * vector * unroll are a turn

Where rows are too few to occupy the target, `splits` workgroups share them: part s does the turns s, s + splits, ...
of a row.  A row has a word in @sums, to which each part adds its sum in the upper half and 1 in the lower one.  Sums
are modulo 2^32, so what leaves the upper half is not missed; and the part that finds all others counted has the total.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import MAX_LANES, Program, Value
from ..ir.types import DataType
from .collective import SUBGROUP, SharedSums, as_bits, fold_lanes, offset, shared_sums, subgroup_total
from .multiply_add import multiply_add, signed, stored, zero
from .powers_of_two import power_above, power_below
from .targets import MULTIPROCESSORS, is_gpu
from .tiles import each_tile, tiles_of

__all__ = ["MatvecSchedule", "matvec_fixed", "matvec_grid", "matvec_schedule"]

MOST_TURNS = 8
"""The most turns of the plain form whose loads are in flight together.

With so many an H100 reads a matrix of 4096 x 4096 at 2.5 TB/s; with one, at 1.1.
"""

RESIDENT = 1024  # lanes that a multiprocessor holds, if each has 64 registers
LANES = 256  # of a workgroup
IN_FLIGHT = 16  # elements that a lane loads together: 64 KiB a multiprocessor
MOST_ROWS = 4  # at once: with more, x would be only a small part of the loaded bytes
MAX_SPLITS = 1 << 12
LEAST_SPLIT = 4  # turns a lane, from which on to share a row is faster, although @sums has to be cleared


@dataclass(frozen=True)
class MatvecSchedule:
    """Distribution of rows over lanes, see the module.

    `rows`: of a workgroup at a time.  `unroll`: loads of a row that a lane has in flight together.
    `lanes`: that share a row, a power of two up to 32, or a multiple of 32; 32 in the plain form.
    `vector`: elements of a load, a divisor of the columns.
    `rows_per_thread`: rows that a lane does at once; a workgroup then does `rows * rows_per_thread`.
    `splits`: workgroups that share a row; with more than one, the grid is `matvec_grid`.
    `strided`: right for every grid.
    """

    rows: int = 4
    unroll: int = 8
    lanes: int = SUBGROUP
    vector: int = 1
    rows_per_thread: int = 1
    splits: int = 1
    predicated: bool = False
    strided: bool = False

    def __post_init__(self) -> None:
        lanes = self.lanes
        if lanes < 1 or (lanes % SUBGROUP and (lanes > SUBGROUP or lanes & (lanes - 1))):
            raise ValueError(f"a power of two up to 32 lanes share a row, or a multiple of 32: {self}")
        if not 1 <= self.rows or self.workgroup > MAX_LANES or self.workgroup % SUBGROUP:
            raise ValueError(f"the rows of a workgroup have 1 to 32 subgroups in all: {self}")
        if not 1 <= self.unroll <= 32 or not 1 <= self.rows_per_thread <= 8:
            raise ValueError(f"1 to 32 loads of a row together, 1 to 8 rows at once: {self}")
        if self.vector not in (1, 2, 4) or not 1 <= self.splits <= MAX_SPLITS:
            raise ValueError(f"vectors of 1, 2 or 4 elements, 1 to {MAX_SPLITS} workgroups together: {self}")
        if not self.predicated and (lanes, self.vector, self.rows_per_thread, self.splits) != (
            SUBGROUP,
            1,
            1,
            1,
        ):
            raise ValueError(f"a row is a subgroup's, an element a lane, unless loads are predicated: {self}")
        if (
            self.columns_per_turn > 1 << 16
        ):  # what a column is counted to beyond a row's end, and no buffer is that close to 2^32
            raise ValueError(f"a turn has {1 << 16} columns at most: {self}")
        if self.splits > 1 and self.strided:
            raise ValueError(f"workgroups that share rows have a grid of their own: {self}")

    @property
    def workgroup(self) -> int:
        """Lanes of a workgroup."""
        return self.rows * self.lanes

    @property
    def tile(self) -> int:
        """Rows of a workgroup."""
        return self.rows * self.rows_per_thread

    @property
    def columns_per_turn(self) -> int:
        """Columns that the lanes of a row load together."""
        return self.lanes * self.vector * self.unroll


def matvec_schedule(
    columns: int | None,
    rows: int | None = None,
    target: str = "",
    owns_grid: bool = True,
    multiprocessors: int = MULTIPROCESSORS,
) -> MatvecSchedule:
    """The default schedule for `rows` rows of `columns` (None: unknown).

    `owns_grid`: the launch has the grid of `matvec_grid`, and scratch of its own.  `multiprocessors`: of the GPU.
    """
    if is_gpu(target) and columns and rows:
        return _gpu_schedule(columns, rows, owns_grid, multiprocessors)
    turns = MOST_TURNS if columns is None else min(MOST_TURNS, max(1, columns // SUBGROUP))
    return MatvecSchedule(unroll=power_below(turns))


def _gpu_schedule(columns: int, rows: int, owns_grid: bool, multiprocessors: int) -> MatvecSchedule:
    """Loads of 16 bytes where all rows are aligned for them, and as many lanes as the GPU holds, if the rows are long
    enough for 64 bytes in flight in each."""
    vector = 4 if columns % 4 == 0 else 2 if columns % 2 == 0 else 1
    wanted = multiprocessors * RESIDENT
    if columns <= SUBGROUP * IN_FLIGHT:
        return _short_rows(columns, rows, vector, wanted)
    lanes = max(SUBGROUP, min(MAX_LANES, power_below(wanted // rows or 1)))
    lanes = min(lanes, -(-columns // (SUBGROUP * IN_FLIGHT)) * SUBGROUP)  # all of a row in one turn
    if owns_grid and lanes * rows * 2 <= wanted and columns >= LEAST_SPLIT * lanes * IN_FLIGHT:
        schedule = _shared_rows(columns, rows, vector, multiprocessors)
        if schedule.splits > 1:
            return schedule
    return MatvecSchedule(max(1, LANES // lanes), IN_FLIGHT // vector, lanes, vector, predicated=True)


def _short_rows(columns: int, rows: int, vector: int, wanted: int) -> MatvecSchedule:
    """Schedule for rows of one turn of 32 lanes or fewer: several at once, if there are many."""
    vectors = columns // vector
    lanes = min(SUBGROUP, power_above(vectors))
    unroll = power_above(-(-vectors // lanes))
    rows_per_thread = min(
        MOST_ROWS, IN_FLIGHT // (vector * unroll), max(1, power_below(rows * lanes // wanted or 1))
    )
    return MatvecSchedule(LANES // lanes, unroll, lanes, vector, rows_per_thread, predicated=True)


def _shared_rows(columns: int, rows: int, vector: int, multiprocessors: int) -> MatvecSchedule:
    """Schedule for few and long rows: several at once, if they are a multiple of that, by workgroups that share them."""
    rows_per_thread = next(n for n in (MOST_ROWS, 2, 1) if rows % n == 0)
    unroll = max(1, IN_FLIGHT // (vector * rows_per_thread))
    workgroups = multiprocessors * RESIDENT // LANES * rows_per_thread // rows
    splits = min(MAX_SPLITS, workgroups, columns // (LANES * vector * unroll))
    return MatvecSchedule(
        1, unroll, LANES, vector, rows_per_thread, power_below(splits or 1), predicated=True
    )


def matvec_grid(schedule: MatvecSchedule, rows: int) -> int:
    """Workgroups for a matrix of `rows` rows."""
    return max(1, -(-rows // schedule.tile)) * schedule.splits


@lru_cache(maxsize=64)
def matvec_fixed(
    dtype: DataType = DataType.U32,
    schedule: MatvecSchedule = MatvecSchedule(),
    x_dtype: DataType | None = None,
    y_dtype: DataType | None = None,
) -> Program:
    """The program `matvec_fixed`: @m, @x, @y of u32 or i32; len @x is the number of columns.  With `splits` also @sums
    (u64, a word for each row), zero on entry."""
    b = Builder("matvec_fixed", workgroup=schedule.workgroup)
    b.buffer("m", dtype, None, "read", 0)
    b.buffer("x", x_dtype or dtype, None, "read", 1)
    y = b.buffer("y", y_dtype or dtype, None, "write", 2, live_out=True)
    form = _Predicated if schedule.predicated else _Plain
    form(b, dtype, y.dtype, schedule).build()
    return b.finish(verify=False)


class _Matvec:
    """State shared by both forms: the tiles of rows, and the destination of sums."""

    def __init__(self, b: Builder, dtype: DataType, y_dtype: DataType, schedule: MatvecSchedule) -> None:
        self.b, self.dtype, self.y_dtype, self.schedule = b, dtype, y_dtype, schedule
        self.columns = b.len("x", name="columns")
        if schedule.vector > 1:  # changes nothing, but shows that vectors are aligned
            self.columns = b.and_(self.columns, -schedule.vector & 0xFFFFFFFF)
        self.rows = b.div(b.len("m"), self.columns, name="rows")

    def build(self) -> None:
        b, schedule = self.b, self.schedule
        with each_tile(b, tiles_of(b, self.rows, schedule.tile), schedule.strided) as number:
            self.tile(number)

    def tile(self, number: Value) -> None:
        raise NotImplementedError


class _Plain(_Matvec):
    """See the module."""

    def tile(self, number: Value) -> None:
        b = self.b
        row = b.add(b.mul(number, self.schedule.rows), b.subgroup_id(), name="row")
        with b.if_(b.lt(row, self.rows)):
            total = subgroup_total(b, self.sum(b.mul(row, self.columns)), "add")
            with b.if_(b.eq(b.lane_id(), 0)):
                b.store(stored(b, total, self.y_dtype), "y", row)

    def sum(self, start: Value) -> Value:
        """This lane's share of the row whose elements begin at `start`."""
        b, unroll, lane = self.b, self.schedule.unroll, self.b.lane_id()

        def add_cell(column: Value, total: Value) -> Value:
            left, right = b.load("m", b.add(start, column)), b.load("x", column)
            return multiply_add(b, signed(b, left), signed(b, right), total)

        turn = SUBGROUP * unroll
        whole = b.sub(self.columns, b.rem(self.columns, turn), name="whole")
        with b.for_(0, whole, turn, carry=[zero(b, self.dtype)], dtype=DataType.U32) as turns:
            total = turns.args[0]
            for k in range(unroll):
                total = add_cell(b.add(turns.index, b.add(lane, k * SUBGROUP)), total)
            turns.yield_(total)
        with b.for_(b.add(whole, lane), self.columns, SUBGROUP, carry=[turns.result]) as rest:
            rest.yield_(add_cell(rest.index, rest.args[0]))
        return rest.result


class _Predicated(_Matvec):
    """See the module.  A lane does several rows at once, each `rows` after the one before."""

    def __init__(self, b: Builder, dtype: DataType, y_dtype: DataType, schedule: MatvecSchedule) -> None:
        super().__init__(b, dtype, y_dtype, schedule)
        self.subgroups = max(1, schedule.lanes // SUBGROUP)  # of a row
        if schedule.splits > 1:
            b.buffer("sums", DataType.U64, None, "read_write", 3, live_in=True)
        if self.subgroups > 1:
            b.buffer("parts", zero(b, dtype).type, schedule.tile * self.subgroups, "workgroup")
        lane, lanes = b.local_id("x"), schedule.lanes
        self.side = lane if schedule.rows == 1 else b.rem(lane, lanes, name="side")
        self.group = b.const(0) if schedule.rows == 1 else b.div(lane, lanes, name="own")

    def tile(self, number: Value) -> None:
        b, schedule, part = self.b, self.schedule, self.b.const(0)
        if schedule.splits > 1:
            number, part = b.div(number, schedule.splits), b.rem(number, schedule.splits, name="part")
        first = b.mul(number, schedule.tile, name="first")
        with b.if_(b.lt(first, self.rows)):
            self.put(self.sums(first, part), first)

    def sums(self, first: Value, part: Value) -> list[Value]:
        """This lane's share of the sums of its rows, one for each of them."""
        b, schedule = self.b, self.schedule
        rows = [
            b.add(first, offset(b, self.group, k * schedule.rows)) for k in range(schedule.rows_per_thread)
        ]
        last_row = b.sub(self.rows, 1)
        starts = [b.mul(b.min(row, last_row), self.columns) for row in rows]
        last = b.sub(self.columns, schedule.vector, name="last")
        lane_offset = b.mul(self.side, schedule.vector) if schedule.vector > 1 else self.side
        nothing = [zero(b, self.dtype, schedule.vector)] * schedule.rows_per_thread
        start = b.mul(part, schedule.columns_per_turn) if schedule.splits > 1 else b.const(0)
        stride = schedule.columns_per_turn * schedule.splits
        with b.for_(start, self.columns, stride, carry=nothing, dtype=DataType.U32) as loop:
            begin = b.add(loop.index, lane_offset)
            columns = [offset(b, begin, k * schedule.lanes * schedule.vector) for k in range(schedule.unroll)]
            indices = [b.min(column, last) for column in columns]
            # all loads before the first sum, so that they are checked and wait together
            factors = [self.load("x", index) for index in indices]
            cells = [[self.load("m", b.add(start, index)) for index in indices] for start in starts]
            for k, column in enumerate(columns):
                factors[k] = b.select(b.lt(column, self.columns), factors[k], b.const(0, factors[k].type))
            totals = list(loop.args)
            for k, row in enumerate(cells):
                for factor, cell in zip(factors, row, strict=True):
                    totals[k] = multiply_add(b, factor, cell, totals[k])
            loop.yield_(*totals)
        return [fold_lanes(b, [total], "add") for total in loop.results]

    def load(self, buffer: str, index: Value) -> Value:
        return signed(self.b, self.b.load(buffer, index, lanes=self.schedule.vector))

    def put(self, totals: Sequence[Value], first: Value) -> None:
        """Add up what the lanes of each row have, and hand it over."""
        b, schedule = self.b, self.schedule
        if self.subgroups == 1:
            shared = self.shared(totals)
            with b.if_(shared.writes):
                for k, total in enumerate(shared.values):
                    turn = b.mul(b.add(shared.first, k), schedule.rows)
                    self.put_row(total, b.add(first, b.add(turn, self.group)))
            return
        totals = [subgroup_total(b, total, "add") for total in totals]
        with b.if_(b.eq(b.lane_id(), 0)):
            for k, total in enumerate(totals):
                row = offset(b, self.group, k * schedule.rows)
                slot = b.add(b.mul(row, self.subgroups), b.div(self.side, SUBGROUP))
                b.store(total, "parts", slot)
        b.barrier("workgroup")
        with b.if_(b.lt(b.local_id("x"), schedule.tile)):
            slot = b.mul(b.local_id("x"), self.subgroups)
            parts = [b.load("parts", offset(b, slot, k)) for k in range(self.subgroups)]
            self.put_row(fold_lanes(b, parts, "add"), b.add(first, b.local_id("x")))
        if schedule.strided:  # before the sums of the next tile
            b.barrier("workgroup")

    def shared(self, totals: Sequence[Value]) -> SharedSums:
        """The sums of rows of a subgroup or less."""
        b, lanes = self.b, self.schedule.lanes
        if lanes < SUBGROUP:
            return shared_sums(b, totals, self.side, lanes)
        sums = [subgroup_total(b, total, "add") for total in totals]
        return SharedSums(sums, b.const(0), b.eq(b.lane_id(), 0))

    def put_row(self, total: Value, row: Value) -> None:
        """Store a sum, if there is such a row; of workgroups that share it the last one does, see the module."""
        b, splits = self.b, self.schedule.splits
        with b.if_(b.lt(row, self.rows)):
            if splits == 1:
                b.store(stored(b, total, self.y_dtype), "y", row)
                return
            upper = b.shl(b.cast(as_bits(b, total, DataType.U32), DataType.U64), b.const(32, DataType.U64))
            before = b.atomic_add("sums", row, b.or_(upper, 1))
            counted = b.cast(before, DataType.U32)
            with b.if_(b.eq(counted, splits - 1)):
                whole = b.shr(b.add(before, upper), b.const(32, DataType.U64))
                bits = b.cast(whole, DataType.U32)
                b.store(as_bits(b, bits, self.y_dtype), "y", row)
