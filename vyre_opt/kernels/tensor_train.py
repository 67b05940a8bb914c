"""tt.contract_step: out_j = sum_i acc_i * core_ij, one step of a tensor-train contraction.

@acc has r elements, @core r rows of len @out.  f32, or signed 16.16 in u32 or i32.  Two forms:

    in registers   lanes side by side read neighbouring columns, and what lanes are left over other rows:

                       columns   0..v-1   v..2v-1  ...          lane = slot * side + column / v
                       slot 0    rows 0, s, 2s, ...
                       slot 1    rows 1, s+1, ...               sums of the slots are added up at the end

    streamed       for a CPU: one subgroup adds `unroll` rows at a time to sums that stay in its cache,
                   see row_stream

Where a core has too few columns to occupy the target, `splits` workgroups share a block of them, a range of
rows each.  They leave their sums in @partials, and the one that counts itself last in @arrived adds them up, in
the order of the rows, so that results do not depend on who it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Program, Value
from ..ir.types import DataType
from .collective import SUBGROUP, as_bits, elements, offset, shared_sums
from .multiply_add import multiply_add, signed, stored, zero
from .powers_of_two import power_above, power_below
from .row_stream import RowStream
from .targets import MULTIPROCESSORS, is_gpu

__all__ = [
    "cells_per_thread",
    "StepSchedule",
    "contract_step",
    "contract_step_grid",
    "contract_step_scratch",
    "contract_step_schedule",
]

STREAMED_COLUMNS = 4096  # most of a block, on a CPU: their sums stay in its first cache
ROWS_PER_PART = 128  # at least, where threads share the rows of a block
MAX_SPLITS = 1024
MAX_STREAM_COLUMNS = 8192  # whose sums are in workgroup memory
PARTS_TOGETHER = 8  # whose loads are in flight together
WORKGROUPS = 2 * MULTIPROCESSORS  # that occupy an H200
LARGE_CELLS, HUGE_CELLS = 1 << 21, 1 << 24


@dataclass(frozen=True)
class StepSchedule:
    """`lanes` of a workgroup, `lanes_n` of them side by side over the columns, `vector` columns each, a divisor of
    all; `unroll`: rows of a lane whose loads are in flight together.

    `splits`: workgroups that share a block of columns; with more than one, the grid is `contract_step_grid`.
    `stream_columns`: columns of a workgroup of one subgroup that streams rows, 0 for the form in registers.
    """

    lanes: int = 256
    unroll: int = 4
    lanes_n: int = 0
    vector: int = 1
    splits: int = 1
    stream_columns: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.lanes <= 1024 or not 1 <= self.unroll <= 32:
            raise ValueError(f"1 to 1024 lanes, 1 to 32 rows together: {self}")
        if self.vector not in (1, 2, 4) or not 1 <= self.splits <= MAX_SPLITS:
            raise ValueError(f"vectors of 1, 2 or 4 columns, 1 to {MAX_SPLITS} workgroups together: {self}")
        if self.lanes_n not in (0, self.lanes) and (
            self.lanes % SUBGROUP or self.lanes_n & (self.lanes_n - 1) or not 1 <= self.lanes_n < self.lanes
        ):
            raise ValueError(f"lanes side by side are all, or a power of two of whole subgroups: {self}")
        if self.stream_columns and (
            self.lanes != SUBGROUP or self.lanes_n or self.vector != 1 or self.stream_columns % SUBGROUP
        ):
            raise ValueError(f"rows are streamed by 32 lanes, over a multiple of 32 columns: {self}")
        if self.stream_columns > MAX_STREAM_COLUMNS:
            raise ValueError(f"rows are streamed over at most {MAX_STREAM_COLUMNS} columns: {self}")

    @property
    def side(self) -> int:
        """Lanes side by side."""
        return self.lanes_n or self.lanes

    @property
    def columns(self) -> int:
        """Columns of a workgroup."""
        return self.stream_columns or self.side * self.vector


def contract_step_schedule(
    inner: int | None,
    cells: int | None = None,
    target: str = "",
    owns_grid: bool = True,
    workers: int = 1,
) -> StepSchedule:
    """The default schedule for a core of `inner` rows and `cells` elements (None: unknown).

    `owns_grid`: the launch has the grid of `contract_step_grid`, and scratch of its own.  `workers`: threads of the
    cpu target.
    """
    outer = cells // inner if inner and cells else 0
    if not inner or not outer:
        return _unknown_schedule(inner, target)
    if is_gpu(target):
        return _gpu_schedule(inner, outer, owns_grid)
    if target == "cpu":
        return _cpu_schedule(inner, outer, workers if owns_grid else 1)
    return StepSchedule()


def _unknown_schedule(inner: int | None, target: str) -> StepSchedule:
    """A lane for each column: right for every core."""
    if is_gpu(target):
        rows = inner or 16
        return StepSchedule(lanes=32, unroll=32 if rows >= 4 * 32 else min(16, power_below(rows)))
    return StepSchedule(unroll=2) if target == "cpu" else StepSchedule()


def _gpu_schedule(inner: int, outer: int, owns_grid: bool) -> StepSchedule:
    """Few lanes side by side, 128 bytes of a row where columns allow, so that there are many blocks of columns; all of
    a subgroup where there are enough.

    A workgroup has 16 rows a lane at least before columns are split, since adding up parts takes some 2 us.  Then a
    whole subgroup is side by side, for longer runs of a row.  A large core whose blocks of columns occupy the GPU is
    not split, by workgroups as large as can be.
    """
    vector = 4 if outer % 4 == 0 else 2 if outer % 2 == 0 else 1
    is_wide = outer >= 64 * WORKGROUPS
    lanes_n = SUBGROUP if is_wide else 8 if vector == 4 else 16
    lanes_n = min(lanes_n, power_above(-(-outer // vector)))
    lanes = 512 if vector == 4 and not is_wide else 256
    while lanes_n < SUBGROUP and lanes // lanes_n > inner:
        lanes_n *= 2
    if lanes // lanes_n > inner:  # a few rows: a lane does all of them
        lanes = lanes_n = 256
    slots = lanes // lanes_n
    most = 4 if is_wide or inner * outer >= 1 << 26 else 2
    schedule = StepSchedule(lanes, min(most, -(-inner // slots)), lanes_n, vector)
    if not owns_grid or _splits(schedule, inner, outer) < 2:
        return schedule
    if inner * outer >= LARGE_CELLS and outer >= 0.9 * MULTIPROCESSORS * 8 * vector:
        return StepSchedule(1024, 2, 8, vector)
    if outer >= SUBGROUP:
        while vector > 1 and SUBGROUP * vector > outer + SUBGROUP:
            vector //= 2
        schedule = StepSchedule(512, 4, SUBGROUP, vector)
    return replace(schedule, splits=max(1, _splits(schedule, inner, outer)))


def _splits(schedule: StepSchedule, inner: int, outer: int) -> int:
    """Workgroups for a block of columns of a GPU, of 16 rows a lane at least, or of 8 of narrow rows."""
    blocks = -(-outer // schedule.columns)
    workgroups = WORKGROUPS * (2 if inner * outer >= HUGE_CELLS else 1)
    rows = (16 if outer >= SUBGROUP else 8) * (schedule.lanes // schedule.side)
    return min(MAX_SPLITS, workgroups // blocks, inner // rows)


def _cpu_schedule(inner: int, outer: int, workers: int) -> StepSchedule:
    """Narrow cores have a lane for each column; rows of others are streamed, as long ones as the first cache has room
    for the sums of.

    Threads share a core by blocks of columns, and by rows where those are too few.
    """
    is_wide = outer >= 2 * SUBGROUP
    pieces = min(2 * workers if workers > 2 else workers, inner * outer // cells_per_thread(workers))
    if pieces < 2:
        return StepSchedule(SUBGROUP, 8, stream_columns=STREAMED_COLUMNS if is_wide else 0)
    least = 8 * SUBGROUP if outer <= 1024 else 16 * SUBGROUP  # of less, too little of a row is read at a time
    rounds = -(-outer // (workers * STREAMED_COLUMNS))
    columns = max(least, -(-outer // (rounds * workers * 2 * SUBGROUP)) * 2 * SUBGROUP)
    blocks = -(-outer // (columns if is_wide else SUBGROUP))
    parts = max(1, min(inner // ROWS_PER_PART, -(-pieces // blocks)))
    return StepSchedule(SUBGROUP, 8, splits=parts, stream_columns=columns if is_wide else 0)


def cells_per_thread(workers: int) -> int:
    """Elements of a core that are worth another thread of a CPU.

    To wake a thread takes 30 us and more, in which one adds up 2^18.  Where there are more than two CPUs, threads stay
    awake from call to call.
    """
    return 1 << 20 if workers <= 2 else 3 << 15


def contract_step_grid(schedule: StepSchedule, rank: int) -> int:
    """Workgroups for `rank` outputs; without `splits`, any grid does all the work."""
    return max(1, -(-rank // schedule.columns)) * schedule.splits


def contract_step_scratch(schedule: StepSchedule, rank: int) -> tuple[int, int]:
    """The lengths of @partials and of @arrived for `rank` outputs."""
    return rank * schedule.splits, max(1, -(-rank // schedule.columns))


@lru_cache(maxsize=64)
def contract_step(dtype: DataType = DataType.U32, schedule: StepSchedule = StepSchedule()) -> Program:
    """The program `contract_step`: @acc, @core, @out, of which u32 operands from 2^31 on are negative; with `splits` also @partials and @arrived (u32, of the
    lengths of `contract_step_scratch`), @arrived zero on entry."""
    b = Builder("contract_step", workgroup=schedule.lanes)
    b.buffer("acc", dtype, None, "read", 0)
    b.buffer("core", dtype, None, "read", 1)
    b.buffer("out", dtype, None, "write", 2, live_out=True)
    (_Streamed if schedule.stream_columns else _InRegisters)(b, dtype, schedule).build()
    return b.finish(verify=False)


class _Step:
    """State shared by both forms: the blocks of columns, the rows of a workgroup, and the destination of sums."""

    def __init__(self, b: Builder, dtype: DataType, schedule: StepSchedule) -> None:
        self.b, self.dtype, self.schedule = b, dtype, schedule
        self.inner = b.len("acc", name="inner")
        self.outer = b.div(b.len("core"), self.inner, name="outer")
        if schedule.vector > 1:  # changes nothing, but shows that vectors are aligned
            self.outer = b.and_(self.outer, -schedule.vector & 0xFFFFFFFF)
        if schedule.splits > 1:
            b.buffer("partials", DataType.U32, None, "read_write", 3, live_in=True)
            b.buffer("arrived", DataType.U32, None, "read_write", 4, live_in=True)
            b.buffer("count", DataType.U32, 1, "workgroup")
            b.buffer("parts", zero(b, dtype).type, schedule.lanes, "workgroup")

    def build(self) -> None:
        b, schedule = self.b, self.schedule
        blocks = b.div(b.add(self.outer, schedule.columns - 1), schedule.columns, name="blocks")
        if schedule.splits == 1:
            with b.for_(b.workgroup_id("x"), blocks, b.num_workgroups("x"), dtype=DataType.U32) as loop:
                self.block(b.mul(loop.index, schedule.columns, name="first"), b.const(0), self.inner)
            return
        number = b.workgroup_id("x")
        self.split, block = b.div(number, blocks, name="split"), b.rem(number, blocks, name="block")
        each = b.add(b.div(self.inner, schedule.splits), 1, name="each")
        start = b.min(b.mul(self.split, each), self.inner, name="start")
        first = b.mul(block, schedule.columns, name="first")
        self.block(first, start, b.min(b.add(start, each), self.inner))
        self.finish(first, block)

    def block(self, first: Value, start: Value, stop: Value) -> None:
        """The sums of the columns from `first` on, over rows `start` to `stop`."""
        raise NotImplementedError

    def put(self, total: Value, column: Value, is_part: bool) -> None:
        """Store a sum: the result, or this workgroup's part of it."""
        b = self.b
        if is_part:
            index = b.add(b.mul(self.split, self.outer), column)
            b.atomic_exchange("partials", index, as_bits(b, total, DataType.U32))
        else:
            b.store(stored(b, total, self.dtype), "out", column)

    def finish(self, first: Value, block: Value) -> None:
        """Add up the parts of the columns from `first` on, if this workgroup is the last of their block.

        Lanes are side by side over columns, one each, and what are left over take other parts.
        """
        b, schedule = self.b, self.schedule
        b.barrier("workgroup")
        with b.if_(b.eq(b.local_id("x"), 0)):
            b.store(b.atomic_add("arrived", block, 1, order="acq_rel"), "count", 0)
        b.barrier("workgroup")
        is_last = b.eq(b.load("count", 0), schedule.splits - 1)
        side = min(schedule.lanes, power_above(schedule.columns))
        slots = schedule.lanes // side
        with b.if_(is_last):
            column = b.rem(b.local_id("x"), side)
            slot = b.div(b.local_id("x"), side)
            width = b.min(b.sub(self.outer, first), schedule.columns)
            with b.for_(0, -(-schedule.columns // side) * side, side, dtype=DataType.U32) as turn:
                column_in_block = b.add(turn.index, column)
                index = b.add(first, column_in_block)
                # nothing for a lane without a column: the others wait for it below
                count = b.select(b.lt(column_in_block, width), b.const(schedule.splits), 0)
                total = self.parts(index, slot, count, slots)
                if slots > 1:
                    b.store(total, "parts", b.local_id("x"))
                    b.barrier("workgroup")
                    total = b.load("parts", column)
                    for other in range(1, slots):
                        total = b.add(total, b.load("parts", offset(b, column, other * side)))
                with b.if_(b.and_(b.eq(slot, 0), b.lt(column_in_block, width))):
                    self.put(total, index, is_part=False)

    def parts(self, column: Value, slot: Value, count: Value, slots: int) -> Value:
        """The sum of the parts slot, slot + slots, ... below `count` of a column."""
        b = self.b
        nothing = zero(b, self.dtype)

        def part(number: Value) -> Value:
            # an atomic load, since other workgroups stored it
            word = b.atomic_or("partials", b.add(b.mul(number, self.outer), column), 0)
            return as_bits(b, word, nothing.type)

        together = min(PARTS_TOGETHER, -(-self.schedule.splits // slots))
        whole = b.sub(count, b.rem(count, together * slots))
        with b.for_(0, whole, together * slots, carry=[nothing], dtype=DataType.U32) as loop:
            at = b.add(loop.index, slot)
            words = [part(offset(b, at, k * slots)) for k in range(together)]
            total = loop.args[0]
            for word in words:
                total = b.add(total, word)
            loop.yield_(total)
        with b.for_(b.add(whole, slot), count, slots, carry=[loop.result], dtype=DataType.U32) as rest:
            rest.yield_(b.add(rest.args[0], part(rest.index)))
        return rest.result


class _InRegisters(_Step):
    """See the module: lanes over columns and rows."""

    def __init__(self, b: Builder, dtype: DataType, schedule: StepSchedule) -> None:
        super().__init__(b, dtype, schedule)
        self.slots = schedule.lanes // schedule.side
        self.subgroups = schedule.lanes // SUBGROUP if self.slots > 1 else 1
        if self.subgroups > 1:
            kind = zero(b, dtype).type
            b.buffer(
                "sums",
                kind,
                max(schedule.lanes // max(SUBGROUP, schedule.side), 1) * schedule.columns,
                "workgroup",
            )

    def build(self) -> None:
        b, schedule = self.b, self.schedule
        if self.slots > 1 or schedule.splits > 1:
            super().build()
            return
        vectors = b.div(self.outer, schedule.vector) if schedule.vector > 1 else self.outer
        with b.for_(b.global_id("x"), vectors, b.global_size("x")) as loop:
            column = b.mul(loop.index, schedule.vector) if schedule.vector > 1 else loop.index
            self.put_all(self.rows(column, b.const(0), self.inner, None), column)

    def block(self, first: Value, start: Value, stop: Value) -> None:
        b, schedule = self.b, self.schedule
        lane = b.local_id("x")
        side = lane if self.slots == 1 else b.rem(lane, schedule.side)
        column = b.add(first, side if schedule.vector == 1 else b.mul(side, schedule.vector))
        exists = b.lt(column, self.outer)
        if self.slots == 1:
            with b.if_(exists):
                self.put_all(self.rows(column, start, stop, None), column)
            return
        # lanes without a column go on, since the others' sums are added up by the whole workgroup
        stop = b.select(exists, stop, start)
        self.add_up(self.rows(column, start, stop, b.div(lane, schedule.side)), side, first)

    def rows(self, column: Value, start: Value, stop: Value, slot: Value | None) -> Value:
        """The sum of this lane's rows: those from `start` on that are its `slot`'s, None for all."""
        b, schedule, slots = self.b, self.schedule, self.slots
        nothing = zero(b, self.dtype, schedule.vector)

        def add_row(i: Value, total: Value) -> Value:
            cell = b.load("core", b.add(b.mul(i, self.outer), column), lanes=schedule.vector)
            return multiply_add(b, signed(b, b.load("acc", i)), signed(b, cell), total)

        turn = slots * schedule.unroll
        whole = b.sub(stop, b.rem(b.sub(stop, start), turn), name="whole")
        with b.for_(start, whole, turn, carry=[nothing], dtype=DataType.U32) as loop:
            total = loop.args[0]
            first = loop.index if slot is None else b.add(loop.index, slot)
            for ahead in range(0, turn, slots):
                total = add_row(offset(b, first, ahead), total)
            loop.yield_(total)
        begin = whole if slot is None else b.add(whole, slot)
        with b.for_(begin, stop, slots, carry=[loop.result], dtype=DataType.U32) as rest:
            rest.yield_(add_row(rest.index, rest.args[0]))
        return rest.result

    def put_all(self, total: Value, column: Value) -> None:
        for k, value in enumerate(elements(self.b, total)):
            self.put(value, offset(self.b, column, k), self.schedule.splits > 1)

    def add_up(self, total: Value, side: Value, first: Value) -> None:
        """Add up the sums of the slots: in a subgroup by shuffles, across subgroups in workgroup memory."""
        b, schedule = self.b, self.schedule
        together = max(1, SUBGROUP // schedule.side)  # slots of a subgroup
        slot = b.div(b.lane_id(), schedule.side) if together > 1 else b.const(0)
        shared = shared_sums(b, elements(b, total), slot, together, schedule.side)
        column_in_block = b.add(b.mul(side, schedule.vector) if schedule.vector > 1 else side, shared.first)
        if self.subgroups == 1:
            with b.if_(b.and_(shared.writes, b.lt(b.add(first, column_in_block), self.outer))):
                for k, value in enumerate(shared.values):
                    self.put(value, offset(b, b.add(first, column_in_block), k), schedule.splits > 1)
            return
        row = b.div(b.local_id("x"), max(SUBGROUP, schedule.side))
        with b.if_(shared.writes):
            for k, value in enumerate(shared.values):
                b.store(value, "sums", offset(b, b.add(b.mul(row, schedule.columns), column_in_block), k))
        b.barrier("workgroup")
        width = b.min(b.sub(self.outer, first), schedule.columns)
        with b.for_(b.local_id("x"), width, schedule.lanes, dtype=DataType.U32) as loop:
            whole = b.load("sums", loop.index)
            for other in range(1, schedule.lanes // max(SUBGROUP, schedule.side)):
                whole = b.add(whole, b.load("sums", offset(b, loop.index, other * schedule.columns)))
            self.put(whole, b.add(first, loop.index), schedule.splits > 1)
        if schedule.splits == 1:  # before the sums of the next block
            b.barrier("workgroup")


class _Streamed(_Step):
    """See RowStream; a lane for each column where these are less than its turn."""

    def __init__(self, b: Builder, dtype: DataType, schedule: StepSchedule) -> None:
        super().__init__(b, dtype, schedule)
        self.sums = b.buffer("sums", zero(b, dtype).type, schedule.stream_columns, "workgroup")

    def block(self, first: Value, start: Value, stop: Value) -> None:
        b = self.b
        is_part = self.schedule.splits > 1
        with b.if_(b.ge(self.outer, SUBGROUP)) as is_wide:
            stream = RowStream(
                b,
                self.dtype,
                "core",
                self.sums,
                first,
                b.min(b.sub(self.outer, first), self.schedule.stream_columns),
                self.outer,
                row_start=lambda row: b.mul(row, self.outer),
                factor=self.factor,
            )
            stream.clear()
            stream.add(start, stop, self.schedule.unroll)
            stream.each(lambda total, column: self.put(total, column, is_part))
        with is_wide.else_(), b.if_(b.lt(b.lane_id(), self.outer)):
            with b.for_(start, stop, carry=[zero(b, self.dtype)], dtype=DataType.U32) as rows:
                cell = b.load("core", b.add(b.mul(rows.index, self.outer), b.lane_id()))
                rows.yield_(multiply_add(b, self.factor(rows.index), signed(b, cell), rows.args[0]))
            self.put(rows.result, b.lane_id(), is_part)

    def factor(self, row: Value) -> Value:
        return signed(self.b, self.b.load("acc", row))
