"""scan.dfa, and decoding fused with it: a lane walks the automaton over a chunk of bytes.

A workgroup owns a tile of `lanes * chunk` bytes.  It first puts the tile, and the halo of
bytes before it, side by side into a slab; then each lane walks through the `warmup` bytes
before its chunk, to be in the right state, and through its chunk, where it tells what it
finds:

    slab   |...... halo ......| chunk 0 | chunk 1 | chunk 2 | ... | chunk lanes-1 |
    lane 0        |<- warmup ->|<-chunk->|
    lane 1                  |<- warmup ->|<-chunk->|

For scan.dfa the slab is workgroup memory and is filled by copying.  For `decode_scan` it is
filled by decoding and, as written, lies in storage, a slab for each workgroup; the pass
decode_scan_fuse makes it workgroup memory.  A chunk of an odd number of words keeps the lanes
of a subgroup in different banks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Buffer, Program, Value
from ..ir.types import DataType
from .collective import guarded
from .decode import base64_characters, from_base64, from_hex
from .tiles import each_tile, tiles_of

__all__ = ["SOURCES", "DfaSchedule", "decode_scan", "dfa", "dfa_grid", "dfa_schedule"]

MAX_SLAB = 48 * 1024
MAX_INDEX = 1 << 32


@dataclass(frozen=True)
class Source:
    """What fills a slab: `decode` makes `bytes` bytes of `characters` characters."""

    name: str
    characters: int
    bytes: int
    decode: Callable[[Builder, Value], list[Value]]
    count: Callable[[Builder, Buffer], Value]


def _bytes_of(b: Builder, text: Value) -> list[Value]:
    return [b.extract(text, k) for k in range(text.type.lanes)]


SOURCES = {
    "raw": Source("raw", 4, 4, _bytes_of, lambda b, text: b.len(text)),
    "hex": Source("hex", 8, 4, from_hex, lambda b, text: b.len(text)),
    "base64": Source("base64", 4, 3, from_base64, base64_characters),
}


@dataclass(frozen=True)
class DfaSchedule:
    """`lanes` of a workgroup, `chunk` bytes of a lane: a multiple of 12, so that every source's
    rounds fill a tile.  `strided`: right for every grid (not for `decode_scan`)."""

    lanes: int = 128
    chunk: int = 108
    strided: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.lanes <= 1024 or self.chunk < 12 or self.chunk % 12:
            raise ValueError(f"1 to 1024 lanes, a chunk of a multiple of 12 bytes: {self}")

    @property
    def tile(self) -> int:
        """Bytes of a tile."""
        return self.lanes * self.chunk

    def halo(self, source: Source, warmup: int) -> int:
        """Bytes before the tile: whole rounds that hold the warm-up."""
        rounds = self.lanes * source.bytes
        return -(-warmup // rounds) * rounds

    def slab(self, source: Source, warmup: int) -> int:
        return self.halo(source, warmup) + self.tile


def dfa_schedule(warmup: int, strided: bool = False) -> DfaSchedule:
    """Fewer, longer chunks where the warm-up is long, since a lane walks it for each."""
    if warmup <= 256:
        return DfaSchedule(128, 108, strided)
    return DfaSchedule(32, 1020, strided)


def dfa_grid(schedule: DfaSchedule, count: int) -> int:
    """Workgroups for `count` bytes."""
    return max(1, -(-count // schedule.tile))


@lru_cache(maxsize=64)
def dfa(warmup: int, table_dtype: DataType = DataType.U16, schedule: DfaSchedule | None = None) -> Program:
    """The program `dfa`: @bytes, @table, @accept, @matches (one for each byte).

    Right for an automaton whose state after a byte depends on that byte and the `warmup` before
    it, as that of literal patterns of up to `warmup` + 1 bytes.
    """
    chosen = schedule or dfa_schedule(warmup)
    source = SOURCES["raw"]
    b = Builder("dfa", workgroup=chosen.lanes)
    text = b.buffer("bytes", DataType.U8, None, "read", 0)
    scan = _Scan(b, source, warmup, chosen, text, table_dtype)
    slab = chosen.slab(source, warmup)
    if slab > MAX_SLAB:
        raise ValueError(f"a slab of {slab} bytes for a warm-up of {warmup} is more than {MAX_SLAB}")
    scan.slab = b.buffer("slab", DataType.U8, slab, "workgroup")
    count = b.len(text, name="n")
    with each_tile(b, tiles_of(b, count, chosen.tile), chosen.strided) as tile:
        start = b.mul(tile, chosen.tile, name="start")
        base = b.const(0)
        scan.fill(start, base, count)
        b.barrier("workgroup")
        scan.walk(start, base, count)
        if chosen.strided:
            b.barrier("workgroup")
    return b.finish()


def decode_scan(
    encoding: str,
    warmup: int,
    schedule: DfaSchedule | None = None,
    workgroups: int | None = None,
    table_dtype: DataType = DataType.U16,
) -> Program:
    """The program `decode_scan`: @text, @table, @accept, @matches (one for each decoded byte), and
    the hand-off @decoded in storage, a slab for each of `workgroups` (None: as many as indices reach).

    A program of its own for each call: it is there to be fused.
    """
    chosen = schedule or dfa_schedule(warmup)
    source = SOURCES[encoding]
    b = Builder("decode_scan", workgroup=chosen.lanes)
    text = b.buffer("text", DataType.U8, None, "read", 0)
    scan = _Scan(b, source, warmup, chosen, text, table_dtype)
    slab = chosen.slab(source, warmup)
    slabs = MAX_INDEX // slab if workgroups is None else workgroups
    scan.slab = b.buffer("decoded", DataType.U8, slabs * slab, "read_write")
    tile = b.workgroup_id("x", name="w")
    start = b.mul(tile, chosen.tile, name="start")
    base = b.mul(tile, slab, name="slab")
    with b.region("decode"):
        scan.fill(start, base, source.count(b, text))
    b.barrier("workgroup")
    with b.region("scan"):
        scan.walk(start, base, b.len(scan.matches, name="n"))
    return b.finish()


class _Scan:
    """Emits the two phases."""

    slab: Buffer

    def __init__(
        self,
        b: Builder,
        source: Source,
        warmup: int,
        schedule: DfaSchedule,
        text: Buffer,
        table_dtype: DataType,
    ) -> None:
        self.b, self.source, self.warmup, self.schedule = b, source, warmup, schedule
        self.text = text
        self.table = b.buffer("table", table_dtype, None, "read", 1)
        self.accept = b.buffer("accept", DataType.U32, None, "read", 2)
        self.matches = b.buffer("matches", DataType.U32, None, "write", 3, live_out=True)
        self.halo = schedule.halo(source, warmup)
        self.lane = b.local_id("x", name="lane")

    # --- the slab --------------------------------------------------------------------------

    def fill(self, start: Value, base: Value, characters: Value) -> None:
        """Halo and tile of the bytes at `start` into the slab at `base`, a unit a lane and round."""
        b, source, lanes = self.b, self.source, self.schedule.lanes
        rounds = (self.halo + self.schedule.tile) // (lanes * source.bytes)
        whole = b.div(characters, source.characters, name="whole")
        # before the first tile this wraps, far past the last unit
        first = b.sub(b.div(start, source.bytes), self.halo // source.bytes)
        mine = b.add(first, self.lane)
        place = b.add(base, b.mul(self.lane, source.bytes))
        with b.for_(0, rounds) as loop:
            unit = b.add(mine, b.mul(loop.index, lanes))
            found = source.decode(b, self.unit(unit, whole, characters))
            spot = b.add(place, b.mul(loop.index, lanes * source.bytes))
            for k, byte in enumerate(found):
                b.store(byte, self.slab, b.add(spot, k) if k else spot)

    def unit(self, unit: Value, whole: Value, characters: Value) -> Value:
        """The characters of a unit; zeros behind the end of the text and before its beginning."""
        b, size = self.b, self.source.characters

        def read() -> Value:
            return b.load(self.text, b.mul(unit, size), lanes=size)

        def part() -> Value:
            start = b.mul(unit, size)
            left = b.sub(characters, start)
            return b.vector(*(self.character(start, k, left) for k in range(size)))

        def edge() -> Value:
            return guarded(b, b.eq(unit, whole), part, lambda: b.const(0, DataType.vec(DataType.U8, size)))

        return guarded(b, b.lt(unit, whole), read, edge)

    def character(self, start: Value, k: int, left: Value) -> Value:
        b = self.b
        inside = b.lt(b.const(k), left)
        return guarded(b, inside, lambda: b.load(self.text, b.add(start, k)), lambda: b.const(0, DataType.U8))

    # --- the walk --------------------------------------------------------------------------

    def walk(self, start: Value, base: Value, count: Value) -> None:
        """Over the lane's warm-up and chunk; `count` bytes exist."""
        b, warmup = self.b, self.warmup
        offset = b.mul(self.lane, self.schedule.chunk)
        chunk = b.add(start, offset, name="chunk")
        spot = b.add(b.add(base, self.halo), offset, name="spot")
        state = b.const(0)
        if warmup:
            before = b.sub(chunk, warmup)  # wraps where the text begins
            spot_before = b.sub(spot, warmup)
            with b.for_(0, warmup, carry=[state]) as loop:
                walked = self.step(loop.args[0], b.add(spot_before, loop.index))
                exists = b.lt(b.add(before, loop.index), count)
                loop.yield_(b.select(exists, walked, 0))  # before the text begins, stay at the root
            state = loop.result
        with b.for_(0, self.schedule.chunk, carry=[state]) as loop:
            walked = self.step(loop.args[0], b.add(spot, loop.index))
            place = b.add(chunk, loop.index)
            with b.if_(b.lt(place, count)):
                b.store(b.load(self.accept, walked), self.matches, place)
            loop.yield_(walked)

    def step(self, state: Value, place: Value) -> Value:
        b = self.b
        byte = b.cast(b.load(self.slab, place), DataType.U32)
        to = b.load(self.table, b.add(b.mul(state, 256), byte))
        return to if to.type is DataType.U32 else b.cast(to, DataType.U32)
