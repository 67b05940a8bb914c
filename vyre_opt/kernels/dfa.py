"""scan.dfa: lanes walk an automaton over chunks of a text, and write a number for each byte.

A workgroup owns a tile of `lanes * chunk` bytes.  It first copies the tile, and a halo of bytes
before it, into workgroup memory.  Then each lane walks from the root state through the `warmup`
bytes before its chunk, which brings it into the right state, and through its chunk:

    slab   |...... halo ......| chunk 0 | chunk 1 | chunk 2 | ... | chunk lanes-1 |
    lane 0        |<- warmup ->|<-chunk->|
    lane 1                  |<- warmup ->|<-chunk->|

With a chunk of an odd number of words the lanes of a subgroup read different banks.  Where only the
matches are wanted, and not a number for every byte, the program of `search` writes much less.

Numbers that lanes write at once are a chunk apart, in as many cache lines.  A schedule `in_shared` collects the states of
a tile in workgroup memory, from where neighbouring lanes write the numbers of neighbouring bytes.

There also only the first subgroup walks through a warm-up.  The others begin at the root, and mend in rounds what is wrong: a lane
takes the state in which the lane before it has ended, and walks from there until it meets a state that it has found before,
mostly after a few bytes:

    found before   | 0 0 1 0 0 ...                 first round: from what the lane before found
    now            | 7 8 1 -> as before            second round: from what it found in the first, ...

After k rounds a state is that of a walk through the k chunks before; so ceil(warmup / chunk) rounds are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Buffer, Program, Value
from ..ir.types import DataType
from ..lowering.nvptx.targets import STATIC_SHARED_BYTES
from ..records import dataclass
from .collective import SUBGROUP, as_type, elements, guarded, offset
from .targets import is_gpu
from .tiles import each_tile, tiles_of

__all__ = ["DfaSchedule", "dfa", "dfa_schedule", "memory_bytes"]

MAX_SLAB = STATIC_SHARED_BYTES
UNIT = 4  # bytes that a lane copies at once
MENDED_FROM = 8  # bytes of a warm-up from which rounds are faster than a warm-up for every lane
UNROLLED = 8  # rounds up to which they are no loop

# (longest warm-up, lanes, chunk) as measured; the first row that fits is used, and beyond the last one what memory has room for.  On a GPU long chunks need fewer rounds, and short
# ones leave room for more tiles.  On the CPU target a byte takes 1 + warmup / chunk steps.  _IN_SHARED: on an H200, and such that states
# of 4 bytes fit, too.
_IN_SHARED = ((11, 64, 12), (150, 128, 20), (1024, 256, 36), (9728, 128, 60))
_LANES = 32  # where a warm-up is longer
_CPU = ((64, 32, 508), (16 << 10, 32, 1020))
_OTHERS = ((256, 128, 108), (16 << 10, 32, 1020))


@dataclass(frozen=True)
class DfaSchedule:
    """`lanes`: of a workgroup.  `chunk`: bytes of a lane, a multiple of 4.  `strided`: right for every grid.  `in_shared`: see above."""

    lanes: int = 128
    chunk: int = 108
    strided: bool = False
    in_shared: bool = False

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
    """Longer chunks for a longer warm-up, which is walked once for each chunk, or takes rounds by the number of chunks in it."""
    rows = _IN_SHARED if is_gpu(target) else _CPU if target == "cpu" else _OTHERS
    for longest, lanes, chunk in rows:
        if warmup <= longest:
            return DfaSchedule(lanes, chunk, strided, in_shared=is_gpu(target))
    # a tile should not be much shorter than the halo that is copied for it, if there is room
    wanted = warmup // (_LANES * 2 * UNIT) * 2 * UNIT + UNIT
    room = (MAX_SLAB - warmup) // _LANES - UNIT
    chunk = max(UNIT, min(wanted, (room - UNIT) // (2 * UNIT) * 2 * UNIT + UNIT))
    return DfaSchedule(_LANES, chunk, strided)


def memory_bytes(warmup: int, table_dtype: DataType, schedule: DfaSchedule) -> tuple[int, int]:
    """Bytes of workgroup memory for the text of a tile with its halo, and for its states."""
    states = schedule.tile if schedule.in_shared else 0
    if _mends(warmup, schedule):
        states += 2 * schedule.lanes
    return schedule.halo(warmup) + schedule.tile, states * (table_dtype.size_bytes or 0)


def _mends(warmup: int, schedule: DfaSchedule) -> bool:
    """Whether only the first subgroup walks through a warm-up."""
    return schedule.in_shared and schedule.lanes > SUBGROUP and warmup >= MENDED_FROM


@lru_cache(maxsize=64)
def dfa(warmup: int, table_dtype: DataType = DataType.U16, schedule: DfaSchedule | None = None) -> Program:
    """The program `dfa`: @bytes, @table, @accept, @matches (one for each byte).

    For an automaton whose state after a byte depends only on that byte and the `warmup` bytes before
    it, such as that of literal patterns of up to `warmup` + 1 bytes.
    """
    schedule = schedule or dfa_schedule(warmup)
    slab, states = memory_bytes(warmup, table_dtype, schedule)
    if slab + states > MAX_SLAB:
        parts = f"{slab} of text and {states} of states" if states else f"{slab} of text"
        help = "; with in_shared = 0 states take none" if states else ""
        raise ValueError(
            f"{schedule.lanes} lanes of {schedule.chunk} bytes with a warm-up of {warmup} take more workgroup memory than "
            f"{MAX_SLAB} bytes: {parts}{help}"
        )
    b = Builder("dfa", workgroup=schedule.lanes)
    emitter = _DfaEmitter(b, warmup, schedule, table_dtype, slab)
    count = b.len(emitter.bytes, name="n")
    with each_tile(b, tiles_of(b, count, schedule.tile), schedule.strided) as tile:
        start = b.mul(tile, schedule.tile, name="start")
        emitter.fill(start, count)
        b.barrier("workgroup")
        emitter.walk(start, count)
        if schedule.in_shared:
            b.barrier("workgroup")
            emitter.write(start, count)
            # nobody reads @slab any more, and @states are stored behind the next barrier
        elif schedule.strided:
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
        self.states = (
            b.buffer("states", table_dtype, schedule.tile, "workgroup") if schedule.in_shared else None
        )
        self.together = UNIT if schedule.in_shared else 1  # bytes that are loaded from @slab at once
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

    def byte(self, position: Value, count: Value) -> Value:
        b = self.b
        return guarded(b, b.lt(position, count), lambda: b.load(self.bytes, position))

    def walk(self, start: Value, count: Value) -> None:
        """Walk over the lane's warm-up and chunk; the text has `count` bytes."""
        b, chunk, states = self.b, self.schedule.chunk, self.states
        ahead = b.mul(self.lane, chunk)
        position = b.add(start, ahead, name="chunk")
        spot = b.add(ahead, self.halo, name="spot")
        is_warm = b.lt(self.lane, SUBGROUP) if _mends(self.warmup, self.schedule) else None
        begun = guarded(b, is_warm, lambda: self.warmed_up(position, spot, count))
        with b.for_(0, chunk, self.together, carry=[begun]) as loop:
            walked = self.walk_from(loop.args[0], b.add(spot, loop.index))
            if states is None:
                self.put(walked[0], b.add(position, loop.index), count)
            else:
                self.keep(walked, states, b.add(ahead, loop.index))
            loop.yield_(walked[-1])
        if is_warm is not None and states is not None:
            self.mend(states, is_warm, begun, loop.result, spot, ahead)

    def mend(
        self, states: Buffer, is_warm: Value, begun: Value, end: Value, spot: Value, ahead: Value
    ) -> None:
        """Make the states of chunks that were not begun by `is_warm` lanes those of a walk through the whole warm-up.

        `begun` and `end`: the states before and behind the lane's chunk, which begins at `spot` of @slab and `ahead` in @states.
        """
        b, chunk, lanes = self.b, self.schedule.chunk, self.schedule.lanes
        # of all lanes, before and behind a round by turns
        ends = b.buffer("ends", states.dtype, 2 * lanes, "workgroup")
        b.store(as_type(b, end, states.dtype), ends, self.lane)

        def mended(number: Value, begun: Value, end: Value) -> tuple[Value, Value]:
            """The states before and behind the chunk after one more round."""
            turn = b.mul(b.and_(number, 1), lanes)
            b.barrier("workgroup")
            before = b.load(ends, b.add(b.sub(b.max(self.lane, 1), 1), turn))
            found = b.select(is_warm, begun, as_type(b, before, DataType.U32))
            with b.while_([found, b.const(0), b.ne(found, begun)]) as again:
                again.condition(b.and_(again.args[2], b.lt(again.args[1], chunk)))
                state, done, _ = again.args
                unit = b.add(ahead, done)
                earlier = elements(b, b.load(states, unit, lanes=UNIT))[-1]
                walked = self.walk_from(state, b.add(spot, done))
                self.keep(walked, states, unit)
                differs = b.ne(as_type(b, earlier, DataType.U32), walked[-1])
                again.yield_(walked[-1], b.add(done, UNIT), differs)
            last, _, differs = again.results
            end = b.select(differs, last, end)
            b.store(as_type(b, end, states.dtype), ends, b.sub(b.add(self.lane, lanes), turn))
            return found, end

        rounds = -(-self.warmup // chunk)
        if rounds <= UNROLLED:
            for number in range(rounds):
                begun, end = mended(b.const(number), begun, end)
            return
        with b.for_(0, rounds, carry=[begun, end]) as loop:
            loop.yield_(*mended(loop.index, *loop.args))

    def keep(self, walked: Sequence[Value], states: Buffer, position: Value) -> None:
        b = self.b
        b.store(b.vector(*(as_type(b, each, states.dtype) for each in walked)), states, position)

    def warmed_up(self, position: Value, spot: Value, count: Value) -> Value:
        """The state before the byte at `position` of the text, which is at `spot` of the slab."""
        b, together = self.b, self.together
        if not self.warmup:
            return b.const(0)
        before = -(-self.warmup // together) * together
        first, first_spot = b.sub(position, before), b.sub(spot, before)  # wraps where the text begins
        with b.for_(0, before, together, carry=[b.const(0)]) as loop:
            *_, last = self.walk_from(loop.args[0], b.add(first_spot, loop.index))
            exists = b.lt(b.add(first, loop.index), count)
            loop.yield_(b.select(exists, last, 0))  # before the text begins, stay at the root
        return loop.result

    def walk_from(self, state: Value, spot: Value) -> list[Value]:
        """The states after each byte that is loaded from `spot` of the slab."""
        b, states = self.b, list[Value]()
        for octet in elements(b, b.load(self.slab, spot, lanes=self.together)):
            byte = b.cast(octet, DataType.U32)
            state = as_type(b, b.load(self.table, b.add(b.mul(state, 256), byte)), DataType.U32)
            states.append(state)
        return states

    def put(self, state: Value, position: Value, count: Value) -> None:
        b = self.b
        with b.if_(b.lt(position, count)):
            b.store(b.load(self.accept, state), self.matches, position)

    def write(self, start: Value, count: Value) -> None:
        """Write the numbers of the tile's states, of a unit by each lane in a round."""
        b, lanes = self.b, self.schedule.lanes
        assert self.states is not None
        states = self.states
        with b.for_(0, self.schedule.chunk // UNIT) as loop:
            spot = b.mul(b.add(b.mul(loop.index, lanes), self.lane), UNIT)
            position = b.add(start, spot)
            walked = [
                as_type(b, each, DataType.U32) for each in elements(b, b.load(states, spot, lanes=UNIT))
            ]
            with b.if_(b.le(b.add(position, UNIT), count)) as branch:
                numbers = b.vector(*(b.load(self.accept, state) for state in walked))
                b.store(numbers, self.matches, position)
            with branch.else_():
                for k, state in enumerate(walked):
                    self.put(state, offset(b, position, k), count)
