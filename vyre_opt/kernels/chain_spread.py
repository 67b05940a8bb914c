"""tt.chain over several workgroups, for cores that take one workgroup long to read.

A cluster of workgroups does a vector, or several that go through the same cores.  A workgroup owns `own` neighbouring columns
of every core.  Its lanes form a table over them, with `vector` columns and `each` rows for each lane:

    columns of a workgroup                     0..3    4..7    ...       lane = slice * across + column / vector
    slice 0, rows 0..e-1     or 0, s, 2s..      ##      ##
    slice 1, rows e..2e-1    or 1, s+1, ..      ##      ##

The rows of a lane are neighbours for one vector, whose elements it loads several at a time.  With more of them they are `slices`
apart, so that the slices of a subgroup load from neighbouring rows of @line, which lie in different banks.

In a step each lane multiplies its part; what lies beyond the core counts as zeros.  The lanes of a column add up their sums,
by shuffles within a subgroup and through @partials across subgroups, and store them to @line.  After a barrier every
lane reads its rows of the vectors from there for the next step.

@line holds each vector twice, of which a step reads one and writes the other: so one barrier a step is
enough.  Elements of one row of all vectors are neighbours, `stride` elements from the next row.  Cores do not depend on the
vectors, so a lane's part of the next core is loaded before the barrier, and arrives while the workgroups wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, product
from math import gcd

from ..ir.builder import Builder
from ..ir.program import Buffer, Program, Value
from ..ir.types import DataType
from ..records import dataclass
from .chain_steps import ChainSteps, chain_steps, largest_core
from .collective import SUBGROUP, elements, guarded, offset, shared_sums
from .multiply_add import multiply_add, signed, stored, zero
from .targets import REGISTERS

__all__ = ["best_cluster", "build_spread", "can_spread", "is_well_spread", "spread_bytes"]

MAX_HELD = 64  # values of a core that a lane has the registers for
MAX_LANES = 1024
MORE_BYTES = 64  # of a workgroup's memory, for alignment and barriers
OTHERS = 24  # registers of a lane for all but the core

# Of the fastest splits of ranks from 80 to 1024 on an H200
OWN_COLUMNS = 32  # with less, more workgroups tell more others of their sums
LEAST_HELD = 32  # in the fastest ones
WELL_HELD = 40  # with less, more subgroups add up their sums; with several vectors they take longer, so as many as can be


@dataclass(frozen=True, slots=True)
class _Split:
    """Layout of cores of `rows` by `columns` over the lanes of all workgroups; see above."""

    rows: int
    columns: int
    vector: int
    across: int
    slices: int

    @property
    def columns_per_workgroup(self) -> int:
        return self.vector * self.across

    @property
    def each(self) -> int:
        return -(-self.rows // self.slices)

    @property
    def held(self) -> int:
        """Values of a core that a lane holds."""
        return self.each * self.vector

    @property
    def is_even(self) -> bool:
        """Whether each lane has as many rows."""
        return self.rows == self.each * self.slices


def _split(rows: int, columns: int, workgroups: int, lanes: int) -> _Split:
    vector = gcd(columns, 4)
    blocks = -(-columns // (workgroups * vector))
    across = 1 << (blocks - 1).bit_length()
    return _Split(rows, columns, vector, across, max(1, lanes // across))


def can_spread(ranks: Sequence[int], workgroups: int, lanes: int) -> bool:
    """Whether each lane has the registers for its part of every core."""
    splits = (_split(rows, columns, workgroups, lanes) for rows, columns in set(pairwise(ranks)))
    return lanes % SUBGROUP == 0 and all(s.across <= SUBGROUP and s.held <= MAX_HELD for s in splits)


@lru_cache(maxsize=64)
def best_cluster(ranks: tuple[int, ...], most: int, vectors: int) -> tuple[int, int] | None:
    """The workgroups, 2 to `most`, and the lanes of each that are the fastest for a chain of `vectors`; None if none can do it.

    The largest core decides: its rows should divide evenly, since lanes with less load and add zeros.
    """
    rows, columns = largest_core(ranks)

    def cost(cluster: tuple[int, int]) -> tuple[float, ...]:
        workgroups, lanes = cluster
        split = _split(rows, columns, workgroups, lanes)
        spills = lanes * (split.held + (vectors - 1) * split.vector + OTHERS) > REGISTERS
        away = abs(workgroups * OWN_COLUMNS - columns)
        well_held = WELL_HELD if vectors == 1 else MAX_HELD
        return spills, not split.is_even, away, split.each % 4 != 0, abs(split.held - well_held)

    def is_busy(workgroups: int) -> bool:
        """Whether each workgroup has columns of the largest core."""
        return (workgroups - 1) * _split(rows, columns, workgroups, SUBGROUP).columns_per_workgroup < columns

    sizes = filter(is_busy, range(2, most + 1))
    clusters = product(sizes, range(SUBGROUP, MAX_LANES + 1, SUBGROUP))
    return min((c for c in clusters if can_spread(ranks, *c)), key=cost, default=None)


def is_well_spread(ranks: Sequence[int], workgroups: int, lanes: int) -> bool:
    """Whether the largest core lies over the lanes as in the fastest splits."""
    split = _split(*largest_core(ranks), workgroups, lanes)
    return split.is_even and split.columns_per_workgroup == OWN_COLUMNS and split.held >= LEAST_HELD


def spread_bytes(ranks: Sequence[int], workgroups: int, lanes: int, vectors: int) -> int:
    """Bytes of a workgroup's memory that the program takes at most, for `vectors` of 4 bytes an element."""
    rows = 2 * _longest(ranks) + _partial_rows(ranks, workgroups, lanes)
    return 4 * _stride(vectors) * rows + MORE_BYTES


def _partial_rows(ranks: Sequence[int], workgroups: int, lanes: int) -> int:
    """Rows of @partials: for each subgroup the columns of a workgroup."""
    most = max(_split(1, columns, workgroups, lanes).columns_per_workgroup for columns in ranks[1:])
    return lanes // SUBGROUP * most


def _longest(ranks: Sequence[int]) -> int:
    """Rows of a half of @line: vectors of 4 begin aligned in both."""
    return -(-max(ranks[1:]) // 4) * 4


def _stride(vectors: int) -> int:
    """Elements of a row of @line: one of each vector, and zeros behind them, so that rows of several begin aligned."""
    return vectors if vectors < 3 else -(-vectors // 4) * 4


def build_spread(
    ranks: tuple[int, ...],
    dtype: DataType,
    workgroups: int,
    lanes: int,
    separate: bool,
    vectors: int = 0,
) -> Program:
    """The program `chain` for clusters of `workgroups` with `lanes`, a multiple of 32; `separate` and `vectors`: see `chain`.

    Raises ValueError where `can_spread` says no.
    """
    if not can_spread(ranks, workgroups, lanes):
        raise ValueError(
            f"cores of ranks {list(ranks)} do not fit the registers of {workgroups} x {lanes} lanes"
        )
    spread = _Spread(ranks, dtype, workgroups, lanes, vectors)
    b = spread.b
    acc = b.buffer("acc", dtype, None if vectors else ranks[0], "read", 0)
    first, *later = chain_steps(b, ranks, dtype, separate)
    size = None if vectors else ranks[-1]
    out = b.buffer("out", dtype, size, "write", len(b.program.buffers), live_out=True)
    spread.declare()
    if vectors:
        spread.count = b.min(b.div(b.len(acc), ranks[0]), b.div(b.len(out), ranks[-1]))
    # The first step reads @acc, not @line, so it is not part of a loop.
    step = _SpreadStep(spread, first)
    step.share(step.multiply(step.load(b.const(0)), step.given(acc)), b.const(spread.half))
    done = 1
    if first.times > 1:
        later = [replace(first, start=first.size, times=first.times - 1), *later]
    for steps in later:
        _SpreadStep(spread, steps).repeat(steps.times, done)
        done += steps.times
    spread.barrier()
    spread.put(out, ranks[-1], done % 2 * spread.half)
    return b.finish(verify=False)


class _Spread:
    """State shared by all steps.  `vectors`: vectors of a cluster; `count`: the number of all vectors, None for a fixed length.

    `stride`: elements of a row of @line, `half`: of a half of it.  `number`: of the workgroup in its cluster.  `first_vector`: of the cluster.
    """

    def __init__(
        self, ranks: tuple[int, ...], dtype: DataType, workgroups: int, lanes: int, vectors: int
    ) -> None:
        self.dtype, self.workgroups, self.lanes, self.vectors = dtype, workgroups, lanes, max(1, vectors)
        # One cluster is a grid, which GPUs without clusters have, too
        cluster, grid = (workgroups, None) if vectors else (None, workgroups)
        self.b = b = Builder("chain", workgroup=lanes, grid=grid, cluster=cluster)
        self.scope, self.memory = ("cluster", "cluster") if vectors else ("grid", "read_write")
        self.ranks = ranks
        self.count: Value | None = None
        self.stride = _stride(self.vectors)
        self.half = _longest(ranks) * self.stride
        self.lane, group = b.local_id("x"), b.workgroup_id("x")
        self.number = b.rem(group, workgroups) if vectors else group
        self.first_vector = b.mul(b.div(group, workgroups), vectors) if vectors else None

    def declare(self) -> None:
        """The buffers that are nobody else's."""
        kind = zero(self.b, self.dtype).type
        self.b.buffer("line", kind, 2 * self.half, self.memory)
        rows = _partial_rows(self.ranks, self.workgroups, self.lanes)
        self.b.buffer("partials", kind, rows * self.stride, "workgroup")

    def barrier(self) -> None:
        self.b.barrier(self.scope)

    def exists(self, vector: Value) -> Value:
        assert self.count is not None
        return self.b.lt(vector, self.count)

    def put(self, out: Buffer, columns: int, half: int) -> None:
        """Store the vectors in the half of @line at `half` to @out."""
        b = self.b
        start = b.add(b.mul(self.number, self.lanes), self.lane)
        with b.for_(start, columns * self.vectors, self.workgroups * self.lanes) as loop:
            index = loop.index
            if self.first_vector is None:
                b.store(stored(b, b.load("line", b.add(index, half)), self.dtype), out, index)
            else:
                # the minimum says what the loop's end does, for the proof that no load is out of bounds
                column, vector_here = b.rem(index, columns), b.min(b.div(index, columns), self.vectors - 1)
                vector = b.add(self.first_vector, vector_here)
                total = b.load("line", b.add(b.add(b.mul(column, self.stride), vector_here), half))
                with b.if_(self.exists(vector)):
                    b.store(stored(b, total, self.dtype), out, b.add(b.mul(vector, columns), column))


class _SpreadStep:
    """Emits steps with cores of one shape."""

    def __init__(self, spread: _Spread, steps: ChainSteps) -> None:
        self.spread, self.b, self.vectors, self.stride = spread, spread.b, spread.vectors, spread.stride
        self.cores, self.start, self.size = steps.buffer, steps.start, steps.size
        self.split = split = _split(steps.rows, steps.columns, spread.workgroups, spread.lanes)
        b, lane = self.b, spread.lane
        self.row_step = 1 if spread.vectors == 1 else split.slices  # rows of a lane
        self.row = b.div(lane, split.across)
        if spread.vectors == 1:
            self.row = b.mul(self.row, split.each)
        self.first = b.mul(spread.number, split.columns_per_workgroup)
        column = b.add(self.first, b.mul(b.rem(lane, split.across), split.vector))
        # What lies beyond is loaded from the last ones; the sums are not stored
        self.has_all = split.columns_per_workgroup * spread.workgroups == split.columns
        self.column = column if self.has_all else b.min(column, split.columns - split.vector)

    def load(self, start: Value) -> list[Value]:
        """This lane's part of the core at `start`, a vector for each row."""
        b, split = self.b, self.split
        if split.is_even:
            first = b.add(b.add(start, b.mul(self.row, split.columns)), self.column)
            indices = [offset(b, first, k * self.row_step * split.columns) for k in range(split.each)]
            return [b.load(self.cores, index, lanes=split.vector) for index in indices]
        first, cells = b.add(start, self.column), list[Value]()
        for index, exists in self.rows():
            cell = b.load(self.cores, b.add(first, b.mul(index, split.columns)), lanes=split.vector)
            cells.append(b.select(exists, cell, b.const(0, cell.type)))
        return cells

    def rows(self) -> Iterator[tuple[Value, Value]]:
        """This lane's rows, each with whether it exists; one that does not is the last one."""
        b, last = self.b, self.split.rows - 1
        for k in range(self.split.each):
            row = offset(b, self.row, k * self.row_step)
            yield b.min(row, last), b.le(row, last)

    def given(self, acc: Buffer) -> Iterator[list[Value]]:
        """The elements of all vectors for this lane's rows, row by row, from @acc."""
        b, first = self.b, self.spread.first_vector
        if first is None:
            return self.elements(acc, b.const(0))
        columns: list[list[Value]] = []
        for number in range(self.vectors):
            vector = offset(b, first, number)
            start, exists = b.mul(vector, self.split.rows), self.spread.exists(vector)
            column = []
            for row, is_row in self.rows():
                index, both = b.add(start, row), b.and_(exists, is_row)
                column.append(signed(b, guarded(b, both, lambda index=index: b.load(acc, index))))  # type: ignore[misc]
            columns.append(column)
        return (list(row) for row in zip(*columns, strict=True))

    def elements(self, line: Buffer | str, half: Value) -> Iterator[list[Value]]:
        """The same from the half at `half` of @line, or from an @acc that is one vector."""
        b, split, vectors = self.b, self.split, self.vectors
        if not split.is_even:
            for row, exists in self.rows():
                found = self.run(line, b.add(half, self.scaled(row)), vectors)
                yield [b.select(exists, element, b.const(0, element.type)) for element in found]
            return
        index = b.add(half, self.scaled(self.row))
        together = gcd(split.each, 4) if vectors == 1 else 1  # rows that are loaded at a time
        for k in range(0, split.each, together):
            found = self.run(line, offset(b, index, k * self.row_step * self.stride), together * vectors)
            yield from ([element] for element in found) if vectors == 1 else [found]

    def scaled(self, row: Value) -> Value:
        """Offset at which a row of @line begins."""
        return self.b.mul(row, self.stride) if self.stride > 1 else row

    def run(self, line: Buffer | str, index: Value, count: int) -> list[Value]:
        """Load a run of elements from `index` on, by accesses as wide as possible."""
        b, found = self.b, list[Value]()
        while len(found) < count:
            left = count - len(found)
            lanes = next(lanes for lanes in (4, 2, 1) if lanes <= left)
            found += elements(b, signed(b, b.load(line, offset(b, index, len(found)), lanes=lanes)))
        return found

    def multiply(self, cells: Sequence[Value], rows: Iterator[list[Value]]) -> list[Value]:
        """This lane's sums for its columns, of each vector."""
        b = self.b
        totals = [zero(b, self.spread.dtype, self.split.vector)] * self.vectors
        for row, cell in zip(rows, cells, strict=True):
            factor = signed(b, cell)
            totals = [multiply_add(b, x, factor, total) for x, total in zip(row, totals, strict=True)]
        return totals

    def share(self, totals: Sequence[Value], half: Value) -> None:
        """Store the sums of this workgroup's columns to the half of @line at `half`.  Executes a barrier."""
        b, split, stride = self.b, self.split, self.stride
        subgroups, width = self.spread.lanes // SUBGROUP, split.columns_per_workgroup * stride
        together = SUBGROUP // split.across  # lanes of a column in a subgroup
        # as they lie in @line: for each column the sums of all vectors, and zeros behind them, so that what is sent to other
        # workgroups is as wide as can be
        padding = [zero(b, self.spread.dtype)] * (stride - self.vectors)
        columns = zip(*(elements(b, total) for total in totals), strict=True)
        sums = [x for column in columns for x in (*column, *padding)]
        shared = shared_sums(b, sums, b.div(b.lane_id(), split.across), together, split.across)
        mine = b.add(b.mul(b.rem(b.lane_id(), split.across), split.vector * stride), shared.first)
        with b.if_(shared.writes):
            index = b.add(b.mul(b.subgroup_id(), width), mine)
            lanes = gcd(len(shared.values), split.vector * stride, 4)
            for k in range(0, len(shared.values), lanes):
                run = shared.values[k : k + lanes]
                b.store(b.vector(*run) if lanes > 1 else run[0], "partials", offset(b, index, k))
        b.barrier("workgroup")
        lanes = gcd(stride, 4)  # sums of a column that a lane adds up at a time

        def whole(element: Value) -> Value:
            total = b.load("partials", element, lanes=lanes)
            for subgroup in range(1, subgroups):
                total = b.add(total, b.load("partials", b.add(element, subgroup * width), lanes=lanes))
            return total

        start = b.add(self.scaled(self.first), half)
        if self.has_all:
            with b.for_(self.spread.lane, width // lanes, self.spread.lanes) as loop:
                element = b.mul(loop.index, lanes) if lanes > 1 else loop.index
                b.store(whole(element), "line", b.add(start, element))
            return
        with b.for_(self.spread.lane, split.columns_per_workgroup, self.spread.lanes) as loop:
            column = b.add(self.first, loop.index)
            with b.if_(b.lt(column, split.columns)):
                for k in range(0, stride, lanes):
                    part = offset(b, self.scaled(loop.index), k)
                    b.store(whole(part), "line", offset(b, b.add(self.scaled(column), half), k))

    def repeat(self, times: int, done: int) -> None:
        """Emit `times` steps as a loop, after `done` earlier ones."""
        b, half = self.b, self.spread.half
        cells = self.load(b.const(self.start))
        with b.for_(0, times, carry=cells) as loop:
            self.spread.barrier()
            turn = b.and_(b.add(loop.index, done), 1)
            before = b.mul(turn, half)
            totals = self.multiply(loop.args, self.elements("line", before))
            # loaded before the sums are exchanged; the barrier of the next turn hides the wait
            following = b.min(b.add(loop.index, 1), times - 1)
            fetched = self.load(b.add(b.mul(following, self.size), self.start))
            self.share(totals, b.sub(half, before))
            loop.yield_(*fetched)
