"""A search in text that a GPU decodes tile by tile into workgroup memory, every character checked: the programs `tiled_walk`
and `tiled_grams`.

A workgroup does tile after tile: it decodes the tile, and a halo of bytes after it, into a slab, and finds what begins in the
tile.  `tiled_walk` walks the automaton through all of it (see chunk_walk).  `tiled_grams` is for literals of four bytes and
more: like pattern_grams it looks up four bytes at every `stride`-th position in a bitmap, which is in workgroup memory, and walks
only from where a literal may begin, for as long as such a literal may still be completed.

    stride     1        2        4           8
    looks at   0 1 2 3  . 1 . 3  . . . 3     . . . . . . . 7     bytes of one or two words

Buffers of both:

    @text      u8[?]    whole groups of characters that all hold bits, or bytes
    @hits      u64[?]   position << 32 | number of the accepting state, from 0; in no order
    @counters  u32[2]   hits, those too for which @hits has no room; 0xFFFFFFFF less the position of the first wrong character.
                        Both are 0 before
    @values    u8[256]  the value of each character, more than 127 for one that holds no bits; not for bytes

`start`, `count`: hits are reported from a position on, and below another, which is the number of decoded bytes.  One position may
be reported several times, by walks from different positions: of its states the one that shows the most counts.

    tiled_walk   @table        u16 or u32, the next state at state * 256 + byte
                 @depth        u16, of each state
                 `first_accepting`: the lowest accepting state

    tiled_grams  @bitmap       u32[`bitmap_words`], see pattern_grams
                 @columns      u32[256], the column of each byte in a row
                 @rows         u32, for each state the cells at which the rows of the next states begin, and its depth
                 `classes`: cells of a row without the depth.  `first_accepting`: the first cell of such a row.  `fold`: bits
                 that are set in each four bytes, so that cases are alike, or 0

The automaton begins in state 0 everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, reduce

from vyre_opt.ir.builder import Builder
from vyre_opt.ir.program import Buffer, Program, Value
from vyre_opt.ir.types import DataType
from vyre_opt.kernels.collective import SUBGROUP, claimed_slots, elements, offset
from vyre_opt.kernels.tiles import each_tile, tiles_of

from .chunk_walk import ChunkWalk
from .pattern_grams import GRAM, MULTIPLIER
from .text_units import CHARACTERS, ENCODINGS, fill_slab, values_by_table

__all__ = ["STRIDES", "GramSchedule", "WalkSchedule", "tiled_grams", "tiled_walk"]

U8, U16, U32, U64 = DataType.U8, DataType.U16, DataType.U32, DataType.U64
NO_BITS = 0x80808080
STRIDES = (1, 2, 4, 8)


@dataclass(frozen=True)
class WalkSchedule:
    """Schedule of `tiled_walk`.  `lanes`: of a workgroup.  `chunk`: bytes of a lane, an odd number of words, so that the lanes
    of a subgroup read different banks."""

    lanes: int = 256
    chunk: int = 60

    @property
    def tile(self) -> int:
        return self.lanes * self.chunk


@dataclass(frozen=True)
class GramSchedule:
    """Schedule of `tiled_grams`.  `lanes`: of a workgroup.  `rounds`: words of a tile that each lane looks at, a multiple of
    `unroll`.  `bitmap_words`: of the bitmap, a power of two.  `unroll`: words before a branch, up to 8."""

    lanes: int = 512
    rounds: int = 12
    bitmap_words: int = 1 << 14
    unroll: int = 4

    @property
    def tile(self) -> int:
        return 4 * self.lanes * self.rounds


@lru_cache(maxsize=64)
def tiled_walk(
    encoding: str, warmup: int, schedule: WalkSchedule = WalkSchedule(), table_dtype: DataType = U16
) -> Program:
    """The program for automata that tell their state by `warmup` bytes; each call returns the same."""
    b = Builder("tiled_walk", workgroup=schedule.lanes)
    tiles = _Tiles(b, encoding, schedule.lanes, schedule.tile, warmup)
    table = b.buffer("table", table_dtype, None, "read", tiles.bindings)
    depth = b.buffer("depth", U16, None, "read", tiles.bindings + 1)
    first = b.param("first_accepting", U32)

    def report(position: Value, states: Sequence[Value], reports: Value) -> None:
        hits = [b.and_(reports, b.ge(state, first)) for state in states]
        tiles.report_all(position, [b.sub(state, first) for state in states], hits)

    walk = ChunkWalk(b, table, depth, tiles.slab, schedule.lanes, schedule.chunk, warmup, tiles.lane, report)
    walk.first = first
    with tiles.each() as tile:
        walk.through(tile, b.const(0), tiles.words)
    return b.finish()


@lru_cache(maxsize=64)
def tiled_grams(encoding: str, warmup: int, stride: int, schedule: GramSchedule = GramSchedule()) -> Program:
    """The program for literals of up to `warmup` + 1 bytes; each call returns the same."""
    b = Builder("tiled_grams", workgroup=schedule.lanes)
    tiles = _Tiles(b, encoding, schedule.lanes, schedule.tile, max(warmup, GRAM) + 1)
    grams = _Grams(b, tiles, stride, schedule)
    with tiles.each() as tile:
        grams.look(tile)
    return b.finish()


class _Tiles:
    """The buffers of both programs, and tiles of decoded bytes in a slab."""

    def __init__(self, b: Builder, encoding: str, lanes: int, tile: int, halo: int) -> None:
        self.b, self.codec, self.lanes, self.tile = b, ENCODINGS[encoding], lanes, tile
        if tile % self.codec.bytes:
            raise ValueError(f"a tile of whole units of {self.codec.bytes} bytes, not of {tile}")
        share = SUBGROUP * self.codec.bytes
        self.words = -(-(tile + halo) // share) * share // 4
        self.text = b.buffer("text", U8, None, "read", 0)
        self.hits = b.buffer("hits", U64, None, "write", 1, live_out=True)
        self.counters = b.buffer("counters", U32, 2, "read_write", 2, live_in=True, live_out=True)
        self.bindings = 3
        if self.codec.values is not None:
            self.values = b.buffer("values", U8, 256, "read", 3)
            self.bindings = 4
        self.start, self.count = b.param("start", U32), b.param("count", U32)
        self.slab = b.buffer("slab", U32, self.words, "workgroup")
        self.lane = b.local_id("x", name="lane")

    @contextmanager
    def each(self) -> Iterator[Value]:
        """Emits the body for each tile of the workgroup, whose bytes are in @slab."""
        b = self.b
        if self.codec.values is not None:
            self.near_values = self.near_copy(self.values, 256, 16, "near_values")
        b.barrier("workgroup")
        with each_tile(b, tiles_of(b, self.count, self.tile), strided=True) as tile:
            with b.region("decode"):
                self._fill(tile)
            b.barrier("workgroup")
            with b.region("search"):
                yield tile
            b.barrier("workgroup")

    def near_copy(self, table: Buffer, count: int, width: int, name: str) -> Buffer:
        """A copy of `count` elements of a table in workgroup memory, by vectors of `width`."""
        b, near = self.b, self.b.buffer(name, table.dtype, count, "workgroup")
        with b.for_(0, -(-count // (width * self.lanes))) as loop:
            at = b.mul(b.add(b.mul(loop.index, self.lanes), self.lane), width)
            with b.if_(b.lt(at, count)):
                b.store(b.load(table, at, lanes=width), near, at)
        return near

    def _fill(self, tile: Value) -> None:
        b, codec = self.b, self.codec
        fill_slab(
            b, codec, self.text, self.slab, self.lane, self.lanes, tile, self.tile // codec.bytes,
            None, self.words, self._decoded, codec.zero,
        )  # fmt: skip

    def _decoded(self, unit: Value, text: Value) -> list[Value]:
        """The words of a unit, whose characters are checked."""
        values = text
        if self.codec.values is not None:
            values = values_by_table(self.near_values)(self.b, text)
            self._check(unit, values)
        return self.codec.decode(self.b, text, lambda b, words: values)

    def _check(self, unit: Value, values: Value) -> None:
        """Keep the position of the first character of a unit that holds no bits."""
        b = self.b
        words = elements(b, values)
        any_set = b.or_(b.or_(words[0], words[1]), b.or_(words[2], words[3]))
        with b.if_(b.ne(b.and_(any_set, NO_BITS), 0)):
            position = b.const(CHARACTERS)
            for k in reversed(range(len(words))):
                wrong = b.and_(words[k], NO_BITS)
                first = b.add(b.div(b.ctz(wrong), 8), 4 * k)
                position = b.select(b.ne(wrong, 0), first, position)
            b.atomic_max(self.counters, 1, b.sub(0xFFFFFFFF, b.add(b.mul(unit, CHARACTERS), position)))

    # --- hits

    def is_reported(self, position: Value) -> Value:
        """Whether a position is one whose hits are reported."""
        b = self.b
        return b.and_(b.ge(position, self.start), b.lt(position, self.count))

    def report_all(self, position: Value, numbers: Sequence[Value], hits: Sequence[Value]) -> None:
        """Append the hits of a subgroup, at positions in a row from each lane's `position` on, by one atomic addition."""
        b = self.b
        positions = [offset(b, position, k) for k in range(len(numbers))]
        hits = [
            b.and_(hit, self.is_reported(position)) for hit, position in zip(hits, positions, strict=True)
        ]
        slots = claimed_slots(b, hits, self.counters)
        for number, spot, hit, slot in zip(numbers, positions, hits, slots, strict=True):
            self._store(slot, spot, number, hit)

    def report(self, position: Value, number: Value) -> None:
        """Append one hit, by this lane alone."""
        b = self.b
        with b.if_(self.is_reported(position)):
            self._store(b.atomic_add(self.counters, 0, 1), position, number, None)

    def _store(self, slot: Value, position: Value, number: Value, hit: Value | None) -> None:
        b = self.b
        has_room = b.lt(slot, b.len(self.hits))
        with b.if_(has_room if hit is None else b.and_(hit, has_room)):
            b.store(b.or_(b.shl(b.cast(position, U64), 32), b.cast(number, U64)), self.hits, slot)


class _Grams:
    """Emits looks at grams, and walks from where they say that a literal may begin."""

    def __init__(self, b: Builder, tiles: _Tiles, stride: int, schedule: GramSchedule) -> None:
        self.b, self.tiles, self.stride, self.schedule = b, tiles, stride, schedule
        self.bitmap = b.buffer("bitmap", U32, schedule.bitmap_words, "read", tiles.bindings)
        self.columns = b.buffer("columns", U32, 256, "read", tiles.bindings + 1)
        self.rows = b.buffer("rows", U32, None, "read", tiles.bindings + 2)
        self.classes, self.first = b.param("classes", U32), b.param("first_accepting", U32)
        self.fold = b.param("fold", U32)
        self.near = tiles.near_copy(self.bitmap, schedule.bitmap_words, 4, "near_bitmap")

    def look(self, tile: Value) -> None:
        """Look at the words of a tile, neighbouring ones by neighbouring lanes."""
        b, lanes, unroll = self.b, self.schedule.lanes, self.schedule.unroll
        step = 2 if self.stride == 8 else 1
        begin = b.mul(tile, self.schedule.tile, name="begin")
        with b.for_(0, self.schedule.rounds // (unroll * step)) as loop:
            base = b.add(b.mul(loop.index, unroll * step * lanes), b.mul(self.tiles.lane, step))
            candidates = (
                b.shl(is_set, 4 * round_ + k)
                for round_ in range(unroll)
                for k, is_set in self._looks(b.add(base, round_ * lanes * step))
            )
            with b.while_([reduce(b.or_, candidates)]) as rest:
                rest.condition(b.ne(rest.args[0], 0))
                (bits,) = rest.args
                bit = b.ctz(bits)
                word = b.add(base, b.mul(b.div(bit, 4), lanes * step))
                at = b.add(b.mul(word, 4), b.add(b.rem(bit, 4), 4 if self.stride == 8 else 0))
                self._walk(begin, at)
                rest.yield_(b.and_(bits, b.sub(bits, 1)))

    def _looks(self, word: Value) -> Iterator[tuple[int, Value]]:
        """The positions within a word where there is a look, and 1 where a literal may have begun."""
        b, slab, shift = self.b, self.tiles.slab, 33 - self.schedule.bitmap_words.bit_length()
        if self.stride == 8:
            word = b.add(word, 1)
        gram_here = b.or_(b.load(slab, word), self.fold)
        after = b.or_(b.load(slab, b.add(word, 1)), self.fold)
        for k in range(min(self.stride, 4) - 1, 4, self.stride):
            gram = b.or_(b.shr(gram_here, 8 * k), b.shl(after, 32 - 8 * k)) if k else gram_here
            product = b.mul(gram, MULTIPLIER)
            bits = b.load(self.near, b.shr(product, shift))
            one, other = (b.and_(b.shr(product, shift - back), 31) for back in (5, 10))
            yield k, b.and_(b.and_(b.shr(bits, one), b.shr(bits, other)), 1)

    def _walk(self, begin: Value, at: Value) -> None:
        """Walk from the first position at which a literal with the gram at `at` begins, while one that begins up to there may be
        completed.  `begin`: the position of the tile; `at`: in the tile."""
        b = self.b
        start = b.sub(at, self.stride - 1)
        end = b.const(4 * self.tiles.words)
        with b.while_([start, b.const(0), b.const(True, DataType.BOOL)]) as loop:
            loop.condition(b.and_(loop.args[2], b.lt(loop.args[0], end)))
            position, cell, _ = loop.args
            word = b.load(self.tiles.slab, b.div(position, 4))
            byte = b.and_(b.shr(word, b.mul(b.rem(position, 4), 8)), 0xFF)
            cell = b.load(self.rows, b.add(cell, b.load(self.columns, byte)))
            with b.if_(b.ge(cell, self.first)):
                number = b.div(b.sub(cell, self.first), b.add(self.classes, 1))
                self.tiles.report(b.add(begin, position), number)
            depth = b.load(self.rows, b.add(cell, self.classes))
            # bytes read from the one at `at` on; a literal that began up to there has more
            read = b.sub(b.add(position, 1), at)
            goes_on = b.or_(b.lt(position, at), b.gt(depth, b.sub(read, 1)))
            loop.yield_(b.add(position, 1), cell, goes_on)
