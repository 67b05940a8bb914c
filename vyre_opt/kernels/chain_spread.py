"""tt.chain over several workgroups, for cores that take one workgroup long to read.

A workgroup owns `own` neighbouring columns of every core.  Its lanes form a table over them, with
`vector` columns and `each` neighbouring rows for each lane:

    columns of a workgroup      0..3    4..7    ...       lane = slice * across + column / vector
    slice 0, rows 0..e-1         ##      ##
    slice 1, rows e..2e-1        ##      ##

In a step each lane multiplies its part.  The lanes of a column add up their sums, by shuffles within a
subgroup and through @partials across subgroups, and store them to @line.  After a grid barrier every
lane reads its rows of the vector from there for the next step.

@line holds two vectors, of which a step reads one and writes the other: so one grid barrier a step is
enough.  Cores do not depend on the vector, so a lane's part of the next core is loaded before the barrier,
and arrives while the workgroups wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import gcd

from ..ir.builder import Builder
from ..ir.program import Buffer, Program, Value
from ..ir.types import DataType
from .chain_steps import ChainSteps, chain_steps
from .collective import SUBGROUP, elements, offset, shared_sums
from .multiply_add import multiply_add, signed, stored, zero

__all__ = ["MAX_HELD", "build_spread", "can_spread"]

MAX_HELD = 64  # values of a core that a lane has the registers for


def can_spread(ranks: Sequence[int], workgroups: int, lanes: int, held: int = MAX_HELD) -> bool:
    """Whether every core divides evenly over all lanes, into parts of at most `held` values."""
    return lanes % SUBGROUP == 0 and all(
        _divides(rows, columns, workgroups, lanes, held) for rows, columns in pairwise(ranks)
    )


def _divides(rows: int, columns: int, workgroups: int, lanes: int, held: int) -> bool:
    own = columns // workgroups
    across = own // gcd(own, 4)
    return (
        columns % workgroups == 0
        and across in (1, 2, 4, 8, 16, 32)
        and rows % (lanes // across) == 0
        and rows * own <= held * lanes
    )


def build_spread(
    ranks: tuple[int, ...], dtype: DataType, workgroups: int, lanes: int, separate: bool
) -> Program:
    """The program `chain` for a grid of `workgroups` with `lanes`, a multiple of 32; `separate`: see `chain`.

    Raises ValueError where `can_spread` says no.
    """
    if not can_spread(ranks, workgroups, lanes):
        raise ValueError(
            f"cores of ranks {list(ranks)} do not divide evenly over {workgroups} x {lanes} lanes"
        )
    b = Builder("chain", workgroup=lanes, grid=workgroups)
    acc = b.buffer("acc", dtype, ranks[0], "read", 0)
    first, *later = chain_steps(b, ranks, dtype, separate)
    out = b.buffer("out", dtype, ranks[-1], "write", len(b.program.buffers), live_out=True)
    kind, widest = zero(b, dtype).type, max(ranks)
    b.buffer("line", kind, 2 * widest, "read_write")
    b.buffer("partials", kind, lanes // SUBGROUP * (widest // workgroups), "workgroup")
    # The first step reads @acc, not @line, so it is not part of a loop.
    step = _SpreadStep(b, dtype, first)
    step.share(step.multiply(step.load(b.const(0)), acc, b.const(0)), widest)
    done = 1
    if first.times > 1:
        later = [replace(first, start=first.size, times=first.times - 1), *later]
    for steps in later:
        _SpreadStep(b, dtype, steps).repeat(steps.times, done, widest)
        done += steps.times
    b.barrier("grid")
    with b.for_(b.global_id("x"), ranks[-1], workgroups * lanes) as loop:
        total = b.load("line", b.add(loop.index, done % 2 * widest))
        b.store(stored(b, total, dtype), out, loop.index)
    return b.finish(verify=False)


class _SpreadStep:
    """Emits steps with cores of one shape."""

    def __init__(self, b: Builder, dtype: DataType, steps: ChainSteps) -> None:
        self.b, self.dtype, self.cores, self.start = b, dtype, steps.buffer, steps.start
        self.columns, self.size, rows, columns = steps.columns, steps.size, steps.rows, steps.columns
        assert b.program.grid is not None  # build_spread fixes it
        self.own = columns // b.program.grid[0]
        self.vector = gcd(self.own, 4)
        self.across = self.own // self.vector
        self.each = rows // (b.program.lanes // self.across)
        self.lane = b.local_id("x")
        self.row = b.mul(b.div(self.lane, self.across), self.each)
        self.first = b.mul(b.workgroup_id("x"), self.own)
        self.column = b.add(self.first, b.mul(b.rem(self.lane, self.across), self.vector))

    def load(self, start: Value) -> list[Value]:
        """This lane's part of the core at `start`, a vector for each row."""
        b = self.b
        first = b.add(b.add(start, b.mul(self.row, self.columns)), self.column)
        rows = range(self.each)
        return [b.load(self.cores, offset(b, first, k * self.columns), lanes=self.vector) for k in rows]

    def multiply(self, cells: Sequence[Value], vector: Buffer | str, at: Value) -> Value:
        """This lane's sums for its columns; the vector's elements lie from `at` on."""
        b = self.b
        lanes = gcd(self.each, 4)
        place = b.add(at, self.row)
        total = zero(b, self.dtype, self.vector)
        for k in range(0, self.each, lanes):
            loaded = signed(b, b.load(vector, offset(b, place, k), lanes=lanes))
            for i in range(lanes):
                element = b.extract(loaded, i) if lanes > 1 else loaded
                total = multiply_add(b, element, signed(b, cells[k + i]), total)
        return total

    def share(self, total: Value, half: int | Value) -> None:
        """Store the sums of this workgroup's columns to the half of @line at `half`.  Executes a barrier."""
        b = self.b
        together = SUBGROUP // self.across  # lanes of a column in a subgroup
        shared = shared_sums(b, elements(b, total), b.div(b.lane_id(), self.across), together, self.across)
        mine = b.add(b.mul(b.rem(b.lane_id(), self.across), self.vector), shared.first)
        with b.if_(shared.writes):
            for k, value in enumerate(shared.values):
                place = b.add(b.mul(b.subgroup_id(), self.own), mine)
                b.store(value, "partials", offset(b, place, k))
        b.barrier("workgroup")
        with b.for_(self.lane, self.own, b.program.lanes) as loop:
            whole = b.load("partials", loop.index)
            for subgroup in range(1, b.program.lanes // SUBGROUP):
                whole = b.add(whole, b.load("partials", b.add(loop.index, subgroup * self.own)))
            b.store(whole, "line", b.add(b.add(self.first, loop.index), half))

    def repeat(self, times: int, done: int, widest: int) -> None:
        """Emit `times` steps as a loop, after `done` earlier ones."""
        b = self.b
        cells = self.load(b.const(self.start))
        with b.for_(0, times, carry=cells) as loop:
            b.barrier("grid")
            turn = b.and_(b.add(loop.index, done), 1)
            before = b.mul(turn, widest)
            total = self.multiply(loop.args, "line", before)
            # loaded before the sums are exchanged; the barrier of the next turn hides the wait
            following = b.min(b.add(loop.index, 1), times - 1)
            fetched = self.load(b.add(b.mul(following, self.size), self.start))
            self.share(total, b.sub(widest, before))
            loop.yield_(*fetched)
