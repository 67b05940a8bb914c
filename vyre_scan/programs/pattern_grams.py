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

A workgroup of one subgroup searches a piece, in three steps, in none of which a branch depends on a single place:

    look       32 grams at a time; which lanes have found a bit is a word of a list
    spread     each lane takes one word of this list, and writes the places in it to the next list
    compare    each lane takes one place, and looks up prefixes

    @data    u8[?]
    @begins  u32[n]            the position of the first byte of each piece
    @reports u32[2n]           of each piece, at an odd index, the position behind the last byte
    @bitmap  u32[2 * 2^k]      the bitmap of grams, then that of prefixes.  Of gram * MULTIPLIER, and of the high half of
                               prefix * PREFIX_MULTIPLIER, the k high bits are the number of the word, the five behind them
                               that of the bit
    @blocks  u64[n * capacity / 32]  where lanes have found a bit: position of the first lane << 32 | a bit for each lane
    @places  u32[n * capacity] where a bit of a gram is set, of each piece from a multiple of `capacity` on
    @starts  u32[n * capacity] starts in the same way, in increasing order
    @counts  u32[n]            the number of starts of each piece
    @rests   u32[n]            the first position of each piece that is no start only because nothing has looked there

`capacity`: a multiple of 32, the bytes of a piece or more.  `shift`: 27 - k.  `mask`: the bits of a prefix.  `fold`: bits that
are set in each gram, so that cases are alike, or 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from vyre_opt.ir.builder import Builder
from vyre_opt.ir.ops import SUBGROUP_SIZE
from vyre_opt.ir.program import Buffer, Program, Value
from vyre_opt.ir.types import DataType
from vyre_opt.records import dataclass

__all__ = ["GRAM", "MULTIPLIER", "pattern_grams"]

GRAM = 4
MULTIPLIER = 0x9E3779B1
"""2^32 over the golden ratio, next to an odd number: D. Knuth, The Art of Computer Programming 3, section 6.4."""
PREFIX = 8
PREFIX_MULTIPLIER = 0x9E3779B97F4A7C15
"""The same for 2^64."""

U8, U32, U64 = DataType.U8, DataType.U32, DataType.U64


@cache
def pattern_grams(stride: int) -> Program:
    """The program for a stride; each call returns the same, which must not be changed."""
    b = Builder("pattern_grams", workgroup=SUBGROUP_SIZE)
    bitmaps, back = _Bitmaps(b), stride - 1
    begins = b.buffer("begins", U32, None, "read", 1)
    reports = b.buffer("reports", U32, None, "read", 2)
    blocks = b.buffer("blocks", U64, None, "read_write", 4)
    places = b.buffer("places", U32, None, "read_write", 5)
    starts = b.buffer("starts", U32, None, "write", 6, live_out=True)
    counts = b.buffer("counts", U32, None, "write", 7, live_out=True)
    rests = b.buffer("rests", U32, None, "write", 8, live_out=True)

    piece, lane = b.workgroup_id("x"), b.local_id("x")
    begin, end = b.load(begins, piece), b.load(reports, b.add(b.mul(piece, 2), 1))
    lists = _Lists(b, lane, b.mul(piece, b.param("capacity", U32)))
    first_block, reach = b.shr(lists.first, 5), stride * (SUBGROUP_SIZE - 1) + PREFIX
    offset, is_first = b.mul(lane, stride), b.eq(lane, 0)

    def places_of(block: Value) -> Spread:
        at = b.cast(b.shr(block, 32), U32)
        return b.cast(block, U32), lambda bit: b.add(at, b.mul(bit, stride))

    def starts_of(place: Value) -> Spread:
        position: Value = b.sub(place, back)
        bits: Value = b.const(0)
        for k in range(stride):
            bits = b.or_(bits, b.shl(bitmaps.prefix_bit(b.add(position, k)), k))
        return bits, lambda bit: b.add(position, bit)

    with b.while_([b.add(begin, back), b.const(0)]) as looks:
        looks.condition(b.le(b.add(looks.args[0], reach), end))
        at, count = looks.args
        lanes = b.subgroup_ballot(b.ne(bitmaps.gram_bit(b.add(at, offset)), 0))
        with b.if_(is_first):
            b.store(b.or_(b.shl(b.cast(at, U64), 32), b.cast(lanes, U64)), blocks, b.add(first_block, count))
        looks.yield_(b.add(at, stride * SUBGROUP_SIZE), b.add(count, b.min(lanes, 1)))
    rest, num_blocks = looks.results
    b.barrier("workgroup")
    num_places = lists.spread_all(blocks, first_block, num_blocks, places_of, places)
    b.barrier("workgroup")
    num_starts = lists.spread_all(places, lists.first, num_places, starts_of, starts)
    with b.if_(is_first):
        b.store(num_starts, counts, piece)
        b.store(b.sub(rest, back), rests, piece)
    return b.finish()


class _Bitmaps:
    """@data and @bitmap, with the params of look-ups."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.data = b.buffer("data", U8, None, "read", 0)
        self.bitmap = b.buffer("bitmap", U32, None, "read", 3)
        self.shift, self.fold, self.mask = b.param("shift", U32), b.param("fold", U32), b.param("mask", U64)
        self.words = b.shl(1, b.sub(27, self.shift))
        self.wide_fold = b.or_(b.shl(b.cast(self.fold, U64), 32), b.cast(self.fold, U64))

    def gram_bit(self, position: Value) -> Value:
        b = self.b
        gram = b.or_(b.bitcast(b.load(self.data, position, GRAM), U32), self.fold)
        return self._bit(b.mul(gram, MULTIPLIER), 0)

    def prefix_bit(self, position: Value) -> Value:
        b = self.b
        octets = b.bitcast(b.load(self.data, position, PREFIX), U64)
        product = b.mul(b.and_(b.or_(octets, self.wide_fold), self.mask), PREFIX_MULTIPLIER)
        return self._bit(b.cast(b.shr(product, 32), U32), self.words)

    def _bit(self, hash: Value, first_word: Value | int) -> Value:
        b, number = self.b, self.b.shr(hash, self.shift)
        word = b.load(self.bitmap, b.add(b.shr(number, 5), first_word))
        return b.and_(b.shr(word, b.and_(number, 31)), 1)


Spread = tuple[Value, Callable[[Value], Value]]
"""The bits that an element of a list stands for, and what gives the position of each."""


@dataclass
class _Lists:
    """Lists that the lanes of a subgroup read and write together, those of positions from element `first` on."""

    b: Builder
    lane: Value
    first: Value

    def spread_all(
        self, source: Buffer, first: Value, length: Value, spread_of: Callable[[Value], Spread], to: Buffer
    ) -> Value:
        """Write to a list the positions that the elements of another one stand for, an element a lane; gives how many there are."""
        b = self.b
        with b.while_([b.const(0), b.const(0)]) as batches:
            batches.condition(b.lt(batches.args[0], length))
            at, count = batches.args
            number = b.add(at, self.lane)
            # lanes behind the last element look at that again, for nothing
            bits, position_of = spread_of(b.load(source, b.add(first, b.min(number, b.sub(length, 1)))))
            bits = b.select(b.lt(number, length), bits, 0)
            batches.yield_(b.add(at, SUBGROUP_SIZE), self._append(bits, position_of, count, to))
        return batches.results[1]

    def _append(self, bits: Value, position_of: Callable[[Value], Value], count: Value, to: Buffer) -> Value:
        """Append the positions of all bits of all lanes to a list of `count`; gives how many it has then."""
        b, own = self.b, self.b.popcount(bits)
        slot: Value = b.add(b.add(self.first, count), b.subgroup_scan(own, "exclusive", "add"))
        with b.while_([bits, slot]) as each:
            each.condition(b.ne(each.args[0], 0))
            rest, slot = each.args
            b.store(position_of(b.ctz(rest)), to, slot)
            each.yield_(b.and_(rest, b.sub(rest, 1)), b.add(slot, 1))
        return b.add(count, b.subgroup_reduce(own, "add"))
