"""Schedules of math.softmax: how rows are distributed over lanes, and which distribution suits which rows."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from ..ir.ops import MAX_COLUMNS
from ..ir.types import DataType
from ..records import dataclass
from .collective import SUBGROUP
from .powers_of_two import power_above
from .targets import REGISTERS, is_gpu

__all__ = [
    "SoftmaxSchedule",
    "check_softmax",
    "general_softmax_schedule",
    "softmax_grid",
    "softmax_schedule",
]

MAX_TILE = 1 << 15  # powers in workgroup memory: 128 KiB, which GPUs have too
MAX_IN_REGISTERS = 64  # f32 values that a lane may hold in registers
RESIDENT = 2048  # invocations that a multiprocessor holds
MOST_AT_ONCE = 4  # rows of a multiprocessor, beyond which more of them do not help
MOST_IN_SHARED = 63 << 10  # bytes of a row in workgroup memory, of which every GPU has 64 KiB
MOST_IN_SHARED_OF_LARGE = 95 << 10
LARGE_GPU = 72  # multiprocessors; each GPU with more of them has 96 KiB of workgroup memory or more
MOST_IN_FLIGHT = 112 << 10  # bytes that the loads in flight of a multiprocessor should not exceed
SHORTEST = 128  # columns of rows of which a workgroup does twice as many
BUSY_BYTES = 1 << 21  # of an array of short rows, from which on a GPU has several for each lane
TRANSPOSED_ROWS = 1 << 15  # from which on a GPU is busy with a lane for each
MANY_SHORT_ROWS = 1 << 14  # from which on several lanes do two at once
MOST_TRANSPOSED = 56  # columns up to which a lane does a row alone
FEW_ROWS = 16  # up to which several workgroups share a row
LONG_ROW = 1 << 14  # columns from which on they do
BUSY_WORKGROUPS = 256  # about two for each multiprocessor
MANY_STREAMS = 16  # that may all be at work at rows of several workgroups
MOST_OF_HALF_SUBGROUP = 72  # narrow loads of a row up to which 16 lanes do it
# columns from which on odd rows begin where a wide load is aligned, by bytes of an element
LEAST_PEELED = {2: 192, 4: 128}
MAX_SPLITS = 64  # each fits on an H100 beside the others, and two words are a lane's to read
MOST_ROWS = 1 << 10  # of a workgroup
MANY_ROWS = 1 << 10  # several for each workgroup that a GPU can run at once


@dataclass(frozen=True)
class SoftmaxSchedule:
    """Distribution of rows over lanes.

    `lanes`: that share a row, a power of two up to 32, or a multiple of 32.
    `rows`: of a workgroup; 1 for more than 32 lanes.
    `vector`: elements of a load, a divisor of the columns unless `peeled`.
    `peeled`: a row's vectors start at its first element that is aligned for them; what is before and behind them is
    done one by one.  For rows in the registers of 32 lanes or more.
    `in_registers`: the row stays in registers between its passes; otherwise it is read again for each pass, with
    `unroll` loads of a lane in flight.
    `in_shared`: not `in_registers`: with 32 lanes and one row, the powers are in workgroup memory until their sum is
    known; with more lanes, the elements as loaded are.
    `strided`: right for every grid, not only for `softmax_grid` workgroups.
    `rows_per_thread`: rows that a group of up to 32 lanes does at once, so that their loads are in flight together.
    `transposed`: a lane does a row, which is transposed through workgroup memory.  `vector` is that of the moves from
    and to there.
    `predicated`: of rows in registers, lanes load a vector of the row in place of one that they lack, and do not count
    it.  So no branch lies between the loads of a lane, which are in flight together; for a GPU.
    `splits`: workgroups that share a row; only where all of them can run at the same time.
    """

    lanes: int
    rows: int = 1
    vector: int = 1
    in_registers: bool = True
    unroll: int = 4
    in_shared: bool = False
    strided: bool = False
    rows_per_thread: int = 1
    splits: int = 1
    peeled: bool = False
    transposed: bool = False
    predicated: bool = False

    def __post_init__(self) -> None:
        least = min(self.lanes, self.rows, self.vector, self.unroll, self.rows_per_thread, self.splits)
        if least < 1 or max(self.rows, self.unroll, self.rows_per_thread) > MOST_ROWS:
            raise ValueError(
                f"at least 1 of all, and at most {MOST_ROWS} rows, rounds and rows of a lane: {self}"
            )

    @property
    def tile_rows(self) -> int:
        """Rows of a workgroup."""
        return self.rows * self.rows_per_thread


def softmax_schedule(
    columns: int, dtype: DataType, target: str = "", rows: int | None = None, multiprocessors: int = 0
) -> SoftmaxSchedule:
    """The default schedule: 16-byte loads, two or more for each lane, about 16 values a lane, few idle lanes.

    More bytes in flight than a multiprocessor needs cost an H100 up to 1 % of its bandwidth.  So 8 values a
    lane are enough for wide rows of f32.  Of many rows of the widest kind a multiprocessor should have few at
    a time: with 32 values a lane, an H200 is a tenth faster at rows of 64 KiB than with 16 or 24.

    `multiprocessors`: of the GPU that alone runs the program, so that workgroups may share a row and wait for each
    other; 0 if that is not known.
    """
    if target == "cpu":
        return _cpu_schedule(columns)
    schedule = _gpu_schedule(columns, dtype, target, rows, multiprocessors)
    # a lane of a shared row of f32 has too few registers for all those loads
    has_registers = schedule.splits == 1 or schedule.in_shared
    predicated = (
        is_gpu(target)
        and (schedule.in_registers or schedule.in_shared)
        and not schedule.transposed
        and has_registers
    )
    # where loads are narrow there are many, and those that a lane would do in place of one that it lacks cost more
    size = dtype.size_bytes or 4
    is_narrow = size < 4 and schedule.vector * size <= 4
    return replace(schedule, predicated=predicated and not is_narrow)


def general_softmax_schedule(columns: int, target: str = "") -> SoftmaxSchedule:
    """The schedule for code that takes any number of columns; two of them, for short rows and for long ones."""
    if is_gpu(target):
        lanes, rows = (32, 4) if columns <= 2048 else (512, 1)
    else:
        lanes, rows = (1, 32) if columns <= 16 else (32, 1)
    return SoftmaxSchedule(lanes, rows, in_registers=False, unroll=4 if is_gpu(target) else 1)


def _gpu_schedule(
    columns: int, dtype: DataType, target: str, rows: int | None, multiprocessors: int
) -> SoftmaxSchedule:
    """Schedule for a GPU, or an unknown target."""
    size = dtype.size_bytes or 4
    vector = widest = 16 // size
    while columns % vector:
        vector //= 2
    vectors = columns // vector
    if columns <= 1024 and vectors <= SUBGROUP * 8:
        return _short_schedule(columns, vector, size, target, rows)
    peeled = vector < widest and is_gpu(target)
    if peeled:
        vector, vectors = widest, columns // widest
        if vectors <= SUBGROUP * 4:
            return SoftmaxSchedule(SUBGROUP, 4, vector, peeled=True)
    has_many = size == 2 and (rows or 0) >= MANY_ROWS

    def lanes_of(r: int) -> int:
        return _whole_subgroups(-(-vectors // r))

    def at_once(r: int) -> int:
        """Workgroups of a multiprocessor; more than a few do not help."""
        lanes = lanes_of(r)
        return min(MOST_AT_ONCE, _resident(lanes, r * vector, lanes * r - vectors)) if has_many else 1

    def fits(r: int) -> bool:
        """Whether the row fits; beside other workgroups a lane may have twice as many values, of two bytes each."""
        limit = MAX_IN_REGISTERS if at_once(r) > 1 else MAX_IN_REGISTERS // 2
        return r * vector <= limit and -(-vectors // r) <= 1024

    rounds = [r for r in range(1, MAX_IN_REGISTERS // vector + 1) if fits(r)]
    if is_gpu(target) and rows and (not rounds or (rows <= FEW_ROWS and columns >= LONG_ROW)):
        shared = _split_schedule(columns, vector, size, rows, peeled, multiprocessors)
        if shared is not None:
            return shared
    if not rounds:
        vector = gcd(columns, widest)
        return SoftmaxSchedule(1024, 1, vector, in_registers=False)

    is_alone = columns * size > MOST_IN_FLIGHT // 2 and (rows or 0) >= MANY_ROWS
    ideal = 32 if is_alone or (peeled and size == 2) else 8 if size == 4 and vectors >= 1024 else 16

    def cost(r: int) -> tuple[bool, int, bool, int, int]:
        lanes = lanes_of(r)
        idle = lanes * r - vectors
        # with 16 bytes in flight per lane an H100 reads bf16 at 0.85 of the bandwidth that 32 reach
        few = r * vector * size < 32
        # workgroups of this size would leave too much of a multiprocessor empty
        empty = not is_alone and RESIDENT % lanes > RESIDENT // (16 if peeled else 5)
        # of several rows at a time some load while others store
        return few, -at_once(r), empty, idle * 16 // vectors, abs(r * vector - ideal)

    best = min(rounds, key=cost)
    if has_many and at_once(best) == 1 and is_gpu(target):
        in_shared = _in_shared_schedule(vectors, vector, size, peeled, multiprocessors)
        if in_shared is not None:
            return in_shared
    return SoftmaxSchedule(lanes_of(best), 1, vector, peeled=peeled)


def _short_schedule(columns: int, vector: int, size: int, target: str, rows: int | None) -> SoftmaxSchedule:
    """Schedule for rows that a subgroup or less of it holds."""
    vectors = columns // vector
    if is_gpu(target) and vectors == 1:
        return SoftmaxSchedule(1, 256, vector, rows_per_thread=4 if vector * size <= 8 else 2)
    if is_gpu(target) and rows and columns <= MOST_TRANSPOSED and vector * size < 16:
        return _odd_schedule(vectors, vector, size, rows)
    if is_gpu(target) and (rows or 0) * columns * size >= BUSY_BYTES:
        return _busy_schedule(columns, vector, size)
    while is_gpu(target) and vector > 1 and vectors * 2 <= SUBGROUP:  # few rows: the more lanes, the sooner
        vector, vectors = vector // 2, vectors * 2
    lanes = min(SUBGROUP, power_above(vectors))
    # Few workgroups of many: an H200 is 4 to 8 % faster at 64 and 128 columns, and no faster at 256
    together = 256 if is_gpu(target) and columns <= SHORTEST else 128
    return SoftmaxSchedule(lanes, together // lanes, vector)


def _in_shared_schedule(
    vectors: int, vector: int, size: int, peeled: bool, multiprocessors: int
) -> SoftmaxSchedule | None:
    """Schedule for many rows of which a multiprocessor holds one at a time in registers: in workgroup memory, as loaded, they take
    half the place, so that some load while others store.  None where a GPU may have too little of it.

    Rows of 22,528 bf16 take 0.78 of the time on an H200, of 32,768 0.91.
    """
    rounds, unroll = (8, 4) if peeled or vectors <= 3072 else (4, 1)
    lanes = _whole_subgroups(-(-vectors // rounds))
    most = MOST_IN_SHARED_OF_LARGE if multiprocessors > LARGE_GPU else MOST_IN_SHARED
    if lanes > 1024 or lanes * rounds * vector * size > most:
        return None
    return SoftmaxSchedule(lanes, 1, vector, in_registers=False, unroll=unroll, in_shared=True, peeled=peeled)


def _resident(lanes: int, values: int, idle: int) -> int:
    """Workgroups that a multiprocessor holds at a time, if a lane keeps that many values in registers.

    Registers beside them as ptxas 12 and 13 take them for sm_90, more where lanes lack a vector in the last round.
    """
    beside = 16 if values <= 24 else 24
    if values == MAX_IN_REGISTERS or (idle and values >= 48):
        beside = 32
    return min(RESIDENT // lanes, REGISTERS // (lanes * (values + beside)))


def _odd_schedule(vectors: int, vector: int, size: int, rows: int) -> SoftmaxSchedule:
    """Schedule for short rows of which no load of 16 bytes is aligned."""
    if rows >= TRANSPOSED_ROWS:
        return SoftmaxSchedule(1, 256 if vectors * vector <= 4 else 128, 16 // size, transposed=True)
    lanes = min(SUBGROUP, max(2, power_above(vectors)) // 2)
    return SoftmaxSchedule(lanes, 256 // lanes, vector, rows_per_thread=2 if rows >= MANY_SHORT_ROWS else 1)


def _busy_schedule(columns: int, vector: int, size: int) -> SoftmaxSchedule:
    """Schedule for so many short rows that a GPU is busy: 16 to 32 bytes in flight a lane, over few lanes a row.

    Lanes of a row read neighbouring vectors, so with loads of less than 16 bytes a row should have more of them.
    """
    vectors, load = columns // vector, vector * size
    if vector == 1 and columns >= LEAST_PEELED[size]:
        return SoftmaxSchedule(SUBGROUP, 4, 16 // size, peeled=True)
    if load == 16:
        lanes = min(SUBGROUP, max(2 if vectors > 1 else 1, power_above(-(-vectors // 2))))
        held = -(-vectors // lanes) * load
        rows_per_thread = 4 if held * 4 <= 16 else 2 if held * 2 <= 24 else 1
    elif load == 8:
        lanes = SUBGROUP if size == 4 else min(SUBGROUP, max(16, power_above(-(-vectors // 2))))
        rows_per_thread = {1: 4, 2: 2}.get(-(-vectors // lanes), 1)
    else:
        lanes = 16 if size == 2 and columns <= MOST_OF_HALF_SUBGROUP * vector else SUBGROUP
        most = 3 if vector > 1 else 4
        rows_per_thread = 2 if -(-vectors // lanes) <= most and (vector == 1 or lanes < SUBGROUP) else 1
    return SoftmaxSchedule(lanes, 128 // lanes, vector, rows_per_thread=rows_per_thread)


def _split_schedule(
    columns: int, vector: int, size: int, rows: int, peeled: bool, multiprocessors: int
) -> SoftmaxSchedule | None:
    """Schedule for rows too wide for a workgroup's registers, or too few for a GPU: 128 bytes a lane, or fewer.

    Small workgroups, so that some load and store while others wait.  None where too few of them run at once: of each
    stream at work one row may hold some that wait for others of it, so the GPU should hold many rows.
    """
    lanes = 256 if size == 4 else 128
    at_once = multiprocessors * (RESIDENT // 2) // lanes  # with up to 64 registers a lane
    most = min(MAX_SPLITS, at_once // MANY_STREAMS)
    per_round = lanes * vector
    least = -(-columns // (per_round * (128 // (vector * size))))
    in_memory = size < 4
    if not in_memory:  # so that few lanes have nothing to do in the last round
        least = min(range(least, 2 * least), key=lambda n: -(-columns // (per_round * n)) * n, default=least)
    busy = min(most, BUSY_WORKGROUPS // rows, columns // per_round)
    splits = max(least, busy)
    if not 2 <= splits <= most:
        return None
    return SoftmaxSchedule(
        lanes, 1, vector, splits=splits, peeled=peeled, in_registers=not in_memory, in_shared=in_memory
    )


def _cpu_schedule(columns: int) -> SoftmaxSchedule:
    """A subgroup is a SIMD register, so its lanes should hold neighbouring elements and few of them nothing.

    Rows too short for that are a lane's, or two lanes': a subgroup then reads whole rows by one wide load where
    the columns are a power of two up to 8, and by gathers elsewhere, and has no shuffles.  Rows of more than 400
    would spill the registers that they are kept in.
    """
    if columns <= 16:
        vector = 8
        while columns % vector:
            vector //= 2
        return SoftmaxSchedule(1, SUBGROUP, vector)
    if columns <= 24:
        return SoftmaxSchedule(2, SUBGROUP // 2)
    if columns <= 400:
        return SoftmaxSchedule(SUBGROUP)
    if columns <= MAX_TILE:
        return SoftmaxSchedule(SUBGROUP, in_registers=False, unroll=2, in_shared=True)
    return SoftmaxSchedule(SUBGROUP, in_registers=False)


def _whole_subgroups(lanes: int) -> int:
    return -(-lanes // SUBGROUP) * SUBGROUP


def softmax_grid(schedule: SoftmaxSchedule, rows: int) -> int:
    """Workgroups for `rows` rows."""
    return max(1, -(-rows // schedule.tile_rows)) * schedule.splits


def check_softmax(columns: int, schedule: SoftmaxSchedule) -> None:
    """Raises ValueError for columns or a schedule out of range."""
    lanes, vector = schedule.lanes, schedule.vector
    if not 1 <= columns <= MAX_COLUMNS:
        raise ValueError(f"softmax takes rows of 1 to {MAX_COLUMNS} columns, not {columns}")
    if columns % vector and not (schedule.peeled or schedule.transposed):
        raise ValueError(f"vectors of {vector} do not divide rows of {columns}")
    shares, in_memory = (
        schedule.splits > 1,
        schedule.in_shared and not schedule.in_registers and lanes > SUBGROUP,
    )
    if schedule.peeled and (
        lanes < SUBGROUP or not (schedule.in_registers or in_memory) or columns < 2 * vector
    ):
        raise ValueError(
            f"peeled rows are in registers of 32 lanes or more, and two vectors long: {schedule}"
        )
    if schedule.peeled and schedule.rows_per_thread > 1:
        raise ValueError(f"peeled rows are done one at a time: {schedule}")
    if schedule.transposed and (
        lanes > 1
        or schedule.rows_per_thread > 1
        or not schedule.in_registers
        or columns * schedule.rows > MAX_TILE
    ):
        raise ValueError(
            f"transposed rows are a lane's each, and {MAX_TILE} elements in all at most: {schedule}"
        )
    if lanes > SUBGROUP and (lanes % SUBGROUP or schedule.rows != 1 or lanes > 1024):
        raise ValueError(f"more than 32 lanes are a multiple of 32 and share one row: {schedule}")
    if (
        schedule.rows_per_thread > 1 and (lanes > SUBGROUP or not schedule.in_registers)
    ) or schedule.rows_per_thread < 1:
        raise ValueError(f"several rows at once are those of up to 32 lanes, in registers: {schedule}")
    if not 1 <= schedule.splits <= MAX_SPLITS or (
        shares and (lanes <= SUBGROUP or not (schedule.in_registers or in_memory) or schedule.strided)
    ):
        raise ValueError(
            f"up to {MAX_SPLITS} workgroups of more than 32 lanes share a row, in registers or workgroup memory: {schedule}"
        )
    if lanes <= SUBGROUP and (lanes < 1 or lanes & (lanes - 1) or lanes * schedule.rows % SUBGROUP):
        raise ValueError(f"up to 32 lanes are a power of two and their rows fill subgroups: {schedule}")
    if schedule.in_shared and (
        schedule.in_registers or lanes < SUBGROUP or schedule.rows != 1 or schedule.rows_per_thread != 1
    ):
        raise ValueError(
            f"what is in workgroup memory is one row, not in registers, of 32 lanes or more: {schedule}"
        )
    held = -(-columns // (lanes * vector * schedule.splits)) * vector * schedule.rows_per_thread
    if (schedule.in_registers or in_memory) and held > MAX_IN_REGISTERS:
        raise ValueError(
            f"a lane would keep {held} values in registers, more than {MAX_IN_REGISTERS}: {schedule}"
        )
