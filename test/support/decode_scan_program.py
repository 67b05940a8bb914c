"""Decoding fused with a search for literal patterns: the program `decode_scan`.

A workgroup owns a tile of `lanes * chunk` decoded bytes.  It decodes the tile, and a halo of
bytes after it, into a slab.  Then each lane walks the automaton from the root through its chunk, see chunk_walk.

The program as built has its slabs in storage, one for each workgroup; the pass decode_scan_fuse moves
them to workgroup memory.  Hits go to a list, in no particular order:

    @hits    u64: index of the last byte << 32 | number of the set of patterns that end there
    @found   the number of hits; those that do not fit into @hits are only counted

    @table   u16 or u32, next state at state * 256 + byte; state 0 is the root
    @accept  u32, the set numbers of the accepting states, which are the states with the highest numbers
    @depth   u16, for each state
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

from vyre_opt.ir import Buffer, Builder, DataType, Program, Value
from vyre_opt.kernels.collective import SUBGROUP, as_type, claimed_slots, guarded, offset
from vyre_opt.kernels.decode import Values, base64_bytes, base64_characters, sextets
from vyre_opt.kernels.targets import MULTIPROCESSORS, is_gpu
from vyre_opt.lowering.nvptx.targets import STATIC_SHARED_BYTES
from vyre_scan.programs.chunk_walk import ChunkWalk
from vyre_scan.programs.text_units import ENCODINGS, UnitEncoding, fill_slab, looked_up

__all__ = [
    "MAX_SLAB",
    "MAX_TEXT",
    "SearchSchedule",
    "decode_scan",
    "search_grid",
    "search_schedule",
]

MAX_SLAB = STATIC_SHARED_BYTES
MAX_TEXT = (1 << 32) - (1 << 16)  # characters: indices past the end, in the last tile, do not wrap
MAX_INDEX = 1 << 32
OCTETS = DataType.vec(DataType.U8, 4)
WIDE = 8  # cells of the table that a lane copies at once
CHUNKS = (12, 36, 60, 84)  # an odd number of words each; their tiles are whole units
RESIDENT = 2048
"""Lanes that a multiprocessor runs at once: a search takes 32 registers, which allows all of them."""

FULL = 0.7  # of these lanes at work, from which on an H200 is up to 6 % faster with larger workgroups
AHEAD = 3  # units that a lane loads before it decodes them, so that it waits once for DRAM
NEAR, FEW_BYTES = 32, 3 << 19  # rows in workgroup memory, for so many decoded bytes at most


@dataclass(frozen=True)
class SearchSchedule:
    """`lanes`: of a workgroup, a multiple of 32.  `chunk`: bytes of a lane, a multiple of 4.

    With a chunk of an odd number of words the lanes of a subgroup read different banks.  `decode_by_table`: decode
    characters by a table in workgroup memory: a load for each, but little arithmetic.  `rows_in_shared`: the number
    of rows of the automaton's table, from the root's on, that are copied to workgroup memory.
    """

    lanes: int = 128
    chunk: int = 60
    decode_by_table: bool = False
    rows_in_shared: int = 0

    def __post_init__(self) -> None:
        if not 32 <= self.lanes <= 1024 or self.lanes % SUBGROUP or self.chunk < 4 or self.chunk % 4:
            raise ValueError(f"lanes in whole subgroups up to 1024, a chunk of whole words: {self}")
        if any(self.tile % encoding.bytes for encoding in ENCODINGS.values()):
            raise ValueError(f"a tile of whole units of 8, 12 and 16 bytes: {self}")

    @property
    def tile(self) -> int:
        """Bytes of a tile."""
        return self.lanes * self.chunk

    def slab(self, encoding: UnitEncoding, warmup: int) -> int:
        """Bytes of a tile and a halo of at least `warmup` bytes, in whole units for all lanes of a subgroup."""
        share = SUBGROUP * encoding.bytes
        return -(-(self.tile + warmup) // share) * share


def search_schedule(
    target: str = "", count: int | None = None, warmup: int = 0, multiprocessors: int = MULTIPROCESSORS
) -> SearchSchedule:
    """The default schedule for `count` decoded bytes (None: unknown) and patterns of up to `warmup` + 1 bytes.  `multiprocessors`:
    of a GPU.

    On a GPU arithmetic is the bottleneck, hence `decode_by_table`.  A short text takes as long as one lane if all its
    lanes run at once, so its chunk is the shortest with which they do.  A halo of more than a quarter of
    the tile would cost more than a short chunk gains.  Of a very short one each step waits for the table, so the rows that
    are read most are in workgroup memory, for more lanes: an H200 is a fifth faster at 256 KiB, a twelfth at 1 MiB, and
    slower from 2 MiB on.
    """
    if not is_gpu(target):
        return SearchSchedule()
    lanes, rows_in_shared = (
        (256, NEAR) if count is not None and count <= FEW_BYTES else (SearchSchedule.lanes, 0)
    )
    resident = multiprocessors * RESIDENT
    tiled = [
        SearchSchedule(lanes, chunk, decode_by_table=True, rows_in_shared=rows_in_shared) for chunk in CHUNKS
    ]
    at_once = (
        s for s in tiled if count is not None and count <= resident * s.chunk and warmup <= s.tile // 4
    )
    schedule = next(at_once, SearchSchedule(decode_by_table=True))
    is_full = (
        not rows_in_shared and FULL * resident * schedule.chunk < (count or 0) <= resident * schedule.chunk
    )
    return replace(schedule, lanes=256) if is_full else schedule


def search_grid(schedule: SearchSchedule, count: int) -> int:
    """Workgroups for `count` decoded bytes."""
    return max(1, -(-count // schedule.tile))


def decode_scan(
    encoding: str,
    warmup: int,
    schedule: SearchSchedule = SearchSchedule(),
    workgroups: int | None = None,
    table_dtype: DataType = DataType.U16,
) -> Program:
    """The program `decode_scan`: @text, @table, @accept, @depth, @hits, @found, which begins at 0, and
    the hand-off @decoded in storage, with a slab for each of `workgroups` (None: as many as 32-bit indices
    allow).

    Finds patterns of up to `warmup` + 1 bytes.  Not cached: each call returns a new program, since passes
    are to fuse it.
    """
    codec = ENCODINGS[encoding]
    words = schedule.slab(codec, warmup) // 4
    slabs = MAX_INDEX // words if workgroups is None else workgroups
    b = Builder("decode_scan", workgroup=schedule.lanes)
    search = _Search(b, encoding, warmup, schedule, table_dtype, slabs * words)
    tile = b.workgroup_id("x", name="w")
    slab = b.mul(tile, words, name="slab")
    if schedule.decode_by_table and codec.values is not None:
        search.tabulate(codec.values)
        b.barrier("workgroup")
    with b.region("decode"):
        search.walk.load_rows(schedule.rows_in_shared)
        search.fill(tile, slab, words)
    b.barrier("workgroup")
    with b.region("scan"):
        states = b.div(b.len(search.table), 256, name="states")
        search.walk.first = b.sub(states, b.len(search.accept), name="first")
        search.walk.through(tile, slab, words)
    return b.finish(verify=False)


def _raw_join(b: Builder, values: Sequence[Value]) -> list[Value]:
    return [joined(b, values[k : k + 4][::-1], 8) for k in range(0, len(values), 4)]


def _hex_join(b: Builder, digits: Sequence[Value]) -> list[Value]:
    return _raw_join(b, [joined(b, digits[k : k + 2], 4) for k in range(0, len(digits), 2)])


def _base64_join(b: Builder, values: Sequence[Value]) -> list[Value]:
    """12 bytes from four groups of 24 bits, whose first byte is the highest."""
    groups = [joined(b, values[k : k + 4], 6) for k in range(0, len(values), 4)]
    pairs = [b.bitcast(b.vector(*pair), DataType.vec(DataType.U8, 8)) for pair in pairwise(groups)]
    orders = ((2, 1, 0, 6), (1, 0, 6, 5), (0, 6, 5, 4))
    words = (b.permute(pair, b.const(order, OCTETS)) for pair, order in zip(pairs, orders, strict=True))
    return [b.bitcast(word, DataType.U32) for word in words]


def joined(b: Builder, values: Sequence[Value], bits: int) -> Value:
    """A number of so many bits for each of `values`, the first one highest."""
    return reduce(lambda high, low: b.add(b.mul(high, 1 << bits), low), values)


def _base64_count(b: Builder, text: Buffer) -> Value:
    return base64_bytes(b, base64_characters(b, text))


JOINS = {"raw": _raw_join, "hex": _hex_join, "base64": _base64_join}
"""The words of a unit from the values of its characters, each in a u32."""
COUNTS: dict[str, Callable[[Builder, Buffer], Value]] = {
    "raw": lambda b, text: b.len(text),
    "hex": lambda b, text: b.div(b.len(text), 2),
    "base64": _base64_count,
}
"""The number of bytes that a text encodes."""


class _Walk(ChunkWalk):
    """A walk whose first `rows` of the table are in workgroup memory."""

    rows = 0

    def load_rows(self, rows: int) -> None:
        """Copy the first rows of the table to workgroup memory, a vector by each lane in a round."""
        b, cells, lanes = self.b, rows * 256, self.lanes
        self.rows = rows
        if not cells:
            return
        self.near = b.buffer("rows", self.table.dtype, cells, "workgroup")
        count = b.len(self.table)
        with b.for_(0, -(-cells // (WIDE * lanes))) as loop:
            cell = b.mul(b.add(b.mul(loop.index, lanes), self.lane), WIDE)
            with b.if_(b.lt(cell, b.min(count, cells))):
                b.store(b.load(self.table, cell, lanes=WIDE), self.near, cell)

    def following(self, state: Value, byte: Value) -> Value:
        if not self.rows:
            return super().following(state, byte)
        b, near, table = self.b, self.near, self.table
        cell = b.add(b.mul(state, 256), byte)
        is_near = b.lt(cell, self.rows * 256)
        to = guarded(b, is_near, lambda: b.load(near, cell), lambda: b.load(table, cell))
        return as_type(b, to, DataType.U32)


class _Search:
    """Emits the two phases: decoding into the slab, and the walk over it."""

    def __init__(
        self,
        b: Builder,
        encoding: str,
        warmup: int,
        schedule: SearchSchedule,
        table_dtype: DataType,
        words: int,
    ) -> None:
        self.b, self.name, self.encoding, self.schedule = b, encoding, ENCODINGS[encoding], schedule
        self.text = b.buffer("text", DataType.U8, None, "read", 0)
        self.table = b.buffer("table", table_dtype, None, "read", 1)
        self.accept = b.buffer("accept", DataType.U32, None, "read", 2)
        self.depth = b.buffer("depth", DataType.U16, None, "read", 3)
        self.hits = b.buffer("hits", DataType.U64, None, "write", 4, live_out=True)
        self.hit_count = b.buffer("found", DataType.U64, 1, "read_write", 5, live_in=True, live_out=True)
        self.decoded = b.buffer("decoded", DataType.U32, words, "read_write")
        self.lane = b.local_id("x", name="lane")
        self.values: Buffer | None = None
        self.walk = _Walk(
            b, self.table, self.depth, self.decoded, schedule.lanes, schedule.chunk, warmup, self.lane, self.report,
        )  # fmt: skip

    # --- the slab --------------------------------------------------------------------------

    def tabulate(self, values: Values) -> None:
        """Put the values of all 256 characters into a table, and decode by it from then on."""
        b, lanes = self.b, self.schedule.lanes
        table = b.buffer("values", DataType.U8, 256, "workgroup")
        for first in range(0, 64, lanes):
            four = b.add(self.lane, first)
            with b.if_(b.lt(four, 64)):
                characters = b.add(b.mul(four, 0x04040404), 0x03020100)
                b.store(b.bitcast(values(b, characters), OCTETS), table, b.mul(four, 4))
        self.values = table

    def fill(self, tile: Value, slab: Value, words: int) -> None:
        """Decode the units of the tile's slab, which begins at the word `slab`."""
        b, codec, schedule = self.b, self.encoding, self.schedule
        fill_slab(
            b, codec, self.text, self.decoded, self.lane, schedule.lanes, tile, schedule.tile // codec.bytes,
            slab, words, self.words_of, ahead=AHEAD if schedule.decode_by_table else 1,
        )  # fmt: skip

    def words_of(self, unit: Value, text: Value) -> list[Value]:
        """The words of a unit."""
        b, codec = self.b, self.encoding
        if self.values is None:
            return codec.decode(b, text, codec.values or sextets)
        return JOINS[self.name](b, [b.cast(value, DataType.U32) for value in looked_up(b, text, self.values)])

    def report(self, position: Value, states: Sequence[Value], hit: Value) -> None:
        """Append the subgroup's hits to the list, with one atomic addition to @found."""
        b = self.b
        count = COUNTS[self.name](b, self.text)
        room = b.len(self.hits, DataType.U64)
        positions = [offset(b, position, k) for k in range(len(states))]
        # bytes past the end of the text are zeros, which a pattern may contain
        hits = [
            b.and_(b.and_(hit, b.ge(state, self.walk.first)), b.lt(spot, count))
            for state, spot in zip(states, positions, strict=True)
        ]
        slots = claimed_slots(b, hits, self.hit_count)
        for state, spot, is_hit, slot in zip(states, positions, hits, slots, strict=True):
            with b.if_(b.and_(is_hit, b.lt(slot, room))):
                number = b.load(self.accept, b.sub(state, self.walk.first))
                hit = b.or_(b.shl(b.cast(spot, DataType.U64), 32), b.cast(number, DataType.U64))
                b.store(hit, self.hits, slot)
