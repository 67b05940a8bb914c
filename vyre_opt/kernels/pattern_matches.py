"""The columns of matches whose length is known by their pattern: the program `match_columns`.

    @hits      u64[n]  see pattern_walk
    @patterns  u32[?]  the pattern that each accepting state shows
    @lengths   u32[?]  the bytes of each pattern
    @starts    u64[n]
    @ends      u64[n]
    @numbers   u32[n]  of the patterns

`base`: what is added to the place of a hit's last byte for the end of its match.
"""

from __future__ import annotations

from functools import cache

from ..ir.builder import Builder
from ..ir.program import Program
from ..ir.types import DataType

__all__ = ["INVOCATIONS", "match_columns"]

INVOCATIONS = 256
"""Of a workgroup."""

U32, U64 = DataType.U32, DataType.U64


@cache
def match_columns() -> Program:
    """The program; each call returns the same, which must not be changed."""
    b = Builder("match_columns", workgroup=INVOCATIONS)
    hits = b.buffer("hits", U64, None, "read", 0)
    patterns = b.buffer("patterns", U32, None, "read", 1)
    lengths = b.buffer("lengths", U32, None, "read", 2)
    starts = b.buffer("starts", U64, None, "write", 3, live_out=True)
    ends = b.buffer("ends", U64, None, "write", 4, live_out=True)
    numbers = b.buffer("numbers", U32, None, "write", 5, live_out=True)
    base = b.param("base", U64)
    own = b.global_id("x")
    with b.if_(b.lt(own, b.len(hits))):
        hit = b.load(hits, own)
        number = b.load(patterns, b.cast(hit, U32))
        end = b.add(b.shr(hit, 32), base)
        b.store(number, numbers, own)
        b.store(end, ends, own)
        b.store(b.sub(end, b.cast(b.load(lengths, number), U64)), starts, own)
    return b.finish()
