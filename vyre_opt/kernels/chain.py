"""tt.chain: a vector through a chain of matrices in one launch, acc <- acc * core_k for each k.

One workgroup does the chain; the accumulator stays in workgroup memory.  In a step the lanes form a
table over the rows and columns of the core, with `vector` columns for each lane:

    columns   0..v-1   v..2v-1   ...            lane = slice * (columns / v) + column / v
    slice 0   rows 0, s, 2s, ...
    slice 1   rows 1, s+1, ...
    ...                                         partial sums of each slice -> barrier -> added up

Consecutive steps of one shape are a loop.  Cores do not depend on the accumulator, so a lane's part of
a core is loaded one step ahead of its use, if it is small enough for registers.

On a CPU the lanes are one subgroup, which streams the rows of a core (see row_stream) or has a lane for each column.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import inf

from ..ir.builder import Builder
from ..ir.ops import MAX_RANK
from ..ir.program import Program, Value
from ..ir.types import DataType
from ..records import dataclass
from .chain_scattered import ScatterSchedule, best_scatter, build_scattered
from .chain_spread import best_cluster, build_spread, is_well_spread, spread_bytes
from .chain_steps import ChainSteps, chain_steps
from .collective import SUBGROUP, offset
from .multiply_add import multiply_add, signed, stored, zero
from .row_stream import RowStream
from .targets import clusters_at_once, is_gpu, widest_cluster, workgroup_bytes
from .tensor_train import cells_per_thread

__all__ = [
    "ChainSchedule",
    "batch_schedule",
    "chain",
    "chain_groups",
    "chain_schedule",
    "goes_by_steps",
    "uniform_ranks",
]

MAX_TOGETHER, MAX_TOGETHER_ON_CPU = 8, 16
"""Cores of a launch that are buffers of their own; its code grows with them, and the time to compile it."""

LARGE, ALONE = 1 << 21, 1 << 18
"""Elements of a core from which on a GPU a launch of its own is worth it; and those where, without, one processor does
it."""

ONE_WORKGROUP = 64 * 64  # elements of a core up to which one workgroup is faster than a cluster
TOGETHER = (1, 2, 4, 8, 10)  # vectors that a cluster does
SCATTERED_FROM = 176 * 176  # elements of a core from which on workgroups own rows
FEW_TOGETHER = 2  # vectors of a cluster up to which they own columns, if these are well spread
MANY_LANES = 192 * 192  # elements of a core from which on one workgroup has as many lanes as there can be


@dataclass(frozen=True)
class ChainSchedule:
    """`lanes`: of a workgroup.  `vector`: columns of a lane, at most.  `prefetch`: values of the next core that a
    lane may hold in registers, 0 for none.

    `workgroups`: with more than 1 the program is that of chain_spread, which ignores `vector` and `prefetch`.
    `stream_rows`: rows that one subgroup adds to the sums at a time, see row_stream, of cores with less than 32 columns
    one; 0 for the table of lanes.
    """

    lanes: int = 256
    vector: int = 4
    prefetch: int = 32
    workgroups: int = 1
    stream_rows: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.lanes <= 1024 or self.vector not in (1, 2, 4) or self.workgroups < 1:
            raise ValueError(f"1 to 1024 lanes, vectors of 1, 2 or 4, at least one workgroup: {self}")
        if not 0 <= self.stream_rows <= 32 or (
            self.stream_rows and (self.lanes != SUBGROUP or self.workgroups > 1)
        ):
            raise ValueError(f"up to 32 rows are streamed by one subgroup: {self}")


def chain_schedule(ranks: Sequence[int], target: str = "", owns_grid: bool = True) -> ChainSchedule:
    """More lanes for larger cores; on a GPU with clusters (`target` cuda or sm_90, say) also a cluster of workgroups, if
    the program `owns_grid`.

    On the CPU target one thread does a step, so one subgroup is best: more would only pass partial sums to
    each other.  It streams rows.
    """
    if target == "cpu":
        return ChainSchedule(SUBGROUP, vector=1, prefetch=0, stream_rows=2)
    cells = _cells(ranks)
    if owns_grid and cells > ONE_WORKGROUP:
        cluster = best_cluster(tuple(ranks), widest_cluster(target), 1)
        if cluster is not None:
            workgroups, lanes = cluster
            return ChainSchedule(lanes, workgroups=workgroups)
    lanes = 64
    while lanes < 512 and lanes * 16 < cells:
        lanes *= 2
    return ChainSchedule(1024 if cells >= MANY_LANES else lanes)


def batch_schedule(
    ranks: Sequence[int], target: str, count: int
) -> tuple[ChainSchedule | ScatterSchedule, int]:
    """The schedule for `count` vectors that go through one chain, and how many of them a workgroup or cluster does together.

    A cluster reads each core once for all of its vectors, so there are as many as keep all multiprocessors at work.
    """
    owns_rows = _cells(ranks) >= SCATTERED_FROM
    spread = _spread_batch(ranks, target, count)
    if spread is not None and owns_rows:
        schedule, vectors = spread
        owns_rows = vectors > FEW_TOGETHER or not is_well_spread(ranks, schedule.workgroups, schedule.lanes)
    scattered = best_scatter(ranks, target, count) if owns_rows else None
    return scattered or spread or (chain_schedule(ranks, target, owns_grid=False), 1)


def _spread_batch(ranks: Sequence[int], target: str, count: int) -> tuple[ChainSchedule, int] | None:
    """Spread a batch over clusters whose workgroups own columns, if it is large enough for one and the vectors have room."""
    choice: tuple[ChainSchedule, int] | None = None
    if _cells(ranks) <= ONE_WORKGROUP:
        return None
    for vectors in TOGETHER:
        cluster = best_cluster(tuple(ranks), widest_cluster(target), vectors)
        if cluster is None or spread_bytes(ranks, *cluster, vectors) > workgroup_bytes(target):
            break
        workgroups, lanes = cluster
        choice = ChainSchedule(lanes, workgroups=workgroups), vectors
        at_once = clusters_at_once(workgroups) * max(1, 256 // lanes)
        if -(-count // vectors) <= at_once:
            break
    return choice


def _cells(ranks: Sequence[int]) -> int:
    """Elements of the largest core."""
    return max((x * y for x, y in pairwise(ranks)), default=1)


def chain_groups(ranks: Sequence[int], target: str = "", workers: int = 1) -> list[tuple[int, int]]:
    """The cores from `first` to `last` - 1 of each launch of a chain that is not bound to be one.

    A large core has a launch of its own, a contract_step, which all multiprocessors or threads share.
    """
    cells = [x * y for x, y in pairwise(ranks)]
    shared = LARGE if is_gpu(target) else 2 * cells_per_thread(workers) if workers > 1 else inf
    most = MAX_TOGETHER if is_gpu(target) else MAX_TOGETHER_ON_CPU
    groups: list[tuple[int, int]] = []
    for k, count in enumerate(cells):
        joins = groups and groups[-1][1] - groups[-1][0] < most
        if joins and max(count, cells[k - 1]) < shared:
            groups[-1] = groups[-1][0], k + 1
        else:
            groups.append((k, k + 1))
    if not is_gpu(target):
        return groups

    def is_slow(first: int, last: int) -> bool:
        return goes_by_steps(ranks[first : last + 1], target)

    return [
        part
        for first, last in groups
        for part in ([(k, k + 1) for k in range(first, last)] if is_slow(first, last) else [(first, last)])
    ]


def goes_by_steps(ranks: Sequence[int], target: str = "", workers: int = 1) -> bool:
    """Whether a chain whose cores lie one behind the other is faster as a contract_step for each: one processor would do large
    cores."""
    cells = _cells(ranks)
    if is_gpu(target):
        return cells >= ALONE and chain_schedule(ranks, target).workgroups == 1
    return workers > 1 and cells >= 2 * cells_per_thread(workers)


def uniform_ranks(steps: int, rank: int, first: int = 0, last: int = 0) -> tuple[int, ...]:
    """The ranks of `steps` cores: inner ones are `rank`; a `first` or `last` of 0 stands for `rank`."""
    if steps < 1:
        raise ValueError("a chain has at least one core")
    return (first or rank, *[rank] * (steps - 1), last or rank)


@lru_cache(maxsize=64)
def chain(
    ranks: tuple[int, ...],
    dtype: DataType = DataType.F32,
    schedule: ChainSchedule | ScatterSchedule | None = None,
    separate: bool = False,
    vectors: int = 0,
) -> Program:
    """The program `chain`: @acc (ranks[0]), @cores (one after the other, each by rows), @out (ranks[-1]).

    `separate`: each core is a buffer of its own, @core0, @core1, ...  `vectors`: 0 for one; else @acc and @out hold any number
    of them, one after the other, of which `schedule.workgroups` do so many together; one workgroup does one.

    For a grid of `schedule.workgroups`, times what there is to do.  Further workgroups of a grid do nothing.  Raises ValueError
    for ranks out of range, and for vectors that one workgroup is to do together.
    """
    if len(ranks) < 2:
        raise ValueError("a chain has at least one core, so at least two ranks")
    if not all(1 <= rank <= MAX_RANK for rank in ranks):
        raise ValueError(f"ranks are 1 to {MAX_RANK}: {list(ranks)}")
    schedule = schedule or chain_schedule(ranks)
    if isinstance(schedule, ScatterSchedule):
        return build_scattered(ranks, dtype, schedule, separate, vectors)
    if schedule.workgroups > 1:
        return build_spread(ranks, dtype, schedule.workgroups, schedule.lanes, separate, vectors)
    if vectors > 1:
        raise ValueError(f"one workgroup does one vector at a time, not {vectors}")
    many = vectors > 0
    b = Builder("chain", workgroup=schedule.lanes)
    acc = b.buffer("acc", dtype, None if many else ranks[0], "read", 0)
    steps = chain_steps(b, ranks, dtype, separate)
    size = None if many else ranks[-1]
    out = b.buffer("out", dtype, size, "write", len(b.program.buffers), live_out=True)
    work = _ChainState(b, ranks, dtype, schedule)
    number = b.workgroup_id("x", name="number")
    count = b.div(b.len(acc), ranks[0]) if many else b.const(1)

    def of_vector(rank: int, element: Value) -> Value:
        return b.add(b.mul(number, rank), element) if many else element

    with b.if_(b.lt(number, count)):
        with b.for_(work.lane, ranks[0], schedule.lanes) as loop:
            b.store(signed(b, b.load(acc, of_vector(ranks[0], loop.index))), "vector", loop.index)
        work.barrier()
        for step in steps:
            _ChainStep(work, step).build()
        with b.for_(work.lane, ranks[-1], schedule.lanes) as loop:
            value = stored(b, b.load("vector", loop.index), dtype)
            b.store(value, out, of_vector(ranks[-1], loop.index))
    return b.finish(verify=False)


class _ChainState:
    """State shared by the steps: the accumulator in @vector, the partial sums in @partials."""

    def __init__(self, b: Builder, ranks: tuple[int, ...], dtype: DataType, schedule: ChainSchedule) -> None:
        self.b, self.dtype, self.schedule = b, dtype, schedule
        self.sum = zero(b, dtype).type
        b.buffer("vector", self.sum, max(ranks), "workgroup")
        widest = max(ranks[1:])
        if schedule.stream_rows:  # in whole turns
            widest = -(-widest // SUBGROUP) * SUBGROUP
        self.partials = b.buffer(
            "partials", self.sum, max(widest, schedule.lanes * schedule.vector), "workgroup"
        )
        self.lane = b.local_id("x", name="lane")

    def barrier(self) -> None:
        """Lanes that stream rows are one subgroup, which goes on in step: on a CPU this barrier costs nothing."""
        self.b.barrier("subgroup" if self.schedule.stream_rows else "workgroup")


class _ChainStep:
    """Emits some steps with cores of one shape."""

    def __init__(self, chain: _ChainState, steps: ChainSteps) -> None:
        self.chain, self.b, self.cores, self.size = chain, chain.b, steps.buffer, steps.size
        self.rows, self.columns, self.start, self.times = steps.rows, steps.columns, steps.start, steps.times
        rows, columns, start = steps.rows, steps.columns, steps.start
        vector, lanes = chain.schedule.vector, chain.schedule.lanes
        while columns % vector or start % vector:  # vector loads must be aligned
            vector //= 2
        self.vector = vector
        self.blocks = columns // vector  # of columns
        self.slices = 1 if chain.schedule.stream_rows else max(1, min(rows, lanes // self.blocks))
        self.each = -(-rows // self.slices)  # rows of a slice, at most
        self.is_whole = rows % self.slices == 0 and self.slices * self.blocks == lanes

    def build(self) -> None:
        b = self.b
        held = self.each * self.vector
        if self.times > 1 and self.is_whole and held <= self.chain.schedule.prefetch:
            first = self.load(b.const(self.start))
            with b.for_(0, self.times, carry=first) as loop:
                # clamped: there is no core after the last, and its result is not used
                following = b.min(b.add(loop.index, 1), self.times - 1)
                fetched = self.load(b.add(b.mul(following, self.size), self.start))
                self.add_up(self.multiply(loop.args))
                loop.yield_(*fetched)
        elif self.times > 1:
            with b.for_(0, self.times) as loop:
                self.walk(b.add(b.mul(loop.index, self.size), self.start))
        else:
            self.walk(b.const(self.start))

    def walk(self, start: Value) -> None:
        """Do a step with the core at `start`, read from memory."""
        if self.chain.schedule.stream_rows and self.columns >= SUBGROUP:
            self.stream(start)
        else:
            self.add_up(self.pass_over(start))

    def stream(self, start: Value) -> None:
        b, chain = self.b, self.chain
        stream = RowStream(
            b,
            chain.dtype,
            self.cores,
            chain.partials,
            0,
            self.columns,
            self.columns,
            row_start=lambda row: b.add(b.mul(row, self.columns), start),
            factor=lambda row: b.load("vector", row),
        )
        stream.clear()
        stream.add(0, self.rows, chain.schedule.stream_rows)
        chain.barrier()
        stream.each(lambda total, column: b.store(total, "vector", column))
        chain.barrier()

    # --- the core in registers --------------------------------------------------------------

    def slice_and_block(self) -> tuple[Value, Value]:
        """This lane's slice and block of columns."""
        b, lane = self.b, self.chain.lane
        return b.div(lane, self.blocks), b.rem(lane, self.blocks)

    def load(self, start: Value) -> list[Value]:
        """This lane's vectors of the core at `start`."""
        b = self.b
        piece, block = self.slice_and_block()
        first = b.add(b.add(start, b.mul(piece, self.columns)), b.mul(block, self.vector))
        ahead = self.slices * self.columns
        return [b.load(self.cores, offset(b, first, k * ahead), lanes=self.vector) for k in range(self.each)]

    def multiply(self, cells: Sequence[Value]) -> int:
        """Store the partial sum of this lane's slice to @partials; returns the number of slices."""
        b = self.b
        piece, block = self.slice_and_block()
        total = zero(b, self.chain.dtype, self.vector)
        for k, cell in enumerate(cells):
            element = b.load("vector", offset(b, piece, k * self.slices))
            total = multiply_add(b, element, signed(b, cell), total)
        self.put(total, piece, block)
        return self.slices

    # --- the core from memory ---------------------------------------------------------------

    def pass_over(self, start: Value) -> int:
        """Does what `multiply` does, for the core at `start`, which loops read from memory.

        A lane may take several blocks of columns.
        """
        b, lanes = self.b, self.chain.schedule.lanes
        if self.slices == 1:
            with b.for_(self.chain.lane, self.blocks, lanes) as loop:
                self.slice_sum(start, b.const(0), loop.index)
            return 1
        piece, block = self.slice_and_block()
        with b.if_(b.lt(piece, self.slices)):
            self.slice_sum(start, piece, block)
        return self.slices

    def slice_sum(self, start: Value, piece: Value, block: Value) -> None:
        b = self.b
        column = b.add(start, b.mul(block, self.vector))
        nothing = zero(b, self.chain.dtype, self.vector)
        with b.for_(piece, self.rows, self.slices, carry=[nothing]) as loop:
            cell = b.load(self.cores, b.add(column, b.mul(loop.index, self.columns)), lanes=self.vector)
            element = b.load("vector", loop.index)
            loop.yield_(multiply_add(b, element, signed(b, cell), loop.args[0]))
        self.put(loop.result, piece, block)

    # --- partial sums -----------------------------------------------------------------------

    def put(self, total: Value, piece: Value, block: Value) -> None:
        b = self.b
        index = b.add(b.mul(piece, self.columns), b.mul(block, self.vector))
        b.store(total, "partials", index)

    def add_up(self, slices: int) -> None:
        """Add up the partial sums of `slices` slices into @vector, with a barrier before and after."""
        b = self.b
        self.chain.barrier()
        with b.for_(self.chain.lane, self.columns, self.chain.schedule.lanes) as loop:
            with b.for_(1, slices, carry=[b.load("partials", loop.index)]) as parts:
                part = b.load("partials", b.add(b.mul(parts.index, self.columns), loop.index))
                parts.yield_(b.add(parts.args[0], part))
            b.store(parts.result, "vector", loop.index)
        self.chain.barrier()
