"""The places where one of many literals may begin, by a look at every few bytes: the program `pattern_grams`.

Four bytes are a gram.  Where the shortest literal has m bytes, each literal that begins in `stride` = m - 3 positions in a row
has one of its first `stride` grams at the last of these positions, so one look in `stride` bytes is enough.  A bitmap has a bit
for each such gram.  Where that is set, the first m bytes from each of these positions on, up to PREFIX of them, are looked up in
another bitmap, and a position whose bit is set there is a start, from which `start_walk` walks:

    literals of 6 bytes or more     needle: need, eedl, edle        stride 3
    data                            . . n e e d l e . .
    looks                           ^     ^     ^                   the second finds eedl
    prefixes                          ^ ^ ^                         the first is needle: a start

It is what Wu and Manber do with blocks (S. Wu, U. Manber, "A Fast Algorithm for Multi-pattern Searching", 1994), with steps
of one length.

A workgroup of one subgroup searches a piece.  Its lanes look at neighbouring grams, and write where a bit is set to a list.  Then each
takes one place of the list at a time, so that no branch depends on a single place.

    @data    u8[?]
    @begins  u32[n]            the position of the first byte of each piece
    @reports u32[2n]           of each piece, at an odd index, the position behind the last byte
    @bitmap  u32[2 * 2^k]      the bitmap of grams, then that of prefixes.  Of gram * MULTIPLIER, and of the high half of
                               prefix * PREFIX_MULTIPLIER, the k high bits are the number of the word, the five behind them
                               that of the bit
    @places  u32[n * capacity] where a bit of a gram is set, of each piece from a multiple of `capacity` on
    @starts  u32[n * capacity] starts in the same way, in increasing order
    @counts  u32[n]            the number of starts of each piece
    @rests   u32[n]            the first position of each piece that is no start only because nothing has looked there

`capacity`: bytes of a piece or more.  `shift`: 27 - k.  `mask`: the bits of a prefix.  `fold`: what is or-ed to a gram, so that cases
are alike, or 0.
"""

from __future__ import annotations

from functools import cache

from vyre_opt.ir.builder import Builder
from vyre_opt.ir.ops import SUBGROUP_SIZE
from vyre_opt.ir.program import Program, Value
from vyre_opt.ir.types import DataType

__all__ = ["GRAM", "MULTIPLIER", "pattern_grams"]

GRAM = 4
MULTIPLIER = 0x9E3779B1
"""2^32 over the golden ratio, next to an odd number: D. Knuth, The Art of Computer Programming 3, section 6.4."""
PREFIX = 8
PREFIX_MULTIPLIER = 0x9E3779B97F4A7C15
"""The same for 2^64."""

U8, U32, U64 = DataType.U8, DataType.U32, DataType.U64


@cache
def pattern_grams() -> Program:
    """The program; each call returns the same, which must not be changed."""
    b = Builder("pattern_grams", workgroup=SUBGROUP_SIZE)
    data = b.buffer("data", U8, None, "read", 0)
    begins = b.buffer("begins", U32, None, "read", 1)
    reports = b.buffer("reports", U32, None, "read", 2)
    bitmap = b.buffer("bitmap", U32, None, "read", 3)
    places = b.buffer("places", U32, None, "read_write", 4)
    starts = b.buffer("starts", U32, None, "write", 5, live_out=True)
    counts = b.buffer("counts", U32, None, "write", 6, live_out=True)
    rests = b.buffer("rests", U32, None, "write", 7, live_out=True)
    capacity, stride, shift = (b.param(name, U32) for name in ("capacity", "stride", "shift"))
    fold, mask = b.param("fold", U32), b.param("mask", U64)

    piece, lane = b.workgroup_id("x"), b.local_id("x")
    begin, end = b.load(begins, piece), b.load(reports, b.add(b.mul(piece, 2), 1))
    first, back = b.mul(piece, capacity), b.sub(stride, 1)
    words = b.shl(1, b.sub(27, shift))
    wide_fold = b.or_(b.shl(b.cast(fold, U64), 32), b.cast(fold, U64))

    def bit(hash: Value, first_word: Value | int) -> Value:
        number = b.shr(hash, shift)
        return b.and_(b.shr(b.load(bitmap, b.add(b.shr(number, 5), first_word)), b.and_(number, 31)), 1)

    def gram_bit(position: Value) -> Value:
        gram = b.or_(b.bitcast(b.load(data, position, GRAM), U32), fold)
        return bit(b.mul(gram, MULTIPLIER), 0)

    def prefix_bit(position: Value) -> Value:
        octets = b.bitcast(b.load(data, position, PREFIX), U64)
        product = b.mul(b.and_(b.or_(octets, wide_fold), mask), PREFIX_MULTIPLIER)
        return bit(b.cast(b.shr(product, 32), U32), words)

    step, offset = b.mul(stride, SUBGROUP_SIZE), b.mul(lane, stride)
    below = b.sub(b.shl(1, lane), 1)
    reach = b.add(b.mul(stride, SUBGROUP_SIZE - 1), PREFIX)
    with b.while_([b.add(begin, back), b.const(0)]) as looks:
        looks.condition(b.le(b.add(looks.args[0], reach), end))
        at, count = looks.args
        position = b.add(at, offset)
        is_set = b.ne(gram_bit(position), 0)
        lanes = b.subgroup_ballot(is_set)
        with b.if_(b.ne(lanes, 0)) as some:
            with b.if_(is_set):
                b.store(position, places, b.add(b.add(first, count), b.popcount(b.and_(lanes, below))))
            some.yield_(b.add(count, b.popcount(lanes)))
        with some.else_():
            some.yield_(count)
        looks.yield_(b.add(at, step), *some.results)
    rest, count = looks.results
    b.barrier("workgroup")

    with b.while_([b.const(0), b.const(0)]) as batches:
        batches.condition(b.lt(batches.args[0], count))
        number, num_starts = b.add(batches.args[0], lane), batches.args[1]
        # lanes behind the last place look at that again
        position = b.sub(b.load(places, b.add(first, b.min(number, b.sub(count, 1)))), back)
        with b.for_(0, stride, carry=[b.const(0)]) as prefixes:
            found = prefix_bit(b.add(position, prefixes.index))
            prefixes.yield_(b.or_(prefixes.args[0], b.shl(found, prefixes.index)))
        found = b.select(b.lt(number, count), prefixes.result, 0)
        own = b.popcount(found)
        slot = b.add(b.add(first, num_starts), b.subgroup_scan(own, "exclusive", "add"))
        with b.while_([found, slot]) as rest_of_bits:
            rest_of_bits.condition(b.ne(rest_of_bits.args[0], 0))
            left, slot = rest_of_bits.args
            b.store(b.add(position, b.ctz(left)), starts, slot)
            rest_of_bits.yield_(b.and_(left, b.sub(left, 1)), b.add(slot, 1))
        batches.yield_(
            b.add(batches.args[0], SUBGROUP_SIZE), b.add(num_starts, b.subgroup_reduce(own, "add"))
        )
    with b.if_(b.eq(lane, 0)):
        b.store(batches.results[1], counts, piece)
        b.store(b.sub(rest, back), rests, piece)
    return b.finish()
