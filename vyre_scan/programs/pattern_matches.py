"""The columns of matches whose length is known by their pattern: the program `match_columns`.

    @hits      u64[n]  see pattern_walk
    @patterns  u32[?]  the patterns that each accepting state shows, one state's after the other's
    @lengths   u32[?]  the bytes of each pattern
    @starts    u64[m]
    @ends      u64[m]
    @numbers   u32[m]  of the patterns

`base`: what is added to the position of a hit's last byte for the end of its matches.  Each state shows one pattern, unless the
program has two buffers more:

    @offsets   u32[?]  where the patterns of each state begin, and where the last end
    @slots     u64[n]  where the matches of each hit go
"""

from __future__ import annotations

from functools import cache

from vyre_opt.ir.builder import Builder
from vyre_opt.ir.program import Program, Value
from vyre_opt.ir.types import DataType

__all__ = ["INVOCATIONS", "match_columns"]

INVOCATIONS = 256
"""Lanes of a workgroup."""

U32, U64 = DataType.U32, DataType.U64


@cache
def match_columns(several: bool = False) -> Program:
    """The program, for states that show one pattern each, or several; each call returns the same, which must not be changed."""
    b = Builder("match_columns", workgroup=INVOCATIONS)
    hits = b.buffer("hits", U64, None, "read", 0)
    patterns = b.buffer("patterns", U32, None, "read", 1)
    lengths = b.buffer("lengths", U32, None, "read", 2)
    starts = b.buffer("starts", U64, None, "write", 3, live_out=True)
    ends = b.buffer("ends", U64, None, "write", 4, live_out=True)
    numbers = b.buffer("numbers", U32, None, "write", 5, live_out=True)
    base = b.param("base", U64)
    invocation = b.global_id("x")

    def store(end: Value, shown: Value, slot: Value) -> None:
        number = b.load(patterns, shown)
        b.store(number, numbers, slot)
        b.store(end, ends, slot)
        b.store(b.sub(end, b.cast(b.load(lengths, number), U64)), starts, slot)

    if several:
        offsets = b.buffer("offsets", U32, None, "read", 6)
        slots = b.buffer("slots", U64, None, "read", 7)
    with b.if_(b.lt(invocation, b.len(hits))):
        hit = b.load(hits, invocation)
        end, state = b.add(b.shr(hit, 32), base), b.cast(hit, U32)
        if several:
            first, slot = b.load(offsets, state), b.load(slots, invocation)
            with b.for_(0, b.sub(b.load(offsets, b.add(state, 1)), first)) as loop:
                store(end, b.add(first, loop.index), b.add(slot, b.cast(loop.index, U64)))
        else:
            store(end, state, invocation)
    return b.finish()
