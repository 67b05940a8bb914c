"""Ops across the 32 lanes of a subgroup: a chunk is one.

Combining is in lane order.  Where the order cannot be seen (integers, min and max) it
takes five steps, each over twice the distance; a float sum takes its 31 steps.  Lanes
that the subgroup lacks hold the combiner's identity meanwhile.
"""

from __future__ import annotations

from ...ir import arith
from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op
from ...ir.types import DataType
from ..common import elementwise
from ..common.lane_shape import SCALAR, LaneShape, carrier
from . import runtime_functions
from .function_builder import ALL, WIDE
from .subgroup_emitter import SubgroupEmitter

__all__ = ["SUBGROUP_OPS"]


def _identity(combine: str, dtype: DataType, first: bool = False) -> str:
    """What an absent lane holds: it changes nothing, not even -0.0 or a NaN.

    `first`: what an exclusive scan gives to lane 0.
    """
    if dtype.is_float:
        inf, nan = float("inf"), float("nan")
        names = {"add": 0.0, "mul": 1.0, "min": inf, "max": -inf}
        value = names[combine] if first else {**names, "add": -0.0, "min": nan, "max": nan}[combine]
        return SCALAR.real(carrier(dtype), value)
    low, high = arith.int_range(dtype)
    ones = -1 if dtype.is_signed else high
    number = {"add": 0, "mul": 1, "min": high, "max": low, "and": ones, "or": 0, "xor": 0}[combine]
    return SCALAR.const(number, dtype)


def _laid(emitter: SubgroupEmitter, op: Op) -> str:
    """The operand in every lane, the identity where there is no lane."""
    value, dtype = op.operands[0], op.operands[0].type
    held = emitter.lane(value)
    if emitter.mask is None:
        return held
    kind = carrier(dtype)
    absent = WIDE.splat(kind, _identity(op.attrs["combine"], dtype))
    return emitter.builder.blend(emitter.mask, kind, held, absent)


def _in_sequence(op: Op) -> bool:
    return op.operands[0].type.is_float and op.attrs["combine"] in ("add", "mul")


def _shuffled(
    emitter: SubgroupEmitter, shape: LaneShape, kind: str, value: str, other: str, lanes: list[int]
) -> str:
    """A shufflevector; lanes from `shape.lanes` on are those of `other`."""
    wide = shape.of(kind)
    picked = ", ".join(f"i32 {lane}" for lane in lanes)
    return emitter.w.emit(f"shufflevector {wide} {value}, {wide} {other}, <{len(lanes)} x i32> <{picked}>")


def reduce(emitter: SubgroupEmitter, op: Op) -> None:
    dtype, combine, laid = op.operands[0].type, op.attrs["combine"], _laid(emitter, op)
    kind = carrier(dtype)
    if _in_sequence(op):
        emitter.define(op.results[0], [_sequence(emitter, op, laid)[-1]])
        return
    width, total = SUBGROUP_SIZE, laid
    while width > 1:
        half = width // 2
        low = _shuffled(emitter, LaneShape(width), kind, total, "poison", list(range(half)))
        high = _shuffled(emitter, LaneShape(width), kind, total, "poison", list(range(half, width)))
        if half == 1:
            low, high = (emitter.w.emit(f"extractelement <1 x {kind}> {part}, i64 0") for part in (low, high))
        total = elementwise.apply(emitter.w, LaneShape(half), combine, dtype, [low, high])
        width = half
    emitter.define(op.results[0], [total])


def _sequence(emitter: SubgroupEmitter, op: Op, laid: str) -> list[str]:
    """The running totals, lane after lane."""
    dtype, combine = op.operands[0].type, op.attrs["combine"]
    kind = carrier(dtype)
    lanes = [
        emitter.w.emit(f"extractelement {WIDE.of(kind)} {laid}, i64 {lane}") for lane in range(SUBGROUP_SIZE)
    ]
    totals = [lanes[0]]
    for lane in lanes[1:]:
        totals.append(elementwise.apply(emitter.w, SCALAR, combine, dtype, [totals[-1], lane]))
    return totals


def scan(emitter: SubgroupEmitter, op: Op) -> None:
    """Inclusive, or exclusive: then lane 0 gets the identity."""
    dtype, combine, laid = op.operands[0].type, op.attrs["combine"], _laid(emitter, op)
    kind = carrier(dtype)
    wide, w = WIDE.of(kind), emitter.w
    absent = WIDE.splat(kind, _identity(combine, dtype))
    if _in_sequence(op):
        running = "poison"
        for lane, total in enumerate(_sequence(emitter, op, laid)):
            running = w.emit(f"insertelement {wide} {running}, {kind} {total}, i64 {lane}")
    else:
        running, distance = laid, 1
        while distance < SUBGROUP_SIZE:
            running = elementwise.apply(
                w, WIDE, combine, dtype, [_moved_up(emitter, kind, running, absent, distance), running]
            )
            distance *= 2
    if op.attrs["mode"] == "exclusive":
        first = WIDE.splat(kind, _identity(combine, dtype, first=True))
        running = _moved_up(emitter, kind, running, first, 1)
    emitter.define(op.results[0], [running])


def _moved_up(emitter: SubgroupEmitter, kind: str, value: str, below: str, distance: int) -> str:
    """Lane k gets lane k - distance, the lowest lanes get `below`."""
    lanes = [SUBGROUP_SIZE if k < distance else k - distance for k in range(SUBGROUP_SIZE)]
    return _shuffled(emitter, WIDE, kind, value, below, lanes)


def ballot(emitter: SubgroupEmitter, op: Op) -> None:
    emitter.define(
        op.results[0],
        [emitter.builder.mask_bits(emitter.builder.mask_and(emitter.mask, emitter.lane(op.operands[0])))],
    )


# --- shuffles


def shuffle(emitter: SubgroupEmitter, op: Op) -> None:
    """A lane whose source is outside, or not there, keeps its own value."""
    value, result = op.operands[0], op.results[0]
    kind = carrier(value.type.element)
    lane = op.operands[1].owner
    if isinstance(lane, Op) and lane.name == "const":
        sources = _sources(op.attrs["mode"], lane.attrs["value"])
        _shuffle_known(emitter, op, kind, sources)
        return
    picked = _source(emitter, op)
    parts = emitter.lanes(value)
    emitter.define(result, [runtime_functions.permute(emitter.builder, kind, part, picked) for part in parts])


def _sources(mode: str, amount: int) -> list[int]:
    found = []
    for lane in range(SUBGROUP_SIZE):
        source = {"idx": amount, "up": lane - amount, "down": lane + amount, "xor": lane ^ amount}[mode]
        found.append(source if 0 <= source < SUBGROUP_SIZE else lane)
    return found


def _shuffle_known(emitter: SubgroupEmitter, op: Op, kind: str, sources: list[int]) -> None:
    value, result = op.operands[0], op.results[0]
    if emitter.shape(result) is SCALAR:  # one lane's value for all, see LaneFacts
        wide = WIDE.of(kind)
        if emitter.facts.is_uniform(value):
            emitter.define(result, emitter.scalars(value))
        else:
            parts = emitter.lanes(value)
            emitter.define(
                result, [emitter.w.emit(f"extractelement {wide} {p}, i64 {sources[0]}") for p in parts]
            )
        return
    moved = [_shuffled(emitter, WIDE, kind, part, "poison", sources) for part in emitter.lanes(value)]
    if emitter.mask is not None:
        present = _shuffled(emitter, WIDE, "i1", emitter.mask, "poison", sources)
        moved = [
            emitter.builder.blend(present, kind, m, own)
            for m, own in zip(moved, emitter.lanes(value), strict=True)
        ]
    emitter.define(result, moved)


def _source(emitter: SubgroupEmitter, op: Op) -> str:
    """The lane that each lane reads, as an i32 vector."""
    w, kind, amount = emitter.w, WIDE.of("i32"), emitter.lane(op.operands[1])
    mode, own = op.attrs["mode"], emitter.builder.lane_indices()
    if mode == "idx":
        source = amount
    else:
        verb = {"up": "sub", "down": "add", "xor": "xor"}[mode]
        source = w.emit(f"{verb} {kind} {own}, {amount}")
    # An amount of 2^32 - k would wrap into the subgroup; as a number it is far outside
    limit = WIDE.integer("i32", SUBGROUP_SIZE)
    inside = w.emit(f"icmp ult {kind} {source}, {limit}")
    near = w.emit(f"icmp ult {kind} {amount}, {limit}")
    inside = w.emit(f"and {WIDE.of('i1')} {inside}, {near}")
    if emitter.mask is not None:
        clamped = w.emit(f"and {kind} {source}, {WIDE.integer('i32', SUBGROUP_SIZE - 1)}")
        present = runtime_functions.permute(emitter.builder, "i1", emitter.mask or ALL, clamped)
        inside = w.emit(f"and {WIDE.of('i1')} {inside}, {present}")
    return w.emit(f"select {WIDE.of('i1')} {inside}, {kind} {source}, {kind} {own}")


SUBGROUP_OPS = {"reduce": reduce, "scan": scan, "shuffle": shuffle, "ballot": ballot}
