"""tt.chain over several workgroups, for cores that take one workgroup long to read.

A workgroup owns `own` neighbouring columns of every core.  Its lanes form a table over them, with
`vector` columns and `each` neighbouring rows for each lane:

    columns of a workgroup      0..3    4..7    ...       lane = slice * across + column / vector
    slice 0, rows 0..e-1         ##      ##
    slice 1, rows e..2e-1        ##      ##

In a step each lane multiplies its part; what lies beyond the core counts as zeros.  The lanes of a column add up their sums,
by shuffles within a subgroup and through @partials across subgroups, and store them to @line.  After a grid barrier every
lane reads its rows of the vector from there for the next step.

@line holds two vectors, of which a step reads one and writes the other: so one grid barrier a step is
enough.  Cores do not depend on the vector, so a lane's part of the next core is loaded before the barrier,
and arrives while the workgroups wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise, product
from math import gcd, prod

from ..ir.builder import Builder
from ..ir.program import Buffer, Program, Value
from ..ir.types import DataType
from .chain_steps import ChainSteps, chain_steps
from .collective import SUBGROUP, elements, offset, shared_sums
from .multiply_add import multiply_add, signed, stored, zero

__all__ = ["best_cluster", "build_spread", "can_spread"]

MAX_HELD = 64  # values of a core that a lane has the registers for
MAX_LANES = 1024
REGISTERS, OTHERS = 1 << 16, 24  # of a multiprocessor; those of a lane for all but the core

# Of the fastest splits of ranks from 80 to 1024 on an H200
OWN_COLUMNS = 32  # with less, more workgroups tell more others of their sums
WELL_HELD = 40  # with less, more subgroups add up their sums


@dataclass(frozen=True, slots=True)
class _Split:
    """How cores of `rows` by `columns` lie over the lanes of all workgroups; see above."""

    rows: int
    columns: int
    vector: int
    across: int
    slices: int

    @property
    def own(self) -> int:
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
def best_cluster(ranks: tuple[int, ...], most: int) -> tuple[int, int] | None:
    """The workgroups, 2 to `most`, and the lanes of each that are the fastest for a chain; None if none can do it.

    The largest core decides: its rows should divide evenly, since lanes with less load and add zeros.
    """
    rows, columns = max(pairwise(ranks), key=prod)

    def cost(cluster: tuple[int, int]) -> tuple[float, ...]:
        workgroups, lanes = cluster
        split = _split(rows, columns, workgroups, lanes)
        spills = lanes * (split.held + OTHERS) > REGISTERS
        away = abs(workgroups * OWN_COLUMNS - columns)
        return spills, not split.is_even, away, split.each % 4 != 0, abs(split.held - WELL_HELD)

    def is_busy(workgroups: int) -> bool:
        """Whether each workgroup has columns of the largest core."""
        return (workgroups - 1) * _split(rows, columns, workgroups, SUBGROUP).own < columns

    sizes = filter(is_busy, range(2, most + 1))
    clusters = product(sizes, range(SUBGROUP, MAX_LANES + 1, SUBGROUP))
    return min((c for c in clusters if can_spread(ranks, *c)), key=cost, default=None)


def build_spread(
    ranks: tuple[int, ...], dtype: DataType, workgroups: int, lanes: int, separate: bool
) -> Program:
    """The program `chain` for a grid of `workgroups` with `lanes`, a multiple of 32; `separate`: see `chain`.

    Raises ValueError where `can_spread` says no.
    """
    if not can_spread(ranks, workgroups, lanes):
        raise ValueError(
            f"cores of ranks {list(ranks)} do not fit the registers of {workgroups} x {lanes} lanes"
        )
    b = Builder("chain", workgroup=lanes, grid=workgroups)
    acc = b.buffer("acc", dtype, ranks[0], "read", 0)
    first, *later = chain_steps(b, ranks, dtype, separate)
    out = b.buffer("out", dtype, ranks[-1], "write", len(b.program.buffers), live_out=True)
    kind, half = zero(b, dtype).type, -(-max(ranks[1:]) // 4) * 4  # vectors of 4 begin aligned in both
    b.buffer("line", kind, 2 * half, "read_write")
    most = max(_split(1, columns, workgroups, lanes).own for columns in ranks[1:])
    b.buffer("partials", kind, lanes // SUBGROUP * most, "workgroup")
    # The first step reads @acc, not @line, so it is not part of a loop.
    step = _SpreadStep(b, dtype, first)
    step.share(step.multiply(step.load(b.const(0)), acc, b.const(0)), half)
    done = 1
    if first.times > 1:
        later = [replace(first, start=first.size, times=first.times - 1), *later]
    for steps in later:
        _SpreadStep(b, dtype, steps).repeat(steps.times, done, half)
        done += steps.times
    b.barrier("grid")
    with b.for_(b.global_id("x"), ranks[-1], workgroups * lanes) as loop:
        total = b.load("line", b.add(loop.index, done % 2 * half))
        b.store(stored(b, total, dtype), out, loop.index)
    return b.finish(verify=False)


class _SpreadStep:
    """Emits steps with cores of one shape."""

    def __init__(self, b: Builder, dtype: DataType, steps: ChainSteps) -> None:
        self.b, self.dtype, self.cores, self.start, self.size = (
            b,
            dtype,
            steps.buffer,
            steps.start,
            steps.size,
        )
        assert b.program.grid is not None  # build_spread fixes it
        self.split = split = _split(steps.rows, steps.columns, b.program.grid[0], b.program.lanes)
        self.lane = b.local_id("x")
        self.row = b.mul(b.div(self.lane, split.across), split.each)
        self.first = b.mul(b.workgroup_id("x"), split.own)
        column = b.add(self.first, b.mul(b.rem(self.lane, split.across), split.vector))
        # What lies beyond is loaded from the last ones; the sums are not stored
        has_all = split.own * b.program.grid[0] == split.columns
        self.column = column if has_all else b.min(column, split.columns - split.vector)

    def load(self, start: Value) -> list[Value]:
        """This lane's part of the core at `start`, a vector for each row."""
        b, split = self.b, self.split
        if split.is_even:
            first = b.add(b.add(start, b.mul(self.row, split.columns)), self.column)
            places = [offset(b, first, k * split.columns) for k in range(split.each)]
            return [b.load(self.cores, place, lanes=split.vector) for place in places]
        first, cells = b.add(start, self.column), list[Value]()
        for place, exists in self.rows():
            cell = b.load(self.cores, b.add(first, b.mul(place, split.columns)), lanes=split.vector)
            cells.append(b.select(exists, cell, b.const(0, cell.type)))
        return cells

    def rows(self) -> Iterator[tuple[Value, Value]]:
        """This lane's rows, each with whether it exists; one that does not is the last one."""
        b, last = self.b, self.split.rows - 1
        for k in range(self.split.each):
            row = offset(b, self.row, k)
            yield b.min(row, last), b.le(row, last)

    def elements(self, vector: Buffer | str, at: Value) -> Iterator[Value]:
        """The vector's elements for this lane's rows; they lie from `at` on."""
        b, split = self.b, self.split
        if not split.is_even:
            for place, exists in self.rows():
                element = signed(b, b.load(vector, b.add(at, place)))
                yield b.select(exists, element, b.const(0, element.type))
            return
        lanes, place = gcd(split.each, 4), b.add(at, self.row)
        for k in range(0, split.each, lanes):
            loaded = signed(b, b.load(vector, offset(b, place, k), lanes=lanes))
            yield from elements(b, loaded)

    def multiply(self, cells: Sequence[Value], vector: Buffer | str, at: Value) -> Value:
        """This lane's sums for its columns; the vector's elements lie from `at` on."""
        b = self.b
        total = zero(b, self.dtype, self.split.vector)
        for element, cell in zip(self.elements(vector, at), cells, strict=True):
            total = multiply_add(b, element, signed(b, cell), total)
        return total

    def share(self, total: Value, half: int | Value) -> None:
        """Store the sums of this workgroup's columns to the half of @line at `half`.  Executes a barrier."""
        b, split = self.b, self.split
        together = SUBGROUP // split.across  # lanes of a column in a subgroup
        number = b.div(b.lane_id(), split.across)
        shared = shared_sums(b, elements(b, total), number, together, split.across)
        mine = b.add(b.mul(b.rem(b.lane_id(), split.across), split.vector), shared.first)
        with b.if_(shared.writes):
            for k, value in enumerate(shared.values):
                place = b.add(b.mul(b.subgroup_id(), split.own), mine)
                b.store(value, "partials", offset(b, place, k))
        b.barrier("workgroup")
        with b.for_(self.lane, split.own, b.program.lanes) as loop:
            whole = b.load("partials", loop.index)
            for subgroup in range(1, b.program.lanes // SUBGROUP):
                whole = b.add(whole, b.load("partials", b.add(loop.index, subgroup * split.own)))
            column = b.add(self.first, loop.index)
            with b.if_(b.lt(column, split.columns)):
                b.store(whole, "line", b.add(column, half))

    def repeat(self, times: int, done: int, half: int) -> None:
        """Emit `times` steps as a loop, after `done` earlier ones."""
        b = self.b
        cells = self.load(b.const(self.start))
        with b.for_(0, times, carry=cells) as loop:
            b.barrier("grid")
            turn = b.and_(b.add(loop.index, done), 1)
            before = b.mul(turn, half)
            total = self.multiply(loop.args, "line", before)
            # loaded before the sums are exchanged; the barrier of the next turn hides the wait
            following = b.min(b.add(loop.index, 1), times - 1)
            fetched = self.load(b.add(b.mul(following, self.size), self.start))
            self.share(total, b.sub(half, before))
            loop.yield_(*fetched)
