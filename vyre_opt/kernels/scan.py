"""scan.prefix: the inclusive prefix sum of u32, i32 (wrapping) and f32, in one pass over memory.

A tile is `lanes * rounds * vector` elements.  In it a subgroup owns a run of elements, and
goes along it in rounds of 32 vectors side by side:

    tile      | subgroup 0              | subgroup 1              | ...
    subgroup  | round 0    | round 1    | ...        in a round, lane l has the vector l

    in a vector -> lanes of a round (shuffles) -> rounds -> subgroups (workgroup memory)

Where a tile stays in a cache, a subgroup does better to read it `twice`, and to keep nothing:

    once to sum it                 32 partial sums, side by side
    once more, when it is known what precedes it, to scan and write it, round by round

What precedes the tile comes in one of two ways:

    chunked    one workgroup does tile after tile and carries the sum along; needs no more
               than @x and @y, and is right for any grid (the first workgroup does it all)
    look-back  (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled
               Look-back") each workgroup draws a tile number, publishes its tile's sum, and
               adds up what the tiles before it have published, back to one whose whole prefix
               is known

A published word of @state is 64 bits, flag << 32 | value, written and read by atomics only,
so that no order of plain accesses matters:

    flag 0  nothing yet         value 0
    flag 1  the tile's sum      (aggregate)
    flag 2  the sum up to and including the tile

Tile numbers are drawn from @ticket, so a tile's predecessors have all been started: waiting
for them ends.  @state and @ticket are zero on entry.  Sums of f32 may differ in the last
bits from run to run in the look-back form, since they depend on who published what when.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Buffer, Program, Value
from ..ir.types import DataType
from .collective import SUBGROUP, guarded, subgroup_total
from .targets import is_gpu

__all__ = ["ScanSchedule", "prefix", "prefix_grid", "prefix_schedule", "prefix_tiles"]

AGGREGATE, WHOLE = 1, 2
MANY_WORKERS = 4


@dataclass(frozen=True)
class ScanSchedule:
    """`lanes` of a workgroup, a multiple of 32; `rounds` of a subgroup; `vector` elements of a load.

    `look_back`: many workgroups at a time; else one.  `twice`: of workgroups of 32 lanes, with
    rounds of single elements and as many as one likes.
    """

    lanes: int = 256
    rounds: int = 4
    vector: int = 4
    look_back: bool = True
    twice: bool = False

    def __post_init__(self) -> None:
        if self.lanes % SUBGROUP or not SUBGROUP <= self.lanes <= 1024:
            raise ValueError(f"lanes are a multiple of 32 up to 1024: {self}")
        if self.twice:
            if self.lanes != SUBGROUP or self.vector != 1 or not 1 <= self.rounds <= 1 << 20:
                raise ValueError(f"a tile read twice has 32 lanes, no vectors, 1 to 2^20 rounds: {self}")
        elif not 1 <= self.rounds <= 32 or self.vector not in (1, 2, 4, 8):
            raise ValueError(f"1 to 32 rounds of vectors of 1, 2, 4 or 8: {self}")

    @property
    def tile(self) -> int:
        """Elements of a tile."""
        return self.lanes * self.rounds * self.vector


def prefix_schedule(
    count: int | None, target: str = "", look_back: bool = True, workers: int = 1
) -> ScanSchedule:
    """A schedule that does well; a few tiles (or an unknown count) are not worth the look-back.

    `workers`: threads that the cpu target has; few of them are done no sooner than one, which has no
    @state to clear.

    On a GPU a tile is worth more rounds than subgroups: a lane has more loads in flight, and a barrier
    fewer subgroups to wait for, in tiles of the same size.
    """
    schedule = ScanSchedule()
    few = 4 * schedule.tile
    if target == "cpu":  # tiles of 128 or 256 KiB: half of a core's cache at most, and still many
        schedule = ScanSchedule(SUBGROUP, 2048 if (count or 0) >= 1 << 22 else 1024, 1, twice=True)
        few = 1 << (17 if workers >= MANY_WORKERS else 20)
    if not look_back or count is None or count <= few:
        return replace(schedule, look_back=False)
    return ScanSchedule(lanes=128, rounds=8) if is_gpu(target) else schedule


def prefix_tiles(schedule: ScanSchedule, count: int) -> int:
    """Tiles of `count` elements: the length of @state."""
    return max(1, -(-count // schedule.tile))


def prefix_grid(schedule: ScanSchedule, count: int) -> int:
    """Workgroups for `count` elements.  Any grid does all the work."""
    return prefix_tiles(schedule, count) if schedule.look_back else 1


@lru_cache(maxsize=64)
def prefix(dtype: DataType = DataType.U32, schedule: ScanSchedule = ScanSchedule()) -> Program:
    """The program `prefix`: @x, @y; with look-back also @state (u64, a word a tile) and @ticket
    (u32, one element), zero on entry."""
    b = Builder("prefix", workgroup=schedule.lanes)
    x = b.buffer("x", dtype, None, "read", 0)
    y = b.buffer("y", dtype, None, "write", 1, live_out=True)
    scan = (_ScanTwice if schedule.twice else _Scan)(b, x, y, schedule)
    if schedule.look_back:
        state = b.buffer("state", DataType.U64, None, "read_write", 2, live_in=True)
        ticket = b.buffer("ticket", DataType.U32, 1, "read_write", 3, live_in=True)
        _LookBack(scan, state, ticket).build()
    else:
        scan.chunked()
    return b.finish(verify=False)


class _Scan:
    """Scans a tile; `before` is what its schedule says of the elements before it."""

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
            runs, own = self.load_and_scan(chunks.index)
            before, total = self.across(own)
            self.write(runs, b.add(chunks.args[0], before))
            b.barrier("workgroup")  # before the next tile's totals
            chunks.yield_(b.add(chunks.args[0], total))

    # --- in a subgroup --------------------------------------------------------------------

    def load_and_scan(self, start: Value) -> tuple[list[list[Value]], Value]:
        """For each round the prefix sums of this lane's vector within the subgroup's run, and the
        sum of the run."""
        b = self.b
        self.enter(start)
        running = b.const(0, self.dtype)
        prefixes = []
        for vector in self.load():
            elements = [b.extract(vector, k) for k in range(self.vector)] if self.vector > 1 else [vector]
            sums = [elements[0]]
            for element in elements[1:]:
                sums.append(b.add(sums[-1], element))
            up_to = self.lanes_scan(sums[-1])
            preceding = b.subgroup_shuffle(up_to, 1, "up")
            others = b.select(b.eq(self.lane, 0), running, b.add(running, preceding))
            prefixes.append([b.add(others, s) for s in sums])
            running = b.add(running, b.subgroup_shuffle(up_to, SUBGROUP - 1, "idx"))
        return prefixes, running

    def enter(self, start: Value) -> None:
        """Where this lane's vectors lie in the tile at `start`, and how much of the tile exists."""
        b, rounds = self.b, self.schedule.rounds
        self.start = start
        self.exist = b.sub(self.count, start, name="exist")
        self.is_full = b.ge(self.exist, self.schedule.tile, name="is_full")
        run = b.mul(self.subgroup, rounds * SUBGROUP * self.vector)
        first = b.add(run, b.mul(self.lane, self.vector))
        self.offsets = [b.add(first, k * SUBGROUP * self.vector) if k else first for k in range(rounds)]

    def load(self) -> tuple[Value, ...]:
        """This lane's vectors; zeros behind the end."""
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
        return guarded(b, inside, lambda: b.load(self.x, index), lambda: b.const(0, self.dtype))

    def lanes_scan(self, value: Value) -> Value:
        """Inclusive over the lanes, in five steps whatever the type."""
        b = self.b
        if self.dtype.is_int:
            return b.subgroup_scan(value, "inclusive", "add")
        distance = 1
        while distance < SUBGROUP:
            other = b.subgroup_shuffle(value, distance, "up")
            value = b.select(b.ge(self.lane, distance), b.add(value, other), value)
            distance *= 2
        return value

    # --- across the workgroup --------------------------------------------------------------

    def across(self, own: Value) -> tuple[Value, Value]:
        """What the subgroups before this one have, and all of them; holds a barrier."""
        b = self.b
        with b.if_(b.eq(self.lane, 0)):
            b.store(own, self.totals, self.subgroup)
        b.barrier("workgroup")
        before = total = b.const(0, self.dtype)
        for s in range(self.subgroups):
            theirs = b.load(self.totals, s)
            before = b.select(b.lt(b.const(s), self.subgroup), b.add(before, theirs), before)
            total = b.add(total, theirs)
        return before, total

    def write(self, runs: list[list[Value]], before: Value) -> None:
        """Add `before` to what `load_and_scan` gave, and store what exists."""
        b = self.b
        final = [[b.add(before, s) for s in sums] for sums in runs]
        with b.if_(self.is_full) as branch:
            for offset, sums in zip(self.offsets, final, strict=True):
                whole = b.vector(*sums) if self.vector > 1 else sums[0]
                b.store(whole, self.y, b.add(self.start, offset))
        with branch.else_():
            for offset, sums in zip(self.offsets, final, strict=True):
                for k, one in enumerate(sums):
                    place = b.add(offset, k)
                    with b.if_(b.lt(place, self.exist)):
                        b.store(one, self.y, b.add(self.start, place))


class _ScanTwice(_Scan):
    """Scans a tile of one subgroup that is read twice."""

    def chunked(self) -> None:
        """Nobody waits for the sum of a tile, so all is one tile, and read once."""
        b = self.b
        with b.if_(b.eq(b.workgroup_id("x"), 0)):
            self.begin(b.const(0, DataType.U32), self.count)
            self.write([], b.const(0, self.dtype))

    def begin(self, start: Value, exist: Value) -> None:
        """A tile of `exist` elements."""
        b = self.b
        self.start, self.exist = start, exist
        self.whole = b.and_(exist, ~(SUBGROUP - 1) & 0xFFFFFFFF)  # elements in rounds of 32
        self.rest = b.add(start, b.add(self.whole, self.lane))

    def load_and_scan(self, start: Value) -> tuple[list[list[Value]], Value]:
        """No more than the sum of the tile."""
        b = self.b
        self.begin(start, b.min(b.sub(self.count, start), self.schedule.tile))
        nothing = b.const(0, self.dtype)
        with b.for_(0, self.whole, SUBGROUP, carry=[nothing]) as rounds:
            rounds.yield_(b.add(rounds.args[0], b.load(self.x, self.place(rounds.index))))
        return [], subgroup_total(b, b.add(rounds.result, self.load_rest()), "add")

    def across(self, own: Value) -> tuple[Value, Value]:
        """There is one subgroup."""
        return self.b.const(0, self.dtype), own

    def write(self, runs: list[list[Value]], before: Value) -> None:
        b = self.b
        with b.for_(0, self.whole, SUBGROUP, carry=[before]) as rounds:
            place = self.place(rounds.index)
            up_to = self.lanes_scan(b.load(self.x, place))
            b.store(b.add(rounds.args[0], up_to), self.y, place)
            rounds.yield_(b.add(rounds.args[0], b.subgroup_shuffle(up_to, SUBGROUP - 1, "idx")))
        up_to = self.lanes_scan(self.load_rest())
        with b.if_(b.lt(b.add(self.whole, self.lane), self.exist)):
            b.store(b.add(rounds.result, up_to), self.y, self.rest)

    def place(self, index: Value) -> Value:
        return self.b.add(self.b.add(self.start, index), self.lane)

    def load_rest(self) -> Value:
        """The last, incomplete round of the whole array."""
        b = self.b
        exists = b.lt(b.add(self.whole, self.lane), self.exist)
        return guarded(b, exists, lambda: b.load(self.x, self.rest), lambda: b.const(0, self.dtype))


class _LookBack:
    """Tiles by ticket, and what precedes them from @state."""

    def __init__(self, scan: _Scan, state: Buffer, ticket: Buffer) -> None:
        self.scan, self.b = scan, scan.b
        self.state, self.ticket = state, ticket
        self.shared_tile = self.b.buffer("shared_tile", DataType.U32, 1, "workgroup")
        self.shared_before = self.b.buffer("shared_before", scan.dtype, 1, "workgroup")

    def build(self) -> None:
        b, scan = self.b, self.scan
        self.is_first = b.eq(b.local_id("x"), 0)
        tile = self.draw()
        with b.while_([tile]) as loop:
            loop.condition(b.lt(loop.args[0], b.len(self.state)))
            tile = loop.args[0]
            runs, own = scan.load_and_scan(b.mul(tile, scan.schedule.tile))
            before, total = scan.across(own)
            with b.if_(b.eq(scan.subgroup, 0)):
                self.settle(tile, total)
            b.barrier("workgroup")
            scan.write(runs, b.add(b.load(self.shared_before, 0), before))
            loop.yield_(self.draw())

    def draw(self) -> Value:
        """The next tile's number, the same for the whole workgroup."""
        b = self.b
        with b.if_(self.is_first):
            b.store(b.atomic_add(self.ticket, 0, 1), self.shared_tile, 0)
        b.barrier("workgroup")
        return b.load(self.shared_tile, 0)

    # --- words -----------------------------------------------------------------------------

    def value(self, word: Value) -> Value:
        bits = self.b.cast(word, DataType.U32)
        return bits if self.scan.dtype is DataType.U32 else self.b.bitcast(bits, self.scan.dtype)

    def publish(self, tile: Value, flag: Value, value: Value) -> None:
        b = self.b
        bits = value if value.type is DataType.U32 else b.bitcast(value, DataType.U32)
        with b.if_(self.is_first):
            b.atomic_exchange(self.state, tile, b.or_(b.cast(bits, DataType.U64), flag))

    # --- by the first subgroup ---------------------------------------------------------------

    def settle(self, tile: Value, total: Value) -> None:
        """Publish the tile's sum, find what precedes it, publish the sum of both."""
        b = self.b
        flag = b.select(b.eq(tile, 0), b.const(WHOLE << 32, DataType.U64), AGGREGATE << 32)
        self.publish(tile, flag, total)
        before = self.look_back(tile)
        self.publish(tile, b.const(WHOLE << 32, DataType.U64), b.add(before, total))
        with b.if_(self.is_first):
            b.store(before, self.shared_before, 0)

    def look_back(self, tile: Value) -> Value:
        """The sum of all tiles before `tile` (0 before the first), 32 at a time from the nearest back:

            lane        31 ... 2 1 0
            tile   end-32 ... end-2 end-1      end = tile, then 32 less each time

        up to the nearest lane with flag 2; lanes behind the first tile act as one.
        """
        b, dtype = self.b, self.scan.dtype
        going = b.const(True, DataType.BOOL)
        with b.while_([tile, b.const(0, dtype), going]) as loop:
            loop.condition(loop.args[2])
            end, sum_so_far, _ = loop.args
            word = self.wait_for(end)
            is_whole = b.eq(b.shr(word, 32), WHOLE)
            wholes = b.subgroup_ballot(is_whole)
            nearest = b.ctz(wholes)  # 32 where there is none: all lanes count
            counts = b.le(self.scan.lane, nearest)
            term = b.select(counts, self.value(word), b.const(0, dtype))
            window = subgroup_total(b, term, "add")
            loop.yield_(b.sub(end, SUBGROUP), b.add(sum_so_far, window), b.eq(wholes, 0))
        return loop.results[1]

    def wait_for(self, end: Value) -> Value:
        """The word of tile end - 1 - lane, once all 32 are published."""
        b = self.b
        ahead = b.add(self.scan.lane, 1)
        exists = b.le(ahead, end)
        index = b.sub(end, ahead)
        beyond = WHOLE << 32

        def read() -> Value:
            return guarded(
                b, exists, lambda: b.atomic_or(self.state, index, 0), lambda: b.const(beyond, DataType.U64)
            )

        first = read()
        with b.while_([first]) as loop:
            missing = b.subgroup_ballot(b.lt(loop.args[0], AGGREGATE << 32))
            loop.condition(b.ne(missing, 0))
            loop.yield_(read())
        return loop.result
