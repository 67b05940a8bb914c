"""scan.prefix: the inclusive prefix sum of integers of 32 or 64 bits (wrapping), f32 and f64, in one pass over memory.

A tile is `lanes * rounds * vector` elements.  Each subgroup owns a run of consecutive elements of
the tile, which it scans in rounds of 32 neighbouring vectors:

    tile      | subgroup 0              | subgroup 1              | ...
    subgroup  | round 0    | round 1    | ...        in a round, lane l has vector l

Sums are carried from level to level: elements of a vector, lanes of a round (by shuffles), rounds of a
run, subgroups of a tile (through workgroup memory).

With `two_pass`, for tiles that stay in a cache, a subgroup reads its tile two times and keeps nothing in
registers between:

    first   sum the tile, as 32 partial sums
    then    once the sum of everything before the tile is known, scan and write it round by round

The sum of everything before a tile is found in one of two ways:

    chunked    one workgroup does tile after tile and carries the sum along; needs only @x and
               @y, and is right for any grid (workgroups but the first do nothing)
    look-back  (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled
               Look-back") each workgroup draws a tile number, publishes the sum of its tile, and
               adds up what the tiles before it have published, back to the nearest one that
               has published the sum of everything up to its end

A tile publishes a 64-bit word of @state, flag << 32 | value.  Flag and value are written and read
together by one atomic access, so no fence between them is needed:

    flag 0  nothing yet, value 0
    flag 1  the sum of the tile (AGGREGATE)
    flag 2  the sum of everything up to and including the tile (WHOLE)

A sum of 64 bits does not fit beside a flag: its halves are two words with the same flag, and a reader that sees
two flags reads again.

    @state    flag << 32 | lower half, of all tiles     flag << 32 | upper half, of all tiles

Tile numbers are drawn from @ticket, so all tiles before a drawn one belong to workgroups that already
run.  Waiting for them therefore ends, in whatever order the workgroups were started.  @state and @ticket
are zero on entry.  With look-back, float results may differ in the last bits from run to run, since the
order of additions depends on which words were published in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Buffer, Program, Value
from ..ir.types import DataType
from .collective import (
    SUBGROUP,
    as_bits,
    draw_number,
    elements,
    guarded,
    offset,
    subgroup_total,
    wait_until_all,
)
from .targets import is_gpu

__all__ = ["ScanSchedule", "prefix", "prefix_grid", "prefix_schedule", "prefix_state"]

AGGREGATE, WHOLE = 1, 2
_WORTH_MORE_ROUNDS, _MANY = 1 << 16, 1 << 22
_GPU_SHAPES = (
    (1 << 25, 128, 16), (_MANY, 128, 8), (1 << 19, 512, 4), (1 << 18, 128, 8), (_WORTH_MORE_ROUNDS, 256, 2),
    (0, 256, 2),
)  # fmt: skip
"""Elements, and the lanes and rounds that are the fastest for as many or more."""

MANY_WORKERS = 4


@dataclass(frozen=True)
class ScanSchedule:
    """`lanes`: of a workgroup, a multiple of 32.  `rounds`: of a subgroup.  `vector`: elements of a load.

    `look_back`: many workgroups take part, otherwise one.  `two_pass`: tiles are read two times; they have 32
    lanes, `vector` 1, and up to 2^20 rounds, since no round is kept in registers.
    """

    lanes: int = 256
    rounds: int = 4
    vector: int = 4
    look_back: bool = True
    two_pass: bool = False

    def __post_init__(self) -> None:
        if self.lanes % SUBGROUP or not SUBGROUP <= self.lanes <= 1024:
            raise ValueError(f"lanes are a multiple of 32 up to 1024: {self}")
        if self.two_pass:
            if self.lanes != SUBGROUP or self.vector != 1 or not 1 <= self.rounds <= 1 << 20:
                raise ValueError(f"a tile read twice has 32 lanes, no vectors, 1 to 2^20 rounds: {self}")
        elif not 1 <= self.rounds <= 32 or self.vector not in (1, 2, 4, 8):
            raise ValueError(f"1 to 32 rounds of vectors of 1, 2, 4 or 8: {self}")

    @property
    def tile(self) -> int:
        """Elements of a tile."""
        return self.lanes * self.rounds * self.vector


def prefix_schedule(
    count: int | None,
    target: str = "",
    look_back: bool = True,
    workers: int = 1,
    dtype: DataType = DataType.U32,
) -> ScanSchedule:
    """The default schedule; without look-back for a few tiles or an unknown count.

    `workers`: threads of the cpu target.  With few of them look-back is no faster than one thread without
    it, which has no @state to clear.

    On a GPU, of tiles of one size those with more rounds and fewer subgroups are faster, if there are many: a lane
    has more loads in flight, and a barrier waits for fewer subgroups.  Where all run at once, more lanes are.
    """
    size = dtype.size_bytes or 4
    schedule = ScanSchedule(vector=16 // size)
    few = 4 * schedule.tile
    if target == "cpu":  # tiles of 128 or 256 KiB: they stay in a core's cache for the second read
        rounds = (2048 if (count or 0) >= 1 << 22 else 1024) * 4 // size
        schedule = ScanSchedule(SUBGROUP, rounds, 1, two_pass=True)
        few = 1 << (17 if workers >= MANY_WORKERS else 20)
    if not look_back or count is None or count <= few:
        return replace(schedule, look_back=False)
    if not is_gpu(target):
        return schedule
    lanes, rounds = next(shape for least, *shape in _GPU_SHAPES if count >= least)
    if size == 8 and _WORTH_MORE_ROUNDS <= count < _MANY:
        rounds *= 2  # rounds of half as many elements
    elif (
        size == 8 and count >= 1 << 25
    ):  # shuffles of 64 bits are two: vectors of two loads need half as many
        return replace(schedule, lanes=64, rounds=16, vector=4)
    return replace(schedule, lanes=lanes, rounds=rounds)


def prefix_state(schedule: ScanSchedule, count: int, dtype: DataType) -> int:
    """The length of @state for `count` elements of `dtype`."""
    return _tiles(schedule, count) * _words(dtype)


def _tiles(schedule: ScanSchedule, count: int) -> int:
    return max(1, -(-count // schedule.tile))


def _words(dtype: DataType) -> int:
    """Words of @state for a tile."""
    return 2 if dtype.size_bytes == 8 else 1


def prefix_grid(schedule: ScanSchedule, count: int) -> int:
    """Workgroups for `count` elements.  Any grid does all the work."""
    return _tiles(schedule, count) if schedule.look_back else 1


@lru_cache(maxsize=64)
def prefix(dtype: DataType = DataType.U32, schedule: ScanSchedule = ScanSchedule()) -> Program:
    """The program `prefix`: @x, @y; with look-back also @state (u64, of `prefix_state` elements) and @ticket
    (u32, one element), zero on entry."""
    b = Builder("prefix", workgroup=schedule.lanes)
    x = b.buffer("x", dtype, None, "read", 0)
    y = b.buffer("y", dtype, None, "write", 1, live_out=True)
    scan = (_ScanTwice if schedule.two_pass else _TileScan)(b, x, y, schedule)
    if schedule.look_back:
        state = b.buffer("state", DataType.U64, None, "read_write", 2, live_in=True)
        ticket = b.buffer("ticket", DataType.U32, 1, "read_write", 3, live_in=True)
        _LookBack(scan, state, ticket).build()
    else:
        scan.chunked()
    return b.finish(verify=False)


class _TileScan:
    """Emits the scan of a tile; the sum `before` it comes from `chunked` or from `_LookBack`."""

    def __init__(self, b: Builder, x: Buffer, y: Buffer, schedule: ScanSchedule) -> None:
        self.b, self.x, self.y, self.schedule = b, x, y, schedule
        self.dtype, self.vector = x.dtype, schedule.vector
        self.subgroups = schedule.lanes // SUBGROUP
        self.totals = b.buffer("totals", self.dtype, self.subgroups, "workgroup")
        self.count = b.len(x, name="n")
        self.subgroup, self.lane = b.subgroup_id(), b.lane_id()

    def chunked(self) -> None:
        b, tile = self.b, self.schedule.tile
        nothing = b.const(0, self.dtype)
        with (
            b.if_(b.eq(b.workgroup_id("x"), 0)),
            b.for_(0, self.count, tile, carry=[nothing], dtype=DataType.U32) as chunks,
        ):
            runs, lane_sum = self.load_and_scan(chunks.index)
            before, total = self.across(lane_sum)
            self.write(runs, b.add(chunks.args[0], before))
            b.barrier("workgroup")  # before the next tile's totals
            chunks.yield_(b.add(chunks.args[0], total))

    # --- in a subgroup --------------------------------------------------------------------

    def load_and_scan(self, start: Value) -> tuple[list[list[Value]], Value]:
        """The prefix sums of this lane's vectors, counted from the start of the subgroup's run, by round; and
        the sum of the run."""
        b = self.b
        self.enter(start)
        running = b.const(0, self.dtype)
        prefixes: list[list[Value]] = []
        for vector in self.load():
            sums: list[Value] = []
            for element in elements(b, vector):
                sums.append(b.add(sums[-1], element) if sums else element)
            up_to = b.subgroup_scan(sums[-1], "inclusive", "add")
            # The exclusive sum: shifted by a lane, not up_to - sums[-1], which would not be exact in f32.
            preceding = b.subgroup_shuffle(up_to, 1, "up")
            others = b.select(b.eq(self.lane, 0), running, b.add(running, preceding))
            prefixes.append([b.add(others, s) for s in sums])
            running = b.add(running, b.subgroup_shuffle(up_to, SUBGROUP - 1, "idx"))
        return prefixes, running

    def enter(self, start: Value) -> None:
        """Compute where this lane's vectors are in the tile at `start`, and how many of its elements exist."""
        b, rounds = self.b, self.schedule.rounds
        self.start = start
        self.exist: Value = b.sub(self.count, start, name="exist")
        self.is_full = b.ge(self.exist, self.schedule.tile, name="is_full")
        run = b.mul(self.subgroup, rounds * SUBGROUP * self.vector)
        first = b.add(run, b.mul(self.lane, self.vector))
        self.offsets = [offset(b, first, k * SUBGROUP * self.vector) for k in range(rounds)]

    def load(self) -> tuple[Value, ...]:
        """This lane's vectors, with zeros beyond the end of @x."""
        b, vector = self.b, self.vector
        with b.if_(self.is_full) as branch:
            branch.yield_(*(b.load(self.x, b.add(self.start, o), lanes=vector) for o in self.offsets))
        with branch.else_():
            some = [[self.load_one(b.add(o, k)) for k in range(vector)] for o in self.offsets]
            branch.yield_(*(b.vector(*one) if vector > 1 else one[0] for one in some))
        return branch.results

    def load_one(self, offset: Value) -> Value:
        b = self.b
        inside = b.lt(offset, self.exist)
        index = b.add(self.start, offset)
        return guarded(b, inside, lambda: b.load(self.x, index))

    # --- across the workgroup --------------------------------------------------------------

    def across(self, lane_sum: Value) -> tuple[Value, Value]:
        """Combine the sum `lane_sum` of each subgroup into the sum of the earlier subgroups, and the sum of all.

        Executes a barrier; the next call needs another before it writes @totals.
        """
        b = self.b
        with b.if_(b.eq(self.lane, 0)):
            b.store(lane_sum, self.totals, self.subgroup)
        b.barrier("workgroup")
        before = total = b.const(0, self.dtype)
        for s in range(self.subgroups):
            theirs = b.load(self.totals, s)
            before = b.select(b.lt(b.const(s), self.subgroup), b.add(before, theirs), before)
            total = b.add(total, theirs)
        return before, total

    def write(self, runs: list[list[Value]], before: Value) -> None:
        """Add `before` to the sums of `load_and_scan`, and store those of elements that exist."""
        b = self.b
        final = [[b.add(before, s) for s in sums] for sums in runs]
        with b.if_(self.is_full) as branch:
            for first, sums in zip(self.offsets, final, strict=True):
                whole = b.vector(*sums) if self.vector > 1 else sums[0]
                b.store(whole, self.y, b.add(self.start, first))
        with branch.else_():
            for first, sums in zip(self.offsets, final, strict=True):
                for k, one in enumerate(sums):
                    index = b.add(first, k)
                    with b.if_(b.lt(index, self.exist)):
                        b.store(one, self.y, b.add(self.start, index))


class _ScanTwice(_TileScan):
    """Emits the scan of a tile of one subgroup, which is read twice."""

    def chunked(self) -> None:
        """Scan by one workgroup: no other waits for the sum of a tile, so the whole of @x is one tile, read once."""
        b = self.b
        with b.if_(b.eq(b.workgroup_id("x"), 0)):
            self.begin(b.const(0, DataType.U32), self.count)
            self.write([], b.const(0, self.dtype))

    def begin(self, start: Value, exist: Value) -> None:
        """Compute the bounds of the tile of `exist` elements at `start`."""
        b = self.b
        self.start, self.exist = start, exist
        self.whole = b.and_(exist, ~(SUBGROUP - 1) & 0xFFFFFFFF)  # elements in rounds of 32
        self.rest = b.add(start, b.add(self.whole, self.lane))

    def load_and_scan(self, start: Value) -> tuple[list[list[Value]], Value]:
        """Sum of the tile alone; `write` reads the elements again."""
        b = self.b
        self.begin(start, b.min(b.sub(self.count, start), self.schedule.tile))
        nothing = b.const(0, self.dtype)
        with b.for_(0, self.whole, SUBGROUP, carry=[nothing]) as rounds:
            rounds.yield_(b.add(rounds.args[0], b.load(self.x, self.element_index(rounds.index))))
        return [], subgroup_total(b, b.add(rounds.result, self.load_rest()), "add")

    def across(self, lane_sum: Value) -> tuple[Value, Value]:
        """There is one subgroup, so nothing is before it."""
        return self.b.const(0, self.dtype), lane_sum

    def write(self, runs: list[list[Value]], before: Value) -> None:
        b = self.b
        with b.for_(0, self.whole, SUBGROUP, carry=[before]) as rounds:
            index = self.element_index(rounds.index)
            up_to = b.subgroup_scan(b.load(self.x, index), "inclusive", "add")
            b.store(b.add(rounds.args[0], up_to), self.y, index)
            rounds.yield_(b.add(rounds.args[0], b.subgroup_shuffle(up_to, SUBGROUP - 1, "idx")))
        up_to = b.subgroup_scan(self.load_rest(), "inclusive", "add")
        with b.if_(b.lt(b.add(self.whole, self.lane), self.exist)):
            b.store(b.add(rounds.result, up_to), self.y, self.rest)

    def element_index(self, index: Value) -> Value:
        return self.b.add(self.b.add(self.start, index), self.lane)

    def load_rest(self) -> Value:
        """This lane's element of the incomplete round at the end of the tile; 0 where it has none."""
        b = self.b
        exists = b.lt(b.add(self.whole, self.lane), self.exist)
        return guarded(b, exists, lambda: b.load(self.x, self.rest))


class _LookBack:
    """Emits the look-back form: tile numbers from @ticket, the sums before a tile from @state."""

    def __init__(self, scan: _TileScan, state: Buffer, ticket: Buffer) -> None:
        self.scan, self.b = scan, scan.b
        self.state, self.ticket = state, ticket
        self.shared_tile = self.b.buffer("shared_tile", DataType.U32, 1, "workgroup")
        self.shared_before = self.b.buffer("shared_before", scan.dtype, 1, "workgroup")
        self.words = _words(scan.dtype)

    def build(self) -> None:
        b, scan = self.b, self.scan
        self.tiles = b.div(b.len(self.state), self.words) if self.words > 1 else b.len(self.state)
        self.is_first = b.eq(b.local_id("x"), 0)
        tile = self.draw()
        with b.while_([tile]) as loop:
            loop.condition(b.lt(loop.args[0], self.tiles))
            tile = loop.args[0]
            runs, lane_sum = scan.load_and_scan(b.mul(tile, scan.schedule.tile))
            before, total = scan.across(lane_sum)
            # One subgroup looks back; the barrier makes its result visible to the others.
            with b.if_(b.eq(scan.subgroup, 0)):
                self.publish_sums(tile, total)
            b.barrier("workgroup")
            scan.write(runs, b.add(b.load(self.shared_before, 0), before))
            loop.yield_(self.draw())

    def draw(self) -> Value:
        """Draw the number of the next tile: the same for the whole workgroup."""
        return draw_number(self.b, self.is_first, self.ticket, self.shared_tile)

    # --- words -----------------------------------------------------------------------------

    def word_index(self, tile: Value, half: int) -> Value:
        """Index of the word with the lower or the upper half of a tile's sum."""
        return self.b.add(tile, self.tiles) if half else tile

    def value(self, words: Sequence[Value]) -> Value:
        """The sum that the words of a tile stand for."""
        b = self.b
        low = b.cast(words[0], DataType.U32)
        if self.words == 1:
            return as_bits(b, low, self.scan.dtype)
        whole = b.or_(b.shl(words[1], 32), b.cast(low, DataType.U64))
        return as_bits(b, whole, self.scan.dtype)

    def publish(self, tile: Value, flag: Value, value: Value) -> None:
        """Make a sum known, with `flag` << 32 for what it is."""
        b = self.b
        with b.if_(self.is_first):
            if self.words == 1:
                halves = [b.cast(as_bits(b, value, DataType.U32), DataType.U64)]
            else:
                bits = as_bits(b, value, DataType.U64)
                halves = [b.and_(bits, 0xFFFFFFFF), b.shr(bits, 32)]
            for number, half in enumerate(halves):
                b.atomic_exchange(self.state, self.word_index(tile, number), b.or_(half, flag))

    # --- by the first subgroup ---------------------------------------------------------------

    def publish_sums(self, tile: Value, total: Value) -> None:
        """Publish the tile's sum, find the sum of everything before it, and publish the sum of both."""
        b = self.b
        # Later tiles can go on with the tile's sum while it looks back.  For tile 0 it is already the whole sum.
        flag = b.select(b.eq(tile, 0), b.const(WHOLE << 32, DataType.U64), AGGREGATE << 32)
        self.publish(tile, flag, total)
        before = self.look_back(tile)
        self.publish(tile, b.const(WHOLE << 32, DataType.U64), b.add(before, total))
        with b.if_(self.is_first):
            b.store(before, self.shared_before, 0)

    def look_back(self, tile: Value) -> Value:
        """The sum of all tiles before `tile`, 0 for the first.

        A subgroup reads windows of 32 tiles, backwards from `tile`:

            lane       31     ...    1     0
            tile     end-32   ...  end-2 end-1     end = tile, then 32 less in each window

        Within a window it adds up the lanes up to the nearest with flag WHOLE, and stops at the window that
        has one.  Lanes before tile 0 read as WHOLE with value 0, so the last window always has one.
        """
        b, dtype = self.b, self.scan.dtype
        going = b.const(True, DataType.BOOL)
        with b.while_([tile, b.const(0, dtype), going]) as loop:
            loop.condition(loop.args[2])
            end, sum_so_far, _ = loop.args
            words = self.wait_for(end)
            value = self.value(words)
            is_whole = b.eq(b.shr(words[0], 32), WHOLE)
            wholes = b.subgroup_ballot(is_whole)
            nearest = b.ctz(wholes)  # 32 where there is none: all lanes count
            counts = b.le(self.scan.lane, nearest)
            term = b.select(counts, value, b.const(0, dtype))
            window = subgroup_total(b, term, "add")
            loop.yield_(b.sub(end, SUBGROUP), b.add(sum_so_far, window), b.eq(wholes, 0))
        return loop.results[1]

    def wait_for(self, end: Value) -> list[Value]:
        """The words of tile end - 1 - lane, read again until those of all 32 lanes are published."""
        b = self.b
        ahead = b.add(self.scan.lane, 1)
        exists = b.le(ahead, end)
        index = b.sub(end, ahead)

        def read_one(half: int) -> Value:
            return guarded(
                b, exists, lambda: b.atomic_or(self.state, self.word_index(index, half), 0), WHOLE << 32
            )

        def is_missing(first: Value, *others: Value) -> Value:
            missing = b.lt(first, AGGREGATE << 32)
            for other in others:
                missing = b.or_(missing, b.ne(b.shr(first, 32), b.shr(other, 32)))
            return missing

        return wait_until_all(b, lambda: [read_one(half) for half in range(self.words)], is_missing)
