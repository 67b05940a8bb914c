"""scan.dfa: lanes walk an automaton over chunks of a text, and write a number for each byte.

A workgroup owns a tile of `lanes * chunk` bytes.  It first copies the tile, and a halo of bytes
before it, into workgroup memory.  Then each lane walks from the root state through the `warmup`
bytes before its chunk, which brings it into the right state, and through its chunk:

    slab   |...... halo ......| chunk 0 | chunk 1 | chunk 2 | ... | chunk lanes-1 |
    lane 0        |<- warmup ->|<-chunk->|
    lane 1                  |<- warmup ->|<-chunk->|

With a chunk of an odd number of words the lanes of a subgroup read different banks.  Where only the
matches are wanted, and not a number for every byte, the program of `search` writes much less.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Program, Value
from ..ir.types import DataType
from ..lowering.nvptx.targets import STATIC_SHARED_BYTES
from .collective import as_type, guarded
from .targets import is_gpu
from .tiles import each_tile, tiles_of

__all__ = ["DfaSchedule", "dfa", "dfa_grid", "dfa_schedule"]

MAX_SLAB = STATIC_SHARED_BYTES
UNIT = 4  # bytes that a lane copies at once

# (longest warm-up, lanes, chunk) as measured on an H100 and on the CPU target; the first row that fits is used.
# A byte takes 1 + warmup / chunk steps, which is for long chunks.  Against them on a GPU: the lanes of a
# subgroup store 4 bytes each, `chunk` numbers apart, so a store touches min(32, chunk) cache lines, and
# longer chunks leave too few lanes.  On the CPU target stores do not depend on the chunk.
_GPU = ((39, 64, 4), (223, 32, 12), (700, 64, 20), (MAX_SLAB, 32, 20))
_CPU = ((64, 32, 508), (MAX_SLAB, 32, 1020))
_OTHERS = ((256, 128, 108), (MAX_SLAB, 32, 1020))


@dataclass(frozen=True)
class DfaSchedule:
    """`lanes`: of a workgroup.  `chunk`: bytes of a lane, a multiple of 4.  `strided`: right for every grid."""

    lanes: int = 128
    chunk: int = 108
    strided: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.lanes <= 1024 or self.chunk < UNIT or self.chunk % UNIT:
            raise ValueError(f"1 to 1024 lanes, a chunk of a multiple of {UNIT} bytes: {self}")

    @property
    def tile(self) -> int:
        """Bytes of a tile."""
        return self.lanes * self.chunk

    def halo(self, warmup: int) -> int:
        """Bytes of the halo: the warm-up, rounded up to whole rounds of copying."""
        rounds = self.lanes * UNIT
        return -(-warmup // rounds) * rounds


def dfa_schedule(warmup: int, target: str = "", strided: bool = False) -> DfaSchedule:
    """Longer chunks for a longer warm-up, since a lane walks the warm-up once for each chunk."""
    choices = _GPU if is_gpu(target) else _CPU if target == "cpu" else _OTHERS
    lanes, chunk = next((row[1:] for row in choices if warmup <= row[0]), choices[-1][1:])
    if is_gpu(target):  # a tile should not be much shorter than the halo that is copied for it
        chunk += 2 * UNIT * max(0, (warmup // lanes - chunk) // (2 * UNIT))
    return DfaSchedule(lanes, chunk, strided)


def dfa_grid(schedule: DfaSchedule, count: int) -> int:
    """Workgroups for `count` bytes."""
    return max(1, -(-count // schedule.tile))


@lru_cache(maxsize=64)
def dfa(warmup: int, table_dtype: DataType = DataType.U16, schedule: DfaSchedule | None = None) -> Program:
    """The program `dfa`: @bytes, @table, @accept, @matches (one for each byte).

    For an automaton whose state after a byte depends only on that byte and the `warmup` bytes before
    it, such as that of literal patterns of up to `warmup` + 1 bytes.
    """
    schedule = schedule or dfa_schedule(warmup)
    slab = schedule.halo(warmup) + schedule.tile
    if slab > MAX_SLAB:
        raise ValueError(f"a slab of {slab} bytes for a warm-up of {warmup} is more than {MAX_SLAB}")
    b = Builder("dfa", workgroup=schedule.lanes)
    emitter = _DfaEmitter(b, warmup, schedule, table_dtype, slab)
    count = b.len(emitter.bytes, name="n")
    with each_tile(b, tiles_of(b, count, schedule.tile), schedule.strided) as tile:
        start = b.mul(tile, schedule.tile, name="start")
        emitter.fill(start, count)
        b.barrier("workgroup")
        emitter.walk(start, count)
        if schedule.strided:
            b.barrier("workgroup")
    return b.finish(verify=False)


class _DfaEmitter:
    """Emits the two phases: lanes fill @slab together, then each walks the automaton over its chunk."""

    def __init__(
        self, b: Builder, warmup: int, schedule: DfaSchedule, table_dtype: DataType, slab: int
    ) -> None:
        self.b, self.warmup, self.schedule = b, warmup, schedule
        self.bytes = b.buffer("bytes", DataType.U8, None, "read", 0)
        self.table = b.buffer("table", table_dtype, None, "read", 1)
        self.accept = b.buffer("accept", DataType.U32, None, "read", 2)
        self.matches = b.buffer("matches", DataType.U32, None, "write", 3, live_out=True)
        self.slab = b.buffer("slab", DataType.U8, slab, "workgroup")
        self.halo = schedule.halo(warmup)
        self.lane = b.local_id("x", name="lane")

    def fill(self, start: Value, count: Value) -> None:
        """Copy the tile at `start` and the halo before it to @slab, one unit per lane and round."""
        b, lanes = self.b, self.schedule.lanes
        rounds = (self.halo + self.schedule.tile) // (lanes * UNIT)
        # before the first tile this wraps, far past the last unit
        first = b.sub(b.div(start, UNIT), self.halo // UNIT)
        mine = b.add(first, self.lane)
        with b.for_(0, rounds) as loop:
            ahead = b.mul(loop.index, lanes)
            octets = self.unit(b.add(mine, ahead), b.div(count, UNIT), count)
            b.store(octets, self.slab, b.mul(b.add(self.lane, ahead), UNIT))

    def unit(self, unit: Value, whole: Value, count: Value) -> Value:
        """The bytes of a unit, with zeros beyond the end of the text and before its start."""
        b = self.b

        def part() -> Value:
            start = b.mul(unit, UNIT)
            return b.vector(*(self.byte(b.add(start, k), count) for k in range(UNIT)))

        def edge() -> Value:
            return guarded(b, b.eq(unit, whole), part)

        return guarded(b, b.lt(unit, whole), lambda: b.load(self.bytes, b.mul(unit, UNIT), lanes=UNIT), edge)

    def byte(self, place: Value, count: Value) -> Value:
        b = self.b
        return guarded(b, b.lt(place, count), lambda: b.load(self.bytes, place))

    def walk(self, start: Value, count: Value) -> None:
        """Walk over the lane's warm-up and chunk; the text has `count` bytes."""
        b, warmup = self.b, self.warmup
        offset = b.mul(self.lane, self.schedule.chunk)
        chunk = b.add(start, offset, name="chunk")
        spot = b.add(offset, self.halo, name="spot")
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
        return as_type(b, b.load(self.table, b.add(b.mul(state, 256), byte)), DataType.U32)
