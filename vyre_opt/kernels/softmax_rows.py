"""math.softmax: exp(x - max) / sum of exp(x - max), over rows of a number of columns.

The schedule chooses between six forms:

    a row for each group of `lanes` <= 32     short rows, in registers; no barrier
    a row for each lane, through workgroup    rows too short and of a width for which no vector load is
    memory                                    aligned: all rows of a workgroup are moved as one run
    a row for each workgroup                  one read, one write, one barrier: in registers, or in workgroup memory as
                                              loaded, where bf16 takes half the place that it takes as f32
    a row for several workgroups              wide or few rows, on a GPU: likewise
    a row for each workgroup, read twice      long rows: maximum and sum in the first pass
    a row for each subgroup, with its powers  for the CPU target, where workgroup memory is
    exp(x - max) in workgroup memory          ordinary memory that stays in the cache

The number of columns is a constant of the program, or the length of a further buffer, @row: such code is slower,
with rows that are read twice, but serves all of them.

Workgroups that share a row hold a part of it each, by turns.  A part's maximum m and its sum s of exp(x - m) are one
64-bit word of @state, m << 32 | s, written and read by atomic accesses:

    row        | part 0     | part 1     | ...      a workgroup each
    @state     | m0, s0     | m1, s1     | ...      waited for by all workgroups of the row

No such word is 0, which @state is on entry: s is at least 1, or NaN, or m is -inf.  Parts are drawn from @ticket,
so the oldest row that is not done has all parts drawn, or nothing but its own parts runs and the next workgroup
to start draws one.  Waiting ends, therefore, wherever `splits` workgroups fit at once, beside those of other streams
that wait likewise.

Lanes load vectors of `vector` consecutive elements, neighbouring lanes neighbouring vectors:

    row     | v0 | v1 | ... | v(lanes-1) | v(lanes) | ...
    lane      0    1          lanes-1      0, or the first lane of the next workgroup of the row

Computed in f32.  As in torch, a row of only -inf gives NaN, and a NaN makes its whole row NaN.
Error: a few ulp of f32 for elements that are not tiny, then one rounding to the type of @y.  A GPU may give 0 for what
is below 2^-126.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from ..ir.builder import Builder
from ..ir.ops import MAX_COLUMNS
from ..ir.program import Buffer, Program, Value
from ..ir.types import DataType
from .collective import (
    SUBGROUP,
    all_of,
    as_type,
    draw_number,
    fold_lanes,
    gather,
    guarded,
    offset,
    subgroup_total,
    wait_until_all,
)
from .softmax_schedules import (
    SoftmaxSchedule,
    check_softmax,
    general_softmax_schedule,
    softmax_schedule,
)
from .tiles import each_tile, tiles_of

__all__ = ["softmax"]

NOTHING = 0xFF800000 << 32  # -inf and 0.0, as a word
LOG2_E = 1.4426950408889634
FLUSHES = ("afn",)


@lru_cache(maxsize=256)
def softmax(
    columns: int | None,
    dtype: DataType = DataType.F32,
    schedule: SoftmaxSchedule | None = None,
    out_dtype: DataType | None = None,
) -> Program:
    """The program `softmax`: @x, @y with rows of `columns` elements; with `splits` also @state (u64, a word a
    workgroup) and @ticket (u32, one element), zero on entry.  Without `columns`, they are the length of @row (u8),
    which is not read.

    Raises ValueError for columns or a schedule out of range.
    """
    if columns is None:
        schedule = schedule or general_softmax_schedule(MAX_COLUMNS)
        check_softmax(MAX_COLUMNS, schedule)
        if schedule.in_registers or schedule.in_shared or schedule.vector > 1:
            raise ValueError(f"rows of any length are read twice, element by element: {schedule}")
    else:
        schedule = schedule or softmax_schedule(columns, dtype)
        check_softmax(columns, schedule)
    b = Builder("softmax", workgroup=schedule.lanes * schedule.rows)
    x = b.buffer("x", dtype, None, "read", 0)
    y = b.buffer("y", out_dtype or dtype, None, "write", 1, live_out=True)
    if columns is None:
        b.buffer("row", DataType.U8, None, "read", 2)
    _Softmax(b, x, y, columns or b.len("row", name="columns"), schedule).build()
    return b.finish(verify=False)


Carried = Sequence[Value]
Spots = Sequence[tuple[Value, Value | None]]
"""Index in @x of each vector of a lane, and whether it is in the row (None: it always is)."""


class _Softmax:
    """Emits the body: `row_in_registers`, `long_row` or `powers_in_shared`, by the schedule."""

    def __init__(
        self, b: Builder, x: Buffer, y: Buffer, columns: int | Value, schedule: SoftmaxSchedule
    ) -> None:
        self.b, self.x, self.y = b, x, y
        self.row_length, self.schedule = columns, schedule
        self.lanes, self.vector = schedule.lanes, schedule.vector
        self.row_lanes = schedule.lanes * schedule.splits
        # what follows is asked for only where the number is a constant
        self.columns = columns if isinstance(columns, int) else 1
        self.vectors = self.columns // schedule.vector
        self.surely = (self.columns - self.vector + 1) // self.vector if schedule.peeled else self.vectors
        self.rounds = -(-self.vectors // self.row_lanes)
        self.type = DataType.F32 if self.vector == 1 else DataType.vec(DataType.F32, self.vector)
        self.tile: Buffer | None = None
        if schedule.transposed:
            self.tile = b.buffer("rows", DataType.F32, self.columns * schedule.rows, "workgroup")
        elif schedule.in_shared and self.lanes > SUBGROUP:
            part = self.rounds * self.lanes * self.vector
            self.tile = b.buffer("part", x.dtype, part, "workgroup")
        elif schedule.in_shared:
            self.tile = b.buffer("powers", DataType.F32, self.columns, "workgroup")
        self.slots: tuple[Buffer, Buffer] | None = None
        self.shared = _SharedRow(b, schedule.splits) if schedule.splits > 1 else None
        if self.lanes > SUBGROUP:
            count = self.lanes // SUBGROUP
            self.slots = (
                b.buffer("maxima", DataType.F32, count, "workgroup"),
                b.buffer("sums", DataType.F32, count, "workgroup"),
            )

    def build(self) -> None:
        b, schedule = self.b, self.schedule
        rows = b.div(b.len(self.x), self.row_length, name="rows")
        local = b.local_id("x")
        self.lane = local if schedule.rows == 1 else b.rem(local, self.lanes, name="lane")
        if self.shared is not None:
            row, part = self.shared.draw()
            self.lane = b.add(self.lane, b.mul(part, self.lanes), name="lane")
            self.row(row, None)
            return
        with each_tile(b, tiles_of(b, rows, schedule.tile_rows), schedule.strided) as tile:
            first = b.mul(tile, schedule.tile_rows)
            if schedule.transposed:
                self.transposed_rows(first, rows)
            elif schedule.tile_rows == 1:
                self.row(tile, None)
            elif self.lanes == SUBGROUP and schedule.rows_per_thread == 1:
                # The row is uniform in a subgroup, so one branch guards all of it.  With fewer lanes all of them
                # go on, since shuffles need the whole subgroup, and loads and stores are guarded.
                row = b.add(first, b.subgroup_id(), name="row")
                with b.if_(b.lt(row, rows)):
                    self.row(row, None)
            else:
                row = b.add(first, b.div(local, self.lanes), name="row")
                group = [offset(b, row, turn * schedule.rows) for turn in range(schedule.rows_per_thread)]
                exists = [b.lt(each, rows) for each in group]
                if schedule.predicated:
                    group = [b.min(each, b.sub(rows, 1)) for each in group]
                if schedule.in_registers:
                    self.rows_in_registers(list(zip(group, exists, strict=True)))
                else:
                    self.row(group[0], exists[0])
            if schedule.strided and (self.slots or schedule.transposed):
                # the next row writes the slots or the stage, which some lane may still read
                b.barrier("workgroup")

    def row(self, row: Value, exists: Value | None) -> None:
        if self.schedule.in_registers:
            self.rows_in_registers([(row, exists)])
            return
        self.enter(row, exists)
        if self.tile is not None and self.lanes > SUBGROUP:
            self.part_in_shared(self.tile)
        elif self.tile is not None:
            self.powers_in_shared(self.tile)
        else:
            self.long_row()

    def enter(self, row: Value, exists: Value | None) -> None:
        """Compute where the row and its vectors start."""
        b = self.b
        self.start = self.first = b.mul(row, self.row_length, name="start")
        self.exists = exists
        self.count: Value | int = self.vectors
        if self.schedule.peeled:
            self.first = b.and_(b.add(self.start, self.vector - 1), -self.vector & 0xFFFFFFFF, name="first")
            self.count = b.div(b.sub(self.columns, b.sub(self.first, self.start)), self.vector, name="count")
        lane_offset = self.lane if self.vector == 1 else b.mul(self.lane, self.vector)
        self.lane_start = b.add(self.first, lane_offset, name="own")

    def edge(self) -> tuple[Value, Value]:
        """This lane's element before or behind the vectors of a peeled row: its index, and whether there is one."""
        b, most = self.b, self.vector - 1
        before, end = b.sub(self.first, self.start), b.add(self.first, b.mul(self.count, self.vector))
        is_before = b.lt(self.lane, most)
        number = b.select(is_before, self.lane, b.sub(self.lane, most))
        index = b.add(b.select(is_before, self.start, end), number)
        behind = b.sub(b.add(self.start, self.columns), end)
        return index, b.lt(number, b.select(is_before, before, behind))

    # --- loads and stores ---------------------------------------------------------------

    def vector_indices(self, first: Value | int, count: int) -> list[Value]:
        """The indices in @x of this lane's vectors in rounds `first` to `first` + `count` - 1."""
        b, step = self.b, self.row_lanes * self.vector
        if isinstance(first, int):
            start, behind = self.lane_start, first * step
        else:
            start, behind = b.add(self.lane_start, b.mul(first, step)), 0
        return [offset(b, start, behind + k * step) for k in range(count)]

    def inside(self, number: int) -> Value | None:
        """Whether this lane's vector of round `number` is in the row; None if it is for every lane."""
        b = self.b
        short = (number + 1) * self.row_lanes > self.surely
        in_row = b.lt(offset(b, self.lane, number * self.row_lanes), self.count) if short else None
        return all_of(b, self.exists, in_row)

    def load(self, index: Value, inside: Value | None, lanes: int = 0) -> Value:
        """A vector as f32; outside of the row -inf, which changes neither a maximum nor a sum of powers."""
        b, lanes = self.b, lanes or self.vector
        return guarded(b, inside, lambda: self.as_f32(b.load(self.x, index, lanes=lanes)), float("-inf"))

    def as_f32(self, value: Value) -> Value:
        return as_type(self.b, value, value.type.with_element(DataType.F32))

    def store(self, value: Value, index: Value, inside: Value | None) -> None:
        self.put(as_type(self.b, value, value.type.with_element(self.y.dtype)), self.y, index, inside)

    def put(self, value: Value, buffer: Buffer, index: Value, inside: Value | None) -> None:
        b = self.b
        if inside is None:
            b.store(value, buffer, index)
            return
        with b.if_(inside):
            b.store(value, buffer, index)

    def spread(self, value: Value, like: Value | None = None) -> Value:
        """A scalar as a vector, or as `like` is."""
        is_vector = self.vector > 1 if like is None else like.type.is_vec
        return self.b.splat(value, self.vector) if is_vector else value

    # --- arithmetic ----------------------------------------------------------------------

    def largest(self, values: Sequence[Value]) -> Value:
        """The largest element of `values`.  "nsz": x - 0.0 and x - -0.0 have the same power."""
        return fold_lanes(self.b, values, "max", ("nsz",))

    def exp(self, value: Value, maximum: Value) -> Value:
        """exp(value - maximum).  Subtracts before it scales: value * log2(e) could overflow."""
        return self.b.exp2(self.b.mul(self.b.sub(value, maximum), LOG2_E), fastmath=FLUSHES)

    def reciprocal(self, total: Value) -> Value:
        return self.b.rcp(total, fastmath=FLUSHES)

    def finite(self, maximum: Value) -> Value:
        """`maximum`, or 0 in place of -inf.

        Part of a row may be all -inf: -inf - -inf would be NaN, where -inf - 0 gives the power 0.
        """
        return self.b.select(self.b.eq(maximum, float("-inf")), 0.0, maximum)

    # --- a row in registers ---------------------------------------------------------------

    def rows_in_registers(self, rows: Sequence[tuple[Value, Value | None]]) -> None:
        """Rows, each with whether it exists; all are loaded before the first is computed."""
        loaded = []
        for row, exists in rows:
            self.enter(row, exists)
            spots = self.spots()
            widths = [self.vector] * self.rounds + [1] * self.schedule.peeled
            if self.schedule.predicated:
                safe = zip(self.indices_within(spots), widths, strict=True)
                values = [self.load(index, None, lanes) for index, lanes in safe]
            else:
                values = [self.load(*spot, lanes) for spot, lanes in zip(spots, widths, strict=True)]
            loaded.append((spots, values))
        for spots, values in loaded:
            self.row_in_registers(spots, values)

    def spots(self) -> list[tuple[Value, Value | None]]:
        """Places of this lane's vectors of the row, then of its element at the edge of a peeled row."""
        spots = [(index, self.inside(k)) for k, index in enumerate(self.vector_indices(0, self.rounds))]
        return [*spots, self.edge()] if self.schedule.peeled else spots

    def indices_within(self, spots: Spots) -> list[Value]:
        """The indices of `spots`; in place of those that are not in the row, of its start."""
        spare = [self.first] * self.rounds + [self.start]
        return [
            index if guard is None else self.b.select(guard, index, other)
            for (index, guard), other in zip(spots, spare, strict=False)
        ]

    def sum_of(self, powers: Sequence[Value], spots: Spots) -> Value:
        """The sum of this lane's powers, of vectors and perhaps a scalar."""
        b = self.b
        counts = [guard is None or not self.schedule.predicated for _, guard in spots]
        whole = [power for power, one in zip(powers[: self.rounds], counts, strict=False) if one]
        sums = [fold_lanes(b, whole, "add")] if whole else []
        for power, (_, guard), one in zip(powers, spots, counts, strict=True):
            if not one:
                edge_sum = fold_lanes(b, [power], "add") if power.type.is_vec else power
                assert guard is not None
                sums.append(b.select(guard, edge_sum, 0.0))
        return fold_lanes(b, [*sums, *(powers[self.rounds :] if counts[-1] else [])], "add")

    def row_in_registers(self, spots: Spots, values: Sequence[Value]) -> None:
        """Each subgroup takes powers against its own maximum, and the factor corrects them: so one barrier is
        enough to exchange both maxima and sums."""
        b = self.b
        width = min(self.lanes, SUBGROUP)
        rest = [values[-1]] if self.schedule.peeled else []
        lane_max = self.largest([self.largest(values[: self.rounds]), *rest])
        maximum = subgroup_total(b, lane_max, "max", width)
        base = maximum if self.slots is None else self.finite(maximum)
        powers = [self.exp(value, self.spread(base, value)) for value in values]
        total = subgroup_total(b, self.sum_of(powers, spots), "add", width)
        if self.slots is None:
            factor = self.reciprocal(total)
        else:
            largest, whole = self.exchange(maximum, total, self.slots)
            # the powers are relative to `maximum`
            factor = b.mul(self.exp(maximum, largest), self.reciprocal(whole))
        for power, (index, guard) in zip(powers, spots, strict=True):
            self.store(b.mul(power, self.spread(factor, power)), index, guard)

    def exchange(self, maximum: Value, total: Value, slots: tuple[Buffer, Buffer]) -> tuple[Value, Value]:
        """Combine the maximum and sum of each subgroup into those of the row."""
        b = self.b
        maxima, sums = slots
        with b.if_(b.eq(b.lane_id(), 0)):
            b.store(maximum, maxima, b.subgroup_id())
            b.store(total, sums, b.subgroup_id())
        b.barrier("workgroup")
        count = self.lanes // SUBGROUP
        largest, total = self.combined(
            gather(b, maxima, count, float("-inf")), gather(b, sums, count, 0.0), count
        )
        return (largest, total) if self.shared is None else self.shared.exchange(largest, total, self)

    def combined(self, maxima: Value, sums: Value, count: int) -> tuple[Value, Value]:
        """The maximum and sum of `count` parts, one a lane."""
        b = self.b
        largest = subgroup_total(b, maxima, "max")
        # A part of a row may be -inf where others are not: its sum is 0, where a whole row's is NaN.
        base = largest if self.shared is None else self.finite(largest)
        scaled = b.mul(sums, self.exp(maxima, base))
        if count < SUBGROUP:  # lanes without a part have -inf, whose power is NaN if the maximum is -inf, too
            scaled = b.select(b.lt(b.lane_id(), count), scaled, 0.0)
        return largest, subgroup_total(b, scaled, "add")

    # --- a part of a row in workgroup memory ---------------------------------------------

    def part_in_shared(self, tile: Buffer) -> None:
        """All vectors of a lane are loaded, and wait in @part as they are until the sum of the row is known.

        A lane holds its vectors as f32 by `unroll` at a time, for the maximum and sum so far and for the quotients,
        so each power is computed twice.  It reads only what it has written itself.
        """
        b, schedule = self.b, self.schedule
        spots = self.spots()
        vectors = spots[: self.rounds]
        indices = self.indices_within(spots)
        loaded = [b.load(self.x, index, lanes=self.vector) for index in indices[: self.rounds]]
        lane_offset = b.mul(b.local_id("x"), self.vector)
        slots = [offset(b, lane_offset, k * self.lanes * self.vector) for k in range(self.rounds)]
        for vector, slot in zip(loaded, slots, strict=True):
            b.store(vector, tile, slot)
        carried: Carried = [b.const(float("-inf"), DataType.F32), b.const(0.0, DataType.F32)]
        groups = range(0, self.rounds, schedule.unroll)
        for start in groups:
            group = slice(start, start + schedule.unroll)
            carried = self.gathered(carried, list(map(self.as_f32, loaded[group])), vectors[group])
        if schedule.peeled:
            rest = self.load(indices[-1], None, 1)
            carried = self.gathered(carried, [rest], spots[-1:])
        maximum, factor = self.row_total(*carried)
        wide_maximum, wide_factor = self.spread(maximum), self.spread(factor)
        for (index, guard), slot in zip(vectors, slots, strict=True):
            value = self.as_f32(b.load(tile, slot, lanes=self.vector))
            self.store(b.mul(self.exp(value, wide_maximum), wide_factor), index, guard)
        if schedule.peeled:
            self.store(b.mul(self.exp(rest, maximum), factor), *spots[-1])

    def gathered(self, carried: Carried, values: Sequence[Value], spots: Spots) -> list[Value]:
        """`carried`, a maximum and the sum of powers against it, with some clamped values of a lane."""
        b = self.b
        maximum, total = carried
        larger = self.largest([maximum, self.largest(values)])
        base = self.finite(larger)
        powers = [self.exp(value, self.spread(base, value)) for value in values]
        return [larger, b.add(b.mul(total, self.exp(maximum, base)), self.sum_of(powers, spots))]

    # --- rows through workgroup memory ------------------------------------------------------

    def transposed_rows(self, first: Value, rows: Value) -> None:
        """Move the rows from `first` on to workgroup memory, compute one a lane in place, and move them back."""
        b, schedule, stage = self.b, self.schedule, self.tile
        assert stage is not None
        start = b.mul(first, self.columns)
        exist = b.min(b.sub(rows, first), schedule.rows, name="exist")
        count = b.mul(exist, self.columns)
        local = b.local_id("x")
        spots: list[tuple[Value, Value, int]] = []  # index in the stage, whether it is used, elements
        whole = b.div(count, self.vector)
        lane_offset = b.mul(local, self.vector)
        for k in range(-(-self.columns // self.vector)):
            number = offset(b, local, k * schedule.rows)
            spots.append(
                (offset(b, lane_offset, k * schedule.rows * self.vector), b.lt(number, whole), self.vector)
            )
        if self.vector > 1:
            last = b.add(b.mul(whole, self.vector), local)
            spots.append((last, b.lt(last, count), 1))
        loaded = [self.load(b.add(start, slot), used, lanes) for slot, used, lanes in spots]
        for value, (slot, used, _) in zip(loaded, spots, strict=True):
            self.put(value, stage, slot, used)
        b.barrier("workgroup")
        with b.if_(b.lt(local, exist)):
            slots = [offset(b, b.mul(local, self.columns), k) for k in range(self.columns)]
            values = [b.load(stage, slot) for slot in slots]
            maximum = self.largest(values)
            powers = [self.exp(value, maximum) for value in values]
            factor = self.reciprocal(fold_lanes(b, powers, "add"))
            for power, slot in zip(powers, slots, strict=True):
                b.store(b.mul(power, factor), stage, slot)
        b.barrier("workgroup")
        for slot, used, lanes in spots:
            with b.if_(used):
                self.store(b.load(stage, slot, lanes=lanes), b.add(start, slot), None)

    # --- a row read twice -----------------------------------------------------------------

    def long_row(self) -> None:
        """Each lane keeps its own maximum and sum in the first pass ("online softmax"), to be combined once."""
        b = self.b
        lowest, none = b.const(float("-inf"), DataType.F32), b.const(0.0, DataType.F32)
        maximum, total = self.each_round([lowest, none], self.gather_round)
        largest, factor = self.row_total(maximum, total)
        wide_maximum, wide_factor = self.spread(largest), self.spread(factor)

        def write(_: Carried, spots: Spots) -> list[Value]:
            values = [self.load(index, guard) for index, guard in spots]
            for value, (index, guard) in zip(values, spots, strict=True):
                self.store(b.mul(self.exp(value, wide_maximum), wide_factor), index, guard)
            return []

        self.each_round([], write)

    def gather_round(self, carried: Carried, spots: Spots) -> list[Value]:
        """Add some vectors to a lane's maximum so far and its sum of powers against that maximum."""
        return self.gathered(carried, [self.load(index, guard) for index, guard in spots], spots)

    def row_total(self, maximum: Value, total: Value) -> tuple[Value, Value]:
        """Combine each lane's maximum and sum into the maximum of the row, and the reciprocal of its sum."""
        b, width = self.b, min(self.lanes, SUBGROUP)
        together = subgroup_total(b, maximum, "max", width)
        base = self.finite(together)
        total = subgroup_total(b, b.mul(total, self.exp(maximum, base)), "add", width)
        if self.slots is None:
            return together, self.reciprocal(total)
        largest, whole = self.exchange(together, total, self.slots)
        return largest, self.reciprocal(whole)

    # --- a row whose powers are in workgroup memory ---------------------------------------------

    def powers_in_shared(self, tile: Buffer) -> None:
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
                slot = b.sub(index, self.start)
                power = guarded(b, guard, partial(b.load, tile, slot, lanes=self.vector))
                self.store(b.mul(power, wide_factor), index, guard)
            return []

        (maximum,) = self.each_round([b.const(float("-inf"), DataType.F32)], find)
        wide_maximum = self.spread(subgroup_total(b, maximum, "max"))
        (total,) = self.each_round([b.const(0.0, DataType.F32)], raise_)
        wide_factor = self.spread(self.reciprocal(subgroup_total(b, total, "add")))
        self.each_round([], write)

    def each_round(self, carried: list[Value], body: Callable[[Carried, Spots], list[Value]]) -> list[Value]:
        """Emit `body` for all of this lane's vectors, `unroll` at a time: a loop, then the rest with guards.

        `body` gets the carried values, and returns them updated.
        """
        unroll = self.schedule.unroll
        if isinstance(self.row_length, Value):
            return self.each_round_of_any(carried, body, self.row_length)
        whole = self.vectors // self.lanes // unroll * unroll if self.exists is None else 0
        if whole:
            carried = self.whole_rounds(whole, carried, body)
        slots = self.vector_indices(whole, self.rounds - whole)
        rest = [(index, self.inside(number)) for number, index in enumerate(slots, whole)]
        for start in range(0, len(rest), unroll):
            carried = body(carried, rest[start : start + unroll])
        return carried

    def whole_rounds(
        self, count: int | Value, carried: list[Value], body: Callable[[Carried, Spots], list[Value]]
    ) -> list[Value]:
        """Emit `body` for `count` rounds, a multiple of `unroll`, in which every lane has a vector."""
        b, unroll = self.b, self.schedule.unroll
        with b.for_(0, count, unroll, carry=carried, dtype=DataType.U32) as loop:
            updated = body(loop.args, [(index, None) for index in self.vector_indices(loop.index, unroll)])
            if updated:
                loop.yield_(*updated)
        return list(loop.results)

    def each_round_of_any(
        self, carried: list[Value], body: Callable[[Carried, Spots], list[Value]], columns: Value
    ) -> list[Value]:
        """`each_round` for a number of columns that is known at run time."""
        b, unroll, lanes = self.b, self.schedule.unroll, self.lanes
        whole: Value | int = 0
        if self.exists is None:
            whole = b.mul(b.div(columns, lanes * unroll), unroll)
            carried = self.whole_rounds(whole, carried, body)
        with b.for_(whole, tiles_of(b, columns, lanes), carry=carried, dtype=DataType.U32) as rest:
            (index,) = self.vector_indices(rest.index, 1)
            is_inside = b.lt(b.add(self.lane, b.mul(rest.index, lanes)), columns)
            updated = body(rest.args, [(index, all_of(b, self.exists, is_inside))])
            if updated:
                rest.yield_(*updated)
        return list(rest.results)


class _SharedRow:
    """Emits what the workgroups of a row do together: draw their parts, and wait for each other's sums."""

    def __init__(self, b: Builder, splits: int) -> None:
        self.b, self.splits = b, splits
        self.state = b.buffer("state", DataType.U64, None, "read_write", 2, live_in=True)
        self.ticket = b.buffer("ticket", DataType.U32, 1, "read_write", 3, live_in=True)
        self.drawn = b.buffer("drawn", DataType.U32, 1, "workgroup")
        self.whole = b.buffer("whole", DataType.F32, 2, "workgroup")

    def draw(self) -> tuple[Value, Value]:
        """This workgroup's row, and which part of it."""
        b = self.b
        self.is_first = b.eq(b.local_id("x"), 0)
        self.number = draw_number(b, self.is_first, self.ticket, self.drawn)
        row = b.div(self.number, self.splits, name="row")
        return row, b.rem(self.number, self.splits, name="part")

    def exchange(self, maximum: Value, total: Value, row: _Softmax) -> tuple[Value, Value]:
        """Combine the maximum and sum of each workgroup into those of the row."""
        b = self.b
        with b.if_(self.is_first):
            # a part without elements may have a maximum of 0.0
            maximum = b.select(b.eq(total, 0.0), float("-inf"), maximum)
            high = b.shl(b.cast(b.bitcast(maximum, DataType.U32), DataType.U64), 32)
            word = b.or_(high, b.cast(b.bitcast(total, DataType.U32), DataType.U64))
            b.atomic_exchange(self.state, self.number, word)
        with b.if_(b.eq(b.subgroup_id(), 0)):
            maxima, sums = zip(*self.words(), strict=True)
            # of two words a lane, the sums are first made relative to one maximum
            larger = row.largest(maxima)
            base = row.finite(larger)
            scaled = [b.mul(s, row.exp(m, base)) for m, s in zip(maxima, sums, strict=True)]
            both = scaled[0] if len(scaled) == 1 else b.add(*scaled)
            largest, whole = row.combined(larger, both, min(self.splits, SUBGROUP))
            with b.if_(self.is_first):
                b.store(largest, self.whole, 0)
                b.store(whole, self.whole, 1)
        b.barrier("workgroup")
        return b.load(self.whole, 0), b.load(self.whole, 1)

    def words(self) -> list[tuple[Value, Value]]:
        """Maximum and sum of the parts `lane`, `lane` + 32, ... of the row; -inf and 0 where there is none."""
        b = self.b
        first = b.sub(self.number, b.rem(self.number, self.splits))
        pairs: list[tuple[Value, Value]] = []
        for start in range(0, self.splits, SUBGROUP):
            part = offset(b, b.lane_id(), start)
            exists = b.lt(part, self.splits) if start + SUBGROUP > self.splits else None
            word = self.wait_for(b.add(first, part), exists)
            maximum = b.bitcast(b.cast(b.shr(word, 32), DataType.U32), DataType.F32)
            pairs.append((maximum, b.bitcast(b.cast(word, DataType.U32), DataType.F32)))
        return pairs

    def wait_for(self, index: Value, exists: Value | None) -> Value:
        """The word at `index`, read again until the words of all lanes are there."""
        b = self.b

        def read() -> list[Value]:
            return [guarded(b, exists, lambda: b.atomic_or(self.state, index, 0), NOTHING)]

        (word,) = wait_until_all(b, read, lambda word: b.eq(word, 0))
        return word
