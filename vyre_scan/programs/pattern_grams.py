"""A search for many literals that looks at every few bytes, four at a time: the program `pattern_grams`.

Four bytes are a gram.  Where the shortest literal has m bytes, each literal that begins in `stride` = m - 3 positions in a row
has one of its first `stride` grams at the last of these positions, so one look in `stride` bytes is enough.  A bitmap has a bit
for each such gram.  Where that is set, the first m bytes from each of these positions on, up to PREFIX of them, are looked up in
another bitmap, and from the first position whose bit is set there the automaton walks while a literal that begins there may be
completed:

    literals of 6 bytes or more     needle: need, eedl, edle        stride 3
    data                            . . n e e d l e . .
    looks                           ^     ^     ^                   the second finds eedl
    prefixes                          ^ ^ ^                         the first is needle: walk

It is what Wu and Manber do with blocks (S. Wu, U. Manber, "A Fast Algorithm for Multi-pattern Searching", 1994), with steps
of one length.

A workgroup searches one piece.  Buffers are those of pattern_filter, with

    @bitmap  u32[2 * 2^k]  in the place of @filter: the bitmap of grams, then that of prefixes.  Of gram * MULTIPLIER, and of the
                           high half of prefix * PREFIX_MULTIPLIER, the k high bits are the number of the word, the five behind
                           them that of the bit
    @walks   u32[n]        ONE_WALK for each walk, 1 for a gram without one

`shift`: 27 - k.  `mask`: the bits of a prefix.  `fold`: what is or-ed to a gram, so that cases are alike, or 0.
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
PREFIX = 8
PREFIX_MULTIPLIER = 0x9E3779B97F4A7C15
"""The same for 2^64."""
ONE_WALK = 8
LOOKS = 4
"""Grams that are looked at before a branch."""

U32, U64 = DataType.U32, DataType.U64


@cache
def pattern_grams() -> Program:
    """The program; each call returns the same, which must not be changed."""
    b = Builder("pattern_grams", workgroup=1)
    walk = CandidateWalk(b)
    bitmap = b.buffer("bitmap", U32, None, "read", walk.binding)
    stride, shift, fold = b.param("stride", U32), b.param("shift", U32), b.param("fold", U32)
    mask = b.param("mask", U64)
    back = b.sub(stride, 1)
    words = b.shl(1, b.sub(27, shift))
    wide_fold = b.or_(b.shl(b.cast(fold, U64), 32), b.cast(fold, U64))

    def bit(hash: Value, first_word: Value | int) -> Value:
        number = b.shr(hash, shift)
        return b.shr(b.load(bitmap, b.add(b.shr(number, 5), first_word)), b.and_(number, 31))

    def gram_is_set(position: Value) -> Value:
        gram = b.or_(b.bitcast(b.load(walk.table.data, position, GRAM), U32), fold)
        return b.and_(bit(b.mul(gram, MULTIPLIER), 0), 1)

    def prefix_is_set(position: Value) -> Value:
        octets = b.bitcast(b.load(walk.table.data, position, PREFIX), U64)
        product = b.mul(b.and_(b.or_(octets, wide_fold), mask), PREFIX_MULTIPLIER)
        return b.and_(bit(b.cast(b.shr(product, 32), U32), words), 1)

    reach = b.add(b.mul(stride, LOOKS - 1), PREFIX)
    with b.while_([walk.begin, walk.begin, b.const(0)]) as loop:
        loop.condition(b.le(b.add(loop.args[0], reach), walk.end))
        at, shown, walks = loop.args
        found: Value = gram_is_set(at)
        for look in range(1, LOOKS):
            found = b.or_(found, b.shl(gram_is_set(b.add(at, b.mul(stride, look))), look))
        with b.if_(b.ne(found, 0)) as some:
            position = b.add(at, b.mul(stride, b.ctz(found)))
            with b.while_([b.sub(position, b.min(position, back)), b.const(0)]) as starts:
                starts.condition(b.and_(b.le(starts.args[0], position), b.eq(starts.args[1], 0)))
                starts.yield_(b.add(starts.args[0], 1), prefix_is_set(starts.args[0]))
            behind, is_set = starts.results
            with b.if_(b.ne(is_set, 0)) as one:
                alive, reported = walk.through(b.sub(behind, 1), b.sub(behind, 1), shown)
                one.yield_(alive, reported, b.add(walks, ONE_WALK))
            with one.else_():
                one.yield_(behind, shown, b.add(walks, 1))
            alive, reported, walked = one.results
            some.yield_(b.add(alive, back), reported, walked)
        with some.else_():
            some.yield_(b.add(at, b.mul(stride, LOOKS)), shown, walks)
        loop.yield_(*some.results)
    at, shown, walks = loop.results
    walk.finish(b.sub(at, b.min(at, back)), shown, walks)
    return b.finish()
