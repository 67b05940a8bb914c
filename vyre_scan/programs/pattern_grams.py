"""A search for many literals that looks at every few bytes, four at a time: the program `pattern_grams`.

Four bytes are a gram.  Where the shortest literal has m bytes, each literal that begins in `stride` = m - 3 positions in a row
has one of its first `stride` grams at the last of these positions, so one look in `stride` bytes is enough.  A bitmap has two bits
for each such gram; where both are set, the automaton walks from the first position at which a literal with that gram may begin
until no match is under way:

    literals of 6 bytes or more     needle: need, eedl, edle        stride 3
    data                            . . n e e d l e . .
    looks                           ^     ^     ^                   the second finds eedl: walk from two bytes before

It is what Wu and Manber do with blocks (S. Wu, U. Manber, "A Fast Algorithm for Multi-pattern Searching", 1994), with steps
of one length.

A workgroup searches one piece.  Buffers are those of pattern_filter, with

    @bitmap  u32[2^k]  in the place of @filter.  Of gram * MULTIPLIER the k high bits are the number of the gram's word, twice
                       five bits behind them those of its bits

`shift`: 32 - k.  `fold`: what is or-ed to a gram, so that cases are alike, or 0.
"""

from __future__ import annotations

from functools import cache

from vyre_opt.ir.builder import Builder
from vyre_opt.ir.program import Program, Value
from vyre_opt.ir.types import DataType

from .pattern_filter import CandidateWalk

__all__ = ["GRAM", "MULTIPLIER", "pattern_grams"]

GRAM = 4
MULTIPLIER = 0x9E3779B1
"""2^32 over the golden ratio, next to an odd number: D. Knuth, The Art of Computer Programming 3, section 6.4."""
LOOKS = 4
"""Grams that are looked at before a branch."""

U32 = DataType.U32


@cache
def pattern_grams() -> Program:
    """The program; each call returns the same, which must not be changed."""
    b = Builder("pattern_grams", workgroup=1)
    walk = CandidateWalk(b)
    bitmap = b.buffer("bitmap", U32, None, "read", walk.binding)
    stride, shift, fold = b.param("stride", U32), b.param("shift", U32), b.param("fold", U32)
    back = b.sub(stride, 1)

    def is_set(position: Value) -> Value:
        gram = b.or_(b.bitcast(b.load(walk.table.data, position, GRAM), U32), fold)
        product = b.mul(gram, MULTIPLIER)
        word = b.load(bitmap, b.shr(product, shift))
        one, other = (b.and_(b.shr(product, b.sub(shift, back)), 31) for back in (5, 10))
        return b.and_(b.and_(b.shr(word, one), b.shr(word, other)), 1)

    reach = b.add(b.mul(stride, LOOKS - 1), GRAM)
    with b.while_([walk.begin, walk.begin, b.const(0)]) as loop:
        loop.condition(b.le(b.add(loop.args[0], reach), walk.end))
        at, lowest, walks = loop.args
        found: Value = is_set(at)
        for look in range(1, LOOKS):
            found = b.or_(found, b.shl(is_set(b.add(at, b.mul(stride, look))), look))
        with b.if_(b.ne(found, 0)) as some:
            position = b.add(at, b.mul(stride, b.ctz(found)))
            start = b.max(lowest, b.sub(position, b.min(position, back)))
            behind = walk.until_idle(start, position)
            some.yield_(b.add(behind, back), behind, b.add(walks, 1))
        with some.else_():
            some.yield_(b.add(at, b.mul(stride, LOOKS)), lowest, walks)
        loop.yield_(*some.results)
    at, lowest, walks = loop.results
    walk.finish(b.max(lowest, b.sub(at, b.min(at, back))), walks)
    return b.finish()
