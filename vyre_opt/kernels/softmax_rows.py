"""math.softmax: exp(x - max) / sum of exp(x - max), over rows of a fixed number of columns.

The schedule chooses between four forms:

    a row for each group of `lanes` <= 32     short rows, in registers; no barrier
    a row for each workgroup, in registers    one read, one write, one barrier
    a row for each workgroup, read twice      long rows: maximum and sum in the first pass
    a row for each subgroup, with its powers  for the CPU target, where workgroup memory is
    exp(x - max) in workgroup memory          ordinary memory that stays in the cache

Lanes load vectors of `vector` consecutive elements, neighbouring lanes neighbouring vectors:

    row     | v0 | v1 | ... | v(lanes-1) | v(lanes) | ...
    lane      0    1          lanes-1      0

Computed in f32.  As in torch, a row of only -inf gives NaN, and a NaN makes its whole row NaN.
Error: a few ulp of f32 for elements that are not tiny, then one rounding to the type of @y.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from ..ir.builder import Builder
from ..ir.program import Buffer, Program, Value
from ..ir.types import DataType
from .collective import (
    SUBGROUP,
    all_of,
    as_type,
    butterfly,
    fold_lanes,
    gather,
    guarded,
    offset,
    subgroup_total,
)
from .tiles import each_tile, tiles_of

__all__ = ["MAX_COLUMNS", "SoftmaxSchedule", "softmax", "softmax_grid", "softmax_schedule"]

MAX_COLUMNS = 1 << 18
LOG2_E = 1.4426950408889634
MAX_TILE = 1 << 15  # powers in workgroup memory: 128 KiB, which GPUs have too
MAX_KEPT = 64  # f32 values that a lane may hold in registers
RESIDENT = 2048  # invocations that a multiprocessor holds
MOST_IN_FLIGHT = 112 << 10  # bytes that the loads in flight of a multiprocessor should not exceed
MANY_ROWS = 1 << 10  # several for each workgroup that a GPU can run at once


@dataclass(frozen=True)
class SoftmaxSchedule:
    """How rows are distributed over lanes.

    `lanes`: that share a row, a power of two up to 32, or a multiple of 32.
    `rows`: of a workgroup; 1 for more than 32 lanes.
    `vector`: elements of a load, a divisor of the columns.
    `kept`: the row stays in registers between its passes; otherwise it is read again for each pass, with
    `unroll` loads of a lane in flight.
    `tile`: with 32 lanes, one row, and not `kept`: the powers are in workgroup memory until their sum is known.
    `strided`: right for every grid, not only for `softmax_grid` workgroups.
    """

    lanes: int
    rows: int = 1
    vector: int = 1
    kept: bool = True
    unroll: int = 4
    tile: bool = False
    strided: bool = False


def softmax_schedule(
    columns: int, dtype: DataType, target: str = "", rows: int | None = None
) -> SoftmaxSchedule:
    """The default schedule: 16-byte loads, two or more for each lane, about 16 values a lane, few idle lanes.

    More bytes in flight than a multiprocessor needs cost an H100 up to 1 % of its bandwidth.  So 8 values a
    lane are enough for wide rows of f32.  Of many rows of the widest kind a multiprocessor should do one at
    a time: with 24 values a lane, the registers do not allow a second workgroup.
    """
    if (
        target == "cpu" and columns >= 256
    ):  # a subgroup is a SIMD register: its lanes read neighbouring elements
        if columns > MAX_TILE:
            return SoftmaxSchedule(lanes=32, rows=1, vector=1, kept=False)
        return SoftmaxSchedule(lanes=32, rows=1, vector=1, kept=False, unroll=2, tile=True)
    size = dtype.size_bytes or 4
    vector = 16 // size
    while columns % vector:
        vector //= 2
    vectors = columns // vector
    if columns <= 1024 and vectors <= SUBGROUP * 8:
        lanes = min(SUBGROUP, 1 << (vectors - 1).bit_length())
        return SoftmaxSchedule(lanes, 128 // lanes, vector)
    rounds = [r for r in range(1, 33) if r * vector <= 32 and -(-vectors // r) <= 1024]
    if not rounds:
        return SoftmaxSchedule(1024, 1, vector, kept=False)

    is_alone = columns * size > MOST_IN_FLIGHT // 2 and (rows or 0) >= MANY_ROWS
    ideal = 24 if is_alone else 8 if size == 4 and vectors >= 1024 else 16

    def cost(r: int) -> tuple[bool, bool, bool, int, int]:
        lanes = _whole_subgroups(-(-vectors // r))
        idle = lanes * r - vectors
        # with 16 bytes in flight per lane an H100 reads bf16 at 0.85 of the bandwidth that 32 reach
        few = r * vector * size < 32
        # up to 16 values a lane leave registers for a second workgroup, whose loads add to those in flight
        many = is_alone and r * vector <= 16
        # workgroups of this size would leave more than a fifth of a multiprocessor empty
        empty = not is_alone and RESIDENT % lanes > RESIDENT // 5
        return few, many, empty, idle * 16 // vectors, abs(r * vector - ideal)

    best = min(rounds, key=cost)
    return SoftmaxSchedule(_whole_subgroups(-(-vectors // best)), 1, vector)


def _whole_subgroups(lanes: int) -> int:
    return -(-lanes // SUBGROUP) * SUBGROUP


def softmax_grid(schedule: SoftmaxSchedule, rows: int) -> int:
    """Workgroups for `rows` rows."""
    return max(1, -(-rows // schedule.rows))


@lru_cache(maxsize=256)
def softmax(
    columns: int,
    dtype: DataType = DataType.F32,
    schedule: SoftmaxSchedule | None = None,
    out_dtype: DataType | None = None,
) -> Program:
    """The program `softmax`: @x, @y with rows of `columns` elements.

    Raises ValueError for columns or a schedule out of range.
    """
    schedule = schedule or softmax_schedule(columns, dtype)
    _check(columns, schedule)
    b = Builder("softmax", workgroup=schedule.lanes * schedule.rows)
    x = b.buffer("x", dtype, None, "read", 0)
    y = b.buffer("y", out_dtype or dtype, None, "write", 1, live_out=True)
    _Softmax(b, x, y, columns, schedule).build()
    return b.finish(verify=False)


def _check(columns: int, schedule: SoftmaxSchedule) -> None:
    lanes, vector = schedule.lanes, schedule.vector
    if not 1 <= columns <= MAX_COLUMNS:
        raise ValueError(f"softmax takes rows of 1 to {MAX_COLUMNS} columns, not {columns}")
    if columns % vector:
        raise ValueError(f"vectors of {vector} do not divide rows of {columns}")
    if lanes > SUBGROUP and (lanes % SUBGROUP or schedule.rows != 1 or lanes > 1024):
        raise ValueError(f"more than 32 lanes are a multiple of 32 and share one row: {schedule}")
    if lanes <= SUBGROUP and (lanes < 1 or lanes & (lanes - 1) or lanes * schedule.rows % SUBGROUP):
        raise ValueError(f"up to 32 lanes are a power of two and their rows fill subgroups: {schedule}")
    if schedule.tile and (schedule.kept or lanes != SUBGROUP or schedule.rows != 1):
        raise ValueError(f"powers in a tile are those of one row, not kept, of 32 lanes: {schedule}")
    held = -(-columns // (lanes * vector)) * vector
    if schedule.kept and held > MAX_KEPT:
        raise ValueError(f"a lane would keep {held} values in registers, more than {MAX_KEPT}: {schedule}")


Carried = Sequence[Value]
Spots = Sequence[tuple[Value, Value | None]]
"""For each vector of a lane: its index in @x, and whether it is in the row (None: it always is)."""


class _Softmax:
    """Emits the body: `kept_row`, `long_row` or `tiled_row`, by the schedule."""

    def __init__(self, b: Builder, x: Buffer, y: Buffer, columns: int, schedule: SoftmaxSchedule) -> None:
        self.b, self.x, self.y = b, x, y
        self.columns, self.schedule = columns, schedule
        self.lanes, self.vector = schedule.lanes, schedule.vector
        self.vectors = columns // schedule.vector
        self.rounds = -(-self.vectors // self.lanes)
        self.type = DataType.F32 if self.vector == 1 else DataType.vec(DataType.F32, self.vector)
        self.tile = b.buffer("powers", DataType.F32, columns, "workgroup") if schedule.tile else None
        self.slots: tuple[Buffer, Buffer] | None = None
        if self.lanes > SUBGROUP:
            count = self.lanes // SUBGROUP
            self.slots = (
                b.buffer("maxima", DataType.F32, count, "workgroup"),
                b.buffer("sums", DataType.F32, count, "workgroup"),
            )

    def build(self) -> None:
        b, schedule = self.b, self.schedule
        rows = b.div(b.len(self.x), self.columns, name="rows")
        local = b.local_id("x")
        self.lane = local if schedule.rows == 1 else b.rem(local, self.lanes, name="lane")
        with each_tile(b, tiles_of(b, rows, schedule.rows), schedule.strided) as tile:
            if schedule.rows == 1:
                self.row(tile, None)
            else:
                # With 32 lanes the row is uniform in a subgroup, so one branch guards all of it; with fewer
                # all lanes go on, since shuffles need the whole subgroup, and loads and stores are guarded.
                row = b.add(b.mul(tile, schedule.rows), b.div(local, self.lanes), name="row")
                exists = b.lt(row, rows)
                if self.lanes == SUBGROUP:
                    whole = b.add(b.mul(tile, schedule.rows), b.subgroup_id(), name="row")
                    with b.if_(b.lt(whole, rows)):
                        self.row(whole, None)
                else:
                    self.row(row, exists)
            if (
                schedule.strided and self.slots
            ):  # the next row writes the slots, which some lane may still read
                b.barrier("workgroup")

    def row(self, row: Value, exists: Value | None) -> None:
        self.start = self.b.mul(row, self.columns, name="start")
        self.exists = exists
        if self.schedule.kept:
            self.kept_row()
        elif self.tile is not None:
            self.tiled_row(self.tile)
        else:
            self.long_row()

    # --- loads and stores ---------------------------------------------------------------

    def place(self, number: Value | int) -> tuple[Value, Value]:
        """The vector of this lane in round `number`: its number in the row, and its index in @x."""
        b = self.b
        if isinstance(number, int):
            first = offset(b, self.lane, number * self.lanes)
        else:
            first = b.add(self.lane, b.mul(number, self.lanes))
        column = first if self.vector == 1 else b.mul(first, self.vector)
        return first, b.add(self.start, column)

    def inside(self, first: Value, number: int) -> Value | None:
        """Whether vector `first`, of round `number`, is in the row; None if it is for every lane."""
        short = (number + 1) * self.lanes > self.vectors
        return all_of(self.b, self.exists, self.b.lt(first, self.vectors) if short else None)

    def load(self, index: Value, inside: Value | None) -> Value:
        """A vector as f32; outside of the row -inf, which changes neither a maximum nor a sum of powers."""
        b, lanes = self.b, self.vector
        return guarded(
            b, inside, lambda: as_type(b, b.load(self.x, index, lanes=lanes), self.type), float("-inf")
        )

    def store(self, value: Value, index: Value, inside: Value | None) -> None:
        self.put(as_type(self.b, value, self.type.with_element(self.y.dtype)), self.y, index, inside)

    def put(self, value: Value, buffer: Buffer, index: Value, inside: Value | None) -> None:
        b = self.b
        if inside is None:
            b.store(value, buffer, index)
            return
        with b.if_(inside):
            b.store(value, buffer, index)

    def spread(self, value: Value) -> Value:
        return value if self.vector == 1 else self.b.splat(value, self.vector)

    # --- arithmetic ----------------------------------------------------------------------

    def largest(self, values: Sequence[Value]) -> Value:
        """The largest element of `values`.  "nsz": x - 0.0 and x - -0.0 have the same power."""
        return fold_lanes(self.b, values, "max", ("nsz",))

    def exp(self, value: Value, maximum: Value) -> Value:
        """exp(value - maximum).  Subtracts before it scales: value * log2(e) could overflow."""
        return self.b.exp2(self.b.mul(self.b.sub(value, maximum), LOG2_E))

    def finite(self, maximum: Value) -> Value:
        """`maximum`, or 0 in place of -inf.

        Part of a row may be all -inf: -inf - -inf would be NaN, where -inf - 0 gives the power 0.
        """
        return self.b.select(self.b.eq(maximum, float("-inf")), 0.0, maximum)

    # --- a row in registers ---------------------------------------------------------------

    def kept_row(self) -> None:
        """Each subgroup takes powers against its own maximum, and the factor corrects them: so one barrier is
        enough to exchange both maxima and sums."""
        b = self.b
        spots = [(*self.place(k), k) for k in range(self.rounds)]
        guards = [self.inside(first, k) for first, _, k in spots]
        values = [self.load(index, g) for (_, index, _), g in zip(spots, guards, strict=True)]
        width = min(self.lanes, SUBGROUP)
        maximum = subgroup_total(b, self.largest(values), "max", width)
        base = maximum if self.slots is None else self.finite(maximum)
        powers = [self.exp(value, self.spread(base)) for value in values]
        total = butterfly(b, fold_lanes(b, powers, "add"), "add", width)
        if self.slots is None:
            factor = b.rcp(total)
        else:
            largest, share = self.exchange(maximum, total, self.slots)
            factor = b.mul(self.exp(maximum, largest), share)  # the powers are relative to `maximum`
        wide = self.spread(factor)
        for power, (_, index, _), guard in zip(powers, spots, guards, strict=True):
            self.store(b.mul(power, wide), index, guard)

    def exchange(self, maximum: Value, total: Value, slots: tuple[Buffer, Buffer]) -> tuple[Value, Value]:
        """From the maximum and sum of each subgroup: the maximum of the row, and 1 / (sum of the row)."""
        b = self.b
        maxima, sums = slots
        with b.if_(b.eq(b.lane_id(), 0)):
            b.store(maximum, maxima, b.subgroup_id())
            b.store(total, sums, b.subgroup_id())
        b.barrier("workgroup")
        count = self.lanes // SUBGROUP
        theirs = gather(b, maxima, count, float("-inf"))
        largest = subgroup_total(b, theirs, "max")
        scaled = b.mul(gather(b, sums, count, 0.0), self.exp(theirs, largest))
        if count < SUBGROUP:  # lanes without a slot have -inf, whose power is NaN if the maximum is -inf, too
            scaled = b.select(b.lt(b.lane_id(), count), scaled, 0.0)
        return largest, b.rcp(butterfly(b, scaled, "add"))

    # --- a row read twice -----------------------------------------------------------------

    def long_row(self) -> None:
        """Each lane keeps its own maximum and sum in the first pass ("online softmax"), to be combined once."""
        b = self.b
        lowest, none = b.const(float("-inf"), DataType.F32), b.const(0.0, DataType.F32)
        maximum, total = self.each_round([lowest, none], self.gather_round)
        width = min(self.lanes, SUBGROUP)
        together = subgroup_total(b, maximum, "max", width)
        base = self.finite(together)
        total = butterfly(b, b.mul(total, self.exp(maximum, base)), "add", width)
        if self.slots is None:
            largest, factor = together, b.rcp(total)
        else:
            largest, factor = self.exchange(together, total, self.slots)
        wide_maximum, wide_factor = self.spread(largest), self.spread(factor)

        def write(_: Carried, spots: Spots) -> list[Value]:
            values = [self.load(index, guard) for index, guard in spots]
            for value, (index, guard) in zip(values, spots, strict=True):
                self.store(b.mul(self.exp(value, wide_maximum), wide_factor), index, guard)
            return []

        self.each_round([], write)

    def gather_round(self, carried: Carried, spots: Spots) -> list[Value]:
        """Add some vectors to a lane's maximum so far and its sum of powers against that maximum."""
        b = self.b
        maximum, total = carried
        values = [self.load(index, guard) for index, guard in spots]
        larger = self.largest([maximum, self.largest(values)])
        base = self.finite(larger)
        powers = [self.exp(value, self.spread(base)) for value in values]
        rescaled = b.mul(total, self.exp(maximum, base))
        return [larger, b.add(rescaled, fold_lanes(b, powers, "add"))]

    # --- a row whose powers are in workgroup memory ---------------------------------------------

    def tiled_row(self, tile: Buffer) -> None:
        """Three passes: maximum, powers and their sum, quotients.  Each power is computed only once.

        A lane reads only what it has written itself, so there is no barrier.
        """
        b = self.b

        def find(carried: Carried, spots: Spots) -> list[Value]:
            values = [self.load(index, guard) for index, guard in spots]
            return [self.largest([carried[0], self.largest(values)])]

        def raise_(carried: Carried, spots: Spots) -> list[Value]:
            powers = [self.exp(self.load(index, guard), wide_maximum) for index, guard in spots]
            for power, (index, guard) in zip(powers, spots, strict=True):
                self.put(power, tile, b.sub(index, self.start), guard)
            return [b.add(carried[0], fold_lanes(b, powers, "add"))]

        def write(_: Carried, spots: Spots) -> list[Value]:
            for index, guard in spots:
                place = b.sub(index, self.start)
                power = guarded(b, guard, partial(b.load, tile, place, lanes=self.vector))
                self.store(b.mul(power, wide_factor), index, guard)
            return []

        (maximum,) = self.each_round([b.const(float("-inf"), DataType.F32)], find)
        wide_maximum = self.spread(subgroup_total(b, maximum, "max"))
        (total,) = self.each_round([b.const(0.0, DataType.F32)], raise_)
        wide_factor = self.spread(b.rcp(butterfly(b, total, "add")))
        self.each_round([], write)

    def each_round(self, carried: list[Value], body: Callable[[Carried, Spots], list[Value]]) -> list[Value]:
        """Emit `body` for all of this lane's vectors, `unroll` at a time: a loop, then the rest with guards.

        `body` gets the carried values, and returns them updated.
        """
        unroll = self.schedule.unroll
        whole = self.vectors // self.lanes // unroll * unroll if self.exists is None else 0
        if whole:
            with self.b.for_(0, whole, unroll, carry=carried) as loop:
                numbers = [loop.index, *(self.b.add(loop.index, u) for u in range(1, unroll))]
                updated = body(loop.args, [(self.place(n)[1], None) for n in numbers])
                if updated:
                    loop.yield_(*updated)
            carried = list(loop.results)
        rest = []
        for number in range(whole, self.rounds):
            first, index = self.place(number)
            rest.append((index, self.inside(first, number)))
        for start in range(0, len(rest), unroll):
            carried = body(carried, rest[start : start + unroll])
        return carried
