"""if, for and while inside a chunk, where no barrier is.

Where the chunk agrees on a condition it is a branch.  Elsewhere the lanes that go on
become the mask, a side that no lane takes is skipped, and what a lane carried when it
left a loop stays as it was.  Values that blocks pass on go through stack slots, which
LLVM turns into registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import arith
from ...ir.loops import bounds, inits
from ...ir.program import Op, Value
from ...ir.types import DataType
from ..common import conversions, elementwise
from ..common.lane_shape import SCALAR, LaneShape, carrier
from .function_builder import ALL, FLAGS, WIDE
from .subgroup_emitter import Parts, SubgroupEmitter

__all__ = ["CONTROL", "Rounds"]


class _Slot:
    """A stack slot for a value in a shape."""

    def __init__(self, c: SubgroupEmitter, value: Value, shape: LaneShape) -> None:
        self.c = c
        self.shape = shape
        self.kind = carrier(value.type.element)
        self.names = [c.frame.slot(shape.of(self.kind)) for _ in range(value.type.lanes)]

    def load(self) -> Parts:
        return tuple(self.c.frame.load(self.shape.of(self.kind), name) for name in self.names)

    def store(self, parts: Sequence[str]) -> None:
        for name, part in zip(self.names, parts, strict=True):
            self.c.frame.store(self.shape.of(self.kind), part, name)

    def store_in(self, mask: str | None, parts: Sequence[str]) -> None:
        """Store in the lanes of `mask` only."""
        olds = self.load() if mask is not None else parts
        pairs = zip(parts, olds, strict=True)
        self.store([self.c.frame.blend(mask, self.kind, new, old) for new, old in pairs])


# --- if


def if_(c: SubgroupEmitter, op: Op) -> None:
    slots = [_Slot(c, result, c.shape(result)) for result in op.results]
    (_if_diverging if c.facts.diverges(op) else _if_alike)(c, op, slots)
    for result, slot in zip(op.results, slots, strict=True):
        c.define(result, slot.load())


def _if_alike(c: SubgroupEmitter, op: Op, slots: list[_Slot]) -> None:
    w = c.w
    then, end = w.label("then"), w.label("endif")
    other = w.label("else") if len(op.regions) > 1 else end
    w.branch_if(c.scalar(op.operands[0]), then, other)
    for label, block in zip((then, other), op.regions, strict=False):
        w.start(label)
        given = c.ops(block.ops)
        for slot, value in zip(slots, given, strict=False):
            slot.store(c.take(value, slot.shape))
        w.branch(end)
    w.start(end)


def _if_diverging(c: SubgroupEmitter, op: Op, slots: list[_Slot]) -> None:
    w, outer, condition = c.w, c.mask, c.lane(op.operands[0])
    for slot in slots:
        slot.store(["zeroinitializer"] * len(slot.names))
    for number, block in enumerate(op.regions):
        mask = c.frame.neither(outer, condition) if number else c.frame.both(outer, condition)
        side, end = w.label("side"), w.label("endside")
        w.branch_if(c.frame.any(mask), side, end)
        w.start(side)
        c.mask = mask
        given = c.ops(block.ops)
        for slot, value in zip(slots, given, strict=False):
            slot.store_in(mask if number else None, c.lanes(value))
        c.mask = outer
        w.branch(end)
        w.start(end)


# --- loops


class _Carried:
    """The values that a loop carries, in slots.

    In a diverging loop `results` are lanes that keep what they had when they left; a
    value that the lanes still inside agree on has a scalar slot beside it.
    """

    def __init__(self, c: SubgroupEmitter, op: Op) -> None:
        self.c = c
        self.op = op
        self.args = op.regions[0].args[-len(op.results) :] if op.results else ()
        self.diverges = c.facts.diverges(op)
        self.slots = [_Slot(c, arg, c.shape(arg)) for arg in self.args]
        self.results = [
            _Slot(c, arg, WIDE) if self.diverges and slot.shape is SCALAR else slot
            for arg, slot in zip(self.args, self.slots, strict=True)
        ]
        initial = inits(op)
        for slot, value in zip(self.slots, initial, strict=True):
            slot.store(c.take(value, slot.shape))
        for slot, result, value in zip(self.slots, self.results, initial, strict=True):
            if result is not slot:
                result.store(c.lanes(value))

    def bind(self, args: Sequence[Value]) -> None:
        for arg, slot in zip(args, self.slots, strict=True):
            self.c.define(arg, slot.load())

    def update(self, mask: str | None, given: Sequence[Value]) -> None:
        """Carry `given` on, in the lanes of `mask`."""
        c = self.c
        taken = [(c.take(v, s.shape), v) for v, s in zip(given, self.slots, strict=True)]
        for slot, result, (parts, value) in zip(self.slots, self.results, taken, strict=True):
            if slot.shape is SCALAR:
                slot.store(parts)
            else:
                slot.store_in(mask if self.diverges else None, parts)
            if result is not slot:
                result.store_in(mask, c.lanes(value))

    def finish(self) -> None:
        for result, slot in zip(self.op.results, self.results, strict=True):
            self.c.define(result, slot.load())


class Rounds:
    """The rounds of a `for`, counted from 0: `trips` of them, for the chunk or for each lane."""

    def __init__(self, c: SubgroupEmitter, op: Op) -> None:
        self.c = c
        self.op = op
        self.variable = op.regions[0].args[0]
        self.dtype = self.variable.type
        self.kind = carrier(self.dtype)
        self.shape = WIDE if c.facts.diverges(op) else SCALAR
        self.lower, self.upper, self.step = bounds(op)
        if isinstance(self.step, Value):
            self._check_step(self.step)
        self.trips = self._trips()
        self.slot = c.frame.slot(self.kind)
        c.frame.store(self.kind, "0", self.slot)

    def number(self) -> str:
        """The number of the round, at the head of the loop."""
        return self.c.frame.load(self.kind, self.slot)

    def advance(self, number: str) -> None:
        self.c.frame.store(self.kind, self.c.w.emit(f"add {self.kind} {number}, 1"), self.slot)

    def counter(self, number: str) -> str:
        """lower + number * step."""
        w, shape = self.c.w, self.c.shape(self.variable)
        kind = shape.of(self.kind)
        moved = number if shape is SCALAR else self.c.frame.splat(self.kind, number)
        if self.step != 1:
            moved = w.emit(f"mul {kind} {moved}, {self._bound(self.step, shape)}")
        return w.emit(f"add {kind} {self._bound(self.lower, shape)}, {moved}")

    def _bound(self, bound: int | Value, shape: LaneShape) -> str:
        if isinstance(bound, int):
            return shape.const(arith.wrap(bound, self.dtype), self.dtype)
        return self.c.take(bound, shape)[0]

    def _trips(self) -> str:
        """ceil((upper - lower) / step), or 0; it fits the counter's type as an unsigned number."""
        w, shape, kind = self.c.w, self.shape, self.shape.of(self.kind)
        lower, upper = self._bound(self.lower, shape), self._bound(self.upper, shape)
        one, none = shape.integer(self.kind, 1), shape.integer(self.kind, 0)
        some = elementwise.compare(w, shape, "lt", self.dtype, lower, upper)
        count = w.emit(f"sub {kind} {upper}, {lower}")
        if self.step != 1:
            step = self._bound(self.step, shape)
            if isinstance(self.step, Value):  # a lane that is not active may hold 0
                step = w.call(f"llvm.umax.{shape.suffix(self.kind)}", kind, [(kind, step), (kind, one)])
            last = w.emit(f"sub {kind} {count}, {one}")
            count = w.emit(f"add {kind} {w.emit(f'udiv {kind} {last}, {step}')}, {one}")
        return w.emit(f"select {shape.of('i1')} {some}, {kind} {count}, {kind} {none}")

    def _check_step(self, step: Value) -> None:
        """It is at least 1 in every active lane."""
        c, w, frame = self.c, self.c.w, self.c.frame
        shape = c.shape(step) if c.facts.alike(step) else WIDE
        (held,) = c.take(step, shape)
        stuck = elementwise.compare(w, shape, "le", self.dtype, held, shape.integer(self.kind, 0))
        bits = c.active_bits() if shape is SCALAR else frame.bits(frame.both(c.mask, stuck))
        some = stuck if shape is SCALAR else w.emit(f"icmp ne i32 {bits}, 0")
        bad, good = w.label("stuck"), w.label("counts")
        w.branch_if(some, bad, good)
        w.start(bad)
        lane = frame.first_lane(bits)
        if shape is WIDE:
            held = w.emit(f"extractelement {WIDE.of(self.kind)} {held}, i64 {lane}")
        word = DataType.I64 if self.dtype.is_signed else DataType.U64
        frame.fault(self.op, lane, conversions.convert(w, SCALAR, self.dtype, word, held))
        w.start(good)


def for_(c: SubgroupEmitter, op: Op) -> None:
    """A lane leaves when its own number of rounds is reached."""
    w, frame, outer = c.w, c.frame, c.mask
    body = op.regions[0]
    rounds = Rounds(c, op)
    carried = _Carried(c, op)
    head, inside, done = w.label("for"), w.label("body"), w.label("endfor")
    w.branch(head)
    w.start(head)
    number = rounds.number()
    mask, kind = outer, rounds.shape.of(rounds.kind)
    wide = number if rounds.shape is SCALAR else frame.splat(rounds.kind, number)
    goes_on = w.emit(f"icmp ult {kind} {wide}, {rounds.trips}")
    if rounds.shape is WIDE:
        mask = frame.both(outer, goes_on)
        goes_on = frame.any(mask)
    w.branch_if(goes_on, inside, done)
    w.start(inside)
    c.mask = mask
    c.define(body.args[0], [rounds.counter(number)])
    carried.bind(carried.args)
    carried.update(mask, c.ops(body.ops))
    rounds.advance(number)
    c.mask = outer
    w.branch(head)
    w.start(done)
    carried.finish()


def while_(c: SubgroupEmitter, op: Op) -> None:
    w, frame, outer = c.w, c.frame, c.mask
    condition, body = op.regions
    diverges = c.facts.diverges(op)
    carried = _Carried(c, op)
    staying = frame.slot(FLAGS) if diverges else ""
    if diverges:
        frame.store(FLAGS, outer or ALL, staying)
    head, inside, done = w.label("while"), w.label("do"), w.label("endwhile")
    w.branch(head)
    w.start(head)
    if diverges:
        c.mask = frame.load(FLAGS, staying)
    carried.bind(condition.args)
    (holds,) = c.ops(condition.ops)
    mask = c.mask
    if diverges:
        mask = frame.both(c.mask, c.lane(holds))
        w.branch_if(frame.any(mask), inside, done)
    else:
        w.branch_if(c.scalar(holds), inside, done)
    w.start(inside)
    frame.leave_if_stopped(op)
    c.mask = mask
    for arg, source in zip(body.args, condition.args, strict=True):
        c.define(arg, c.held[source])
    carried.update(mask, c.ops(body.ops))
    if diverges:
        frame.store(FLAGS, mask or ALL, staying)
    c.mask = outer
    w.branch(head)
    w.start(done)
    carried.finish()


# --- the others


def trap(c: SubgroupEmitter, op: Op) -> None:
    c.frame.fault(op, c.first_active())
    c.w.start(c.w.label("after"))


def nothing(c: SubgroupEmitter, op: Op) -> None:
    """A subgroup barrier: the lanes of a chunk never part."""


CONTROL = {"if": if_, "for": for_, "while": while_, "trap": trap, "barrier": nothing}
