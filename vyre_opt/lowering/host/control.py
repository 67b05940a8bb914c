"""if, for and while inside a segment, where no barrier is.

A condition that is uniform over the subgroup becomes a branch.  Otherwise the lanes that take
a side become the mask, a side that no lane takes is skipped, and a lane that has left a loop
keeps the values it carried then.  Values that blocks yield go through stack slots, which LLVM
turns into registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir import arith
from ...ir.loops import bounds, inits
from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op, Value
from ...ir.types import DataType
from ..common import conversions, elementwise
from ..common.lane_shape import SCALAR, LaneShape, carrier
from .function_builder import ALL, FLAGS, WIDE
from .held_values import Parts
from .outline import write_block
from .subgroup_emitter import SubgroupEmitter
from .tile_loop import TileLoop

__all__ = ["CONTROL_OPS", "TripCounter", "write_for"]


class _ValueSlots:
    """Stack slots for the parts of a value, as scalars or as vectors."""

    def __init__(self, emitter: SubgroupEmitter, value: Value, shape: LaneShape) -> None:
        self.emitter = emitter
        self.builder = emitter.builder
        self.shape = shape
        self.kind = carrier(value.type.element)
        self.names = [self.builder.slot(shape.of(self.kind)) for _ in range(value.type.lanes)]

    def load(self) -> Parts:
        return tuple(self.builder.load(self.shape.of(self.kind), name) for name in self.names)

    def store(self, parts: Sequence[str]) -> None:
        for name, part in zip(self.names, parts, strict=True):
            self.builder.store(self.shape.of(self.kind), part, name)

    def store_in(self, mask: str | None, parts: Sequence[str]) -> None:
        """Store in the lanes of `mask` only."""
        olds = self.load() if mask is not None else parts
        pairs = zip(parts, olds, strict=True)
        self.store([self.builder.blend(mask, self.kind, new, old) for new, old in pairs])


# --- if


def if_(emitter: SubgroupEmitter, op: Op) -> None:
    slots = [_ValueSlots(emitter, result, emitter.shape(result)) for result in op.results]
    (_if_diverging if emitter.facts.diverges(op) else _if_uniform)(emitter, op, slots)
    for result, slot in zip(op.results, slots, strict=True):
        emitter.define(result, slot.load())


def _if_uniform(emitter: SubgroupEmitter, op: Op, slots: list[_ValueSlots]) -> None:
    w = emitter.w
    then, end = w.label("then"), w.label("endif")
    otherwise = w.label("else") if len(op.regions) > 1 else end
    w.branch_if(emitter.scalar(op.operands[0]), then, otherwise)
    for label, block in zip((then, otherwise), op.regions, strict=False):
        w.start(label)
        yields = write_block(emitter, block.ops)
        for slot, value in zip(slots, yields, strict=False):
            slot.store(emitter.get(value, slot.shape))
        w.branch(end)
    w.start(end)


def _if_diverging(emitter: SubgroupEmitter, op: Op, slots: list[_ValueSlots]) -> None:
    w, builder, outer = emitter.w, emitter.builder, emitter.mask
    condition = emitter.lane(op.operands[0])
    for slot in slots:
        # A side that no lane takes is skipped and stores nothing
        slot.store(["zeroinitializer"] * len(slot.names))
    for number, block in enumerate(op.regions):
        mask = builder.mask_and_not(outer, condition) if number else builder.mask_and(outer, condition)
        side, end = w.label("side"), w.label("endside")
        w.branch_if(builder.any_lane(mask), side, end)
        w.start(side)
        emitter.mask = mask
        yields = write_block(emitter, block.ops)
        for slot, value in zip(slots, yields, strict=False):
            # The first side may write to all lanes, as the second overwrites its own
            slot.store_in(mask if number else None, emitter.lanes(value))
        emitter.mask = outer
        w.fall_into(end)


# --- loops


class _LoopSlots:
    """The values that a loop carries, in slots.

    In a diverging loop `results` are vectors, in which a lane keeps what it had when it left.  A
    value that is uniform over the lanes still inside, or over those of a row, has a slot of that shape besides, in
    `slots`.
    """

    def __init__(self, emitter: SubgroupEmitter, op: Op) -> None:
        self.emitter = emitter
        self.op = op
        self.args = op.regions[0].args[-len(op.results) :] if op.results else ()
        self.diverges = emitter.facts.diverges(op)
        self.slots = [_ValueSlots(emitter, arg, emitter.shape(arg)) for arg in self.args]
        self.results = [
            _ValueSlots(emitter, arg, WIDE) if self.diverges and slot.shape is not WIDE else slot
            for arg, slot in zip(self.args, self.slots, strict=True)
        ]
        initial = inits(op)
        for slot, value in zip(self.slots, initial, strict=True):
            slot.store(emitter.get(value, slot.shape))
        for slot, result, value in zip(self.slots, self.results, initial, strict=True):
            if result is not slot:
                result.store(emitter.lanes(value))

    def bind(self, args: Sequence[Value]) -> None:
        for arg, slot in zip(args, self.slots, strict=True):
            self.emitter.define(arg, slot.load())

    def update(self, mask: str | None, yielded: Sequence[Value]) -> None:
        """Store the values yielded at the end of a round, in the lanes of `mask`."""
        emitter = self.emitter
        # All are read before one is stored: a loop may swap its values
        new_parts = [(emitter.get(v, s.shape), v) for v, s in zip(yielded, self.slots, strict=True)]
        for slot, result, (parts, value) in zip(self.slots, self.results, new_parts, strict=True):
            if slot.shape is not WIDE:
                slot.store(parts)
            else:
                slot.store_in(mask if self.diverges else None, parts)
            if result is not slot:
                result.store_in(mask, emitter.lanes(value))

    def finish(self) -> None:
        for result, slot in zip(self.op.results, self.results, strict=True):
            self.emitter.define(result, slot.load())


class TripCounter:
    """Counts the iterations of a `for` from 0 to `trips`, a number for the subgroup or for each lane."""

    def __init__(self, emitter: SubgroupEmitter, op: Op) -> None:
        self.emitter = emitter
        self.builder = emitter.builder
        self.op = op
        self.variable = op.regions[0].args[0]
        self.dtype = self.variable.type
        self.kind = carrier(self.dtype)
        self.shape = WIDE if emitter.facts.diverges(op) else SCALAR
        self.lower, self.upper, self.step = bounds(op)
        if isinstance(self.step, Value):
            self._check_step(self.step)
        self.trips = self._trips()
        self.slot = self.builder.slot(self.kind)
        self.builder.store(self.kind, "0", self.slot)

    def iteration(self) -> str:
        """The iteration, read at the head of the loop."""
        return self.builder.load(self.kind, self.slot)

    def advance(self, iteration: str) -> None:
        self.builder.store(self.kind, self.emitter.w.emit(f"add {self.kind} {iteration}, 1"), self.slot)

    def counter(self, iteration: str) -> str:
        """The value of the loop's own counter: lower + iteration * step."""
        w, shape = self.emitter.w, self.emitter.shape(self.variable)
        kind = shape.of(self.kind)
        offset = iteration if shape is SCALAR else self.builder.splat(self.kind, iteration, shape)
        if self.step != 1:
            offset = w.emit(f"mul {kind} {offset}, {self._bound(self.step, shape)}")
        return w.emit(f"add {kind} {self._bound(self.lower, shape)}, {offset}")

    def _bound(self, bound: int | Value, shape: LaneShape) -> str:
        if isinstance(bound, int):
            return shape.const(arith.wrap(bound, self.dtype), self.dtype)
        return self.emitter.get(bound, shape)[0]

    def _trips(self) -> str:
        """ceil((upper - lower) / step), or 0; it fits the counter's type as an unsigned number."""
        w, shape, kind = self.emitter.w, self.shape, self.shape.of(self.kind)
        lower, upper = self._bound(self.lower, shape), self._bound(self.upper, shape)
        one, none = shape.integer(self.kind, 1), shape.integer(self.kind, 0)
        not_empty = elementwise.compare(w, shape, "lt", self.dtype, lower, upper)
        count = w.emit(f"sub {kind} {upper}, {lower}")
        if self.step != 1:
            step = self._bound(self.step, shape)
            if isinstance(self.step, Value):  # a lane that is not active may hold 0
                step = w.call(f"llvm.umax.{shape.suffix(self.kind)}", kind, [(kind, step), (kind, one)])
            last = w.emit(f"sub {kind} {count}, {one}")
            count = w.emit(f"add {kind} {w.emit(f'udiv {kind} {last}, {step}')}, {one}")
        return w.emit(f"select {shape.of('i1')} {not_empty}, {kind} {count}, {kind} {none}")

    def _check_step(self, step: Value) -> None:
        """Fault unless the step is at least 1 in every active lane."""
        emitter, w = self.emitter, self.emitter.w
        shape = emitter.shape(step) if emitter.facts.is_uniform(step) else WIDE
        (step_value,) = emitter.get(step, shape)
        zero = shape.integer(self.kind, 0)
        stuck = elementwise.compare(w, shape, "le", self.dtype, step_value, zero)
        _fault_where(emitter, self.op, shape, stuck, (step_value,), self.dtype)


def for_(emitter: SubgroupEmitter, op: Op) -> None:
    if op in emitter.builder.tiles:
        _for_in_tiles(emitter, op)
    else:
        write_for([emitter], op, lambda ops: write_block(emitter, ops))


def write_for(
    emitters: Sequence[SubgroupEmitter], op: Op, write: Callable[[Sequence[Op]], Sequence[Value]]
) -> None:
    """A loop that several emitters share, all of whose lanes make equally many trips; a single one's lanes leave it when they
    have made their own number.  `write`: writes the ops of the body by all of them; gives the operands of its terminator.
    """
    emitter = emitters[0]
    w, builder, outer = emitter.w, emitter.builder, emitter.mask
    body = op.regions[0]
    trip_counter = TripCounter(emitter, op)
    slots = [_LoopSlots(each, op) for each in emitters]
    head, inside, done = w.label("for"), w.label("body"), w.label("endfor")
    w.fall_into(head)
    iteration = trip_counter.iteration()
    mask, kind = outer, trip_counter.shape.of(trip_counter.kind)
    wide = iteration if trip_counter.shape is SCALAR else builder.splat(trip_counter.kind, iteration)
    continues = w.emit(f"icmp ult {kind} {wide}, {trip_counter.trips}")
    if trip_counter.shape is WIDE:
        mask = builder.mask_and(outer, continues)
        continues = builder.any_lane(mask)
    w.branch_if(continues, inside, done)
    w.start(inside)
    counter = trip_counter.counter(iteration)
    for each, own in zip(emitters, slots, strict=True):
        each.mask = mask
        each.define(body.args[0], [counter])
        own.bind(own.args)
    outer_fetches, builder.fetches_ahead = builder.fetches_ahead, _leaps(emitter, op)
    yielded = write(body.ops)
    for own in slots:
        own.update(mask, yielded)
    builder.fetches_ahead = outer_fetches
    trip_counter.advance(iteration)
    for each in emitters:
        each.mask = outer
    w.branch(head + (f", !llvm.loop {w.module.plain_loop()}" if builder.has_plain_loops else ""))
    w.start(done)
    for own in slots:
        own.finish()


def _leaps(emitter: SubgroupEmitter, loop: Op) -> bool:
    """Whether each iteration skips the elements of other subgroups, a stride that hardware prefetchers do not follow."""
    step = bounds(loop)[2]
    return (
        isinstance(step, int) and step > SUBGROUP_SIZE and emitter.facts.stride(loop.regions[0].args[0]) == 1
    )


def _for_in_tiles(emitter: SubgroupEmitter, op: Op) -> None:
    """A loop whose iterations are equally many in all lanes, some of them at a time; see loop_tiles.py."""
    w, builder, body = emitter.w, emitter.builder, op.regions[0]
    trip_counter = TripCounter(emitter, op)
    slots = _LoopSlots(emitter, op)
    kind, extended = trip_counter.kind, "sext" if trip_counter.dtype.is_signed else "zext"

    def wide(number: str, verb: str) -> str:
        return number if kind == "i64" else w.emit(f"{verb} {kind} {number} to i64")

    trips, lower = wide(trip_counter.trips, "zext"), wide(trip_counter.counter("0"), extended)
    some, done = w.label("some"), w.label("done")
    w.branch_if(w.emit(f"icmp ne i64 {trips}, 0"), some, done)
    w.start(some)
    tiles = TileLoop(emitter, builder.tiles[op], lower, trips)
    with tiles.each() as (first, count), builder.counting("column", "i64", "0", count) as column:
        tiles.take_column(column)
        iteration = w.emit(f"add i64 {first}, {column}")
        if kind != "i64":
            iteration = w.emit(f"trunc i64 {iteration} to {kind}")
        emitter.define(body.args[0], [trip_counter.counter(iteration)])
        slots.bind(slots.args)
        slots.update(emitter.mask, write_block(emitter, body.ops))
    tiles.finish()
    w.fall_into(done)
    slots.finish()


def while_(emitter: SubgroupEmitter, op: Op) -> None:
    w, builder, outer = emitter.w, emitter.builder, emitter.mask
    condition, body = op.regions
    diverges = emitter.facts.diverges(op)
    slots = _LoopSlots(emitter, op)
    mask_slot = builder.slot(FLAGS) if diverges else ""
    if diverges:
        builder.store(FLAGS, outer or ALL, mask_slot)
    head, inside, done = w.label("while"), w.label("do"), w.label("endwhile")
    w.fall_into(head)
    if diverges:
        emitter.mask = builder.load(FLAGS, mask_slot)
    slots.bind(condition.args)
    (condition_value,) = write_block(emitter, condition.ops)
    mask = emitter.mask
    if diverges:
        mask = builder.mask_and(emitter.mask, emitter.lane(condition_value))
        w.branch_if(builder.any_lane(mask), inside, done)
    else:
        w.branch_if(emitter.scalar(condition_value), inside, done)
    w.start(inside)
    builder.exit_if_stopped(op)
    emitter.mask = mask
    for arg, source in zip(body.args, condition.args, strict=True):
        emitter.define(arg, emitter.values[source])
    slots.update(mask, write_block(emitter, body.ops))
    if diverges:
        builder.store(FLAGS, mask or ALL, mask_slot)
    emitter.mask = outer
    w.branch(head)
    w.start(done)
    slots.finish()


# --- the others


def trap(emitter: SubgroupEmitter, op: Op) -> None:
    lane, builder = emitter.first_active_lane(), emitter.builder
    kind = WIDE.of("i64")
    indices = [emitter.w.emit(f"extractelement {kind} {emitter.lane(v)}, i64 {lane}") for v in op.operands]
    builder.fault(op, lane, *indices)
    emitter.w.start(emitter.w.label("after"))


def assert_(emitter: SubgroupEmitter, op: Op) -> None:
    condition = op.operands[0]
    if emitter.facts.is_uniform(condition):
        shape, holds, always = SCALAR, emitter.scalar(condition), "true"
    else:
        shape, holds, always = WIDE, emitter.lane(condition), ALL
    fails = emitter.w.emit(f"xor {shape.of('i1')} {holds}, {always}")
    _fault_where(emitter, op, shape, fails)


def check_bounds(emitter: SubgroupEmitter, op: Op) -> None:
    if op in emitter.facts.proven:
        return
    dtype = op.operands[0].type
    if all(map(emitter.facts.is_uniform, op.operands)):
        shape, (index, length) = SCALAR, [emitter.scalar(value) for value in op.operands]
    else:
        shape, (index, length) = WIDE, [emitter.lane(value) for value in op.operands]
    outside = elementwise.compare(emitter.w, shape, "ge", dtype, index, length)
    _fault_where(emitter, op, shape, outside, (index, length), dtype)


def _fault_where(
    emitter: SubgroupEmitter,
    op: Op,
    shape: LaneShape,
    fails: str,
    recorded: Sequence[str] = (),
    dtype: DataType = DataType.U32,
) -> None:
    """Fault at `op` in the first active lane where the i1 `fails`, of a shape, is true.

    `recorded`: integers of a type, of the shape, which the record gets for that lane.
    """
    w, builder = emitter.w, emitter.builder
    if shape is SCALAR:
        bits = emitter.active_bits()
    else:
        bits = builder.mask_bits(builder.mask_and(emitter.mask, fails))
        fails = w.emit(f"icmp ne i32 {bits}, 0")
    failing, passing = w.label("fails"), w.label("holds")
    w.branch_if(fails, failing, passing)
    w.start(failing)
    lane = builder.first_lane(bits)
    kind = WIDE.type(dtype)
    ids = [
        part if shape is SCALAR else w.emit(f"extractelement {kind} {part}, i64 {lane}") for part in recorded
    ]
    builder.fault(op, lane, *(conversions.to_word(w, dtype, part) for part in ids))
    w.start(passing)


def subgroup_barrier(emitter: SubgroupEmitter, op: Op) -> None:
    """A subgroup barrier writes no code: the lanes of a subgroup run in lock step."""


def copy_wait(emitter: SubgroupEmitter, op: Op) -> None:
    """Nor does this: a CPU copies at once."""


CONTROL_OPS = {
    "if": if_,
    "for": for_,
    "while": while_,
    "trap": trap,
    "assert": assert_,
    "check_bounds": check_bounds,
    "barrier": subgroup_barrier,
    "copy_wait": copy_wait,
}
