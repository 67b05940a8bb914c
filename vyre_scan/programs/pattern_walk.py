"""The walk of an automaton over bytes, in pieces: the program `pattern_walk`.

Each workgroup walks CHAINS pieces at once, byte by byte: a step waits for the load of the step before, and meanwhile the
others' steps are made.  All pieces of a launch have the same length, and begin in state 0.

    @data         u8[?]
    @columns      u32[256]  the column of each byte in a row of the table
    @transitions  u32[?]    a row for each state: by columns the cells where the rows of the next states begin, and its depth
    @begins       u32[n]    the position of the first byte of each piece
    @reports      u32[2n]   of each piece the positions of the first byte whose hits are reported and behind the last one
    @counts       u32[n]    the hits of each piece, added to what is there
    @hits         u64[?]    position << 32 | number of the accepting state, from 0; of a piece in the order of positions, from
                            the index on that is the position of its first byte whose hits are reported

`first_accepting`: the lowest cell of the row of an accepting state.  `classes`: cells of a row without the depth.
`words`: a quarter of the bytes of a piece.
"""

from __future__ import annotations

from functools import cache

from vyre_opt.ir.builder import Builder
from vyre_opt.ir.program import Program, Value
from vyre_opt.ir.types import DataType

__all__ = ["CHAINS", "HitReport", "TransitionTable", "pattern_walk"]

CHAINS = 4
"""Pieces that a workgroup walks at once: what more need does not fit into the registers of x86."""

U8, U32, U64 = DataType.U8, DataType.U32, DataType.U64


@cache
def pattern_walk() -> Program:
    """The program; each call returns the same, which must not be changed."""
    b = Builder("pattern_walk", workgroup=1)
    table = TransitionTable(b)
    begins = b.buffer("begins", U32, None, "read", 3)
    report = HitReport(b, 4)
    first_accepting, words = report.first_accepting, b.param("words", U32)
    first = b.mul(b.workgroup_id("x"), CHAINS)
    pieces = [b.add(first, chain) for chain in range(CHAINS)]
    begin = [b.load(begins, piece) for piece in pieces]

    def step(state: Value, word: Value, byte: Value | int) -> Value:
        shift = b.mul(byte, 8) if isinstance(byte, Value) else 8 * byte
        return table.after(state, b.and_(b.shr(word, shift), 255))

    with b.for_(0, words, carry=[b.const(0)] * CHAINS) as loop:
        states: list[Value] = list(loop.args)
        for chain, piece in enumerate(pieces):
            position = b.add(begin[chain], b.mul(loop.index, 4))
            word = b.bitcast(b.load(table.data, position, 4), U32)
            before = state = highest = states[chain]
            for byte in range(4):
                state = step(state, word, byte)
                highest = b.max(highest, state) if byte else state
            states[chain] = state
            # Rarely: the four steps again, each with a look at its state
            with b.if_(b.ge(highest, first_accepting)), b.for_(0, 4, carry=[before]) as again:
                state = step(again.args[0], word, again.index)
                with b.if_(b.ge(state, first_accepting)):
                    report.add(piece, b.add(position, again.index), state)
                again.yield_(state)
        loop.yield_(*states)
    return b.finish()


class TransitionTable:
    """The buffers @data, @columns and @transitions, bound from 0 on, and steps by them."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.data = b.buffer("data", U8, None, "read", 0)
        self.columns = b.buffer("columns", U32, 256, "read", 1)
        self.transitions = b.buffer("transitions", U32, None, "read", 2)

    def after(self, state: Value, byte: Value) -> Value:
        """The state after a byte, a u32."""
        b = self.b
        return b.load(self.transitions, b.add(state, b.load(self.columns, byte)))


class HitReport:
    """The buffers @reports, @counts and @hits, bound from `binding` on, the params, and what writes to them.

    How many hits a piece has is kept in memory: a walk needs the registers.
    """

    def __init__(self, b: Builder, binding: int) -> None:
        self.b = b
        self.reports = b.buffer("reports", U32, None, "read", binding)
        self.counts = b.buffer("counts", U32, None, "read_write", binding + 1, live_in=True, live_out=True)
        self.hits = b.buffer("hits", U64, None, "write", binding + 2, live_out=True)
        self.first_accepting, self.classes = b.param("first_accepting", U32), b.param("classes", U32)

    def add(self, piece: Value, position: Value, state: Value) -> None:
        """Report that the automaton is in an accepting state after the byte at `position`."""
        b = self.b
        bounds = b.load(self.reports, b.mul(piece, 2), 2)
        begin, end = b.extract(bounds, 0), b.extract(bounds, 1)
        with b.if_(b.and_(b.ge(position, begin), b.lt(position, end))):
            count = b.load(self.counts, piece)
            number = b.div(b.sub(state, self.first_accepting), b.add(self.classes, 1))
            hit = b.or_(b.shl(b.cast(position, U64), 32), b.cast(number, U64))
            b.store(hit, self.hits, b.add(begin, count))
            b.store(b.add(count, 1), self.counts, piece)
