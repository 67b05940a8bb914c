"""Ops across the 32 lanes of a subgroup: reduce, scan, ballot and shuffle.

Values are combined in five steps: a reduction folds the upper half of the lanes onto the lower one, a scan adds to each
lane what lies 1, 2, 4, 8 and 16 below it.  Lanes that a partial subgroup lacks are filled with what changes no value.
"""

from __future__ import annotations

from ...ir import arith
from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op
from ...ir.types import DataType
from ..common import elementwise
from ..common.lane_shape import SCALAR, LaneShape, carrier
from . import runtime_functions as runtime
from .function_builder import ALL, WIDE
from .subgroup_emitter import SubgroupEmitter

__all__ = ["SUBGROUP_OPS", "fold_lanes"]


def _padded_operand(emitter: SubgroupEmitter, op: Op) -> str:
    """The operand as a vector, with the identity in inactive lanes."""
    value, dtype = op.operands[0], op.operands[0].type
    operand = emitter.lane(value)
    if emitter.mask is None:
        return operand
    kind = carrier(dtype)
    absent = WIDE.const(arith.neutral(op.attrs["combine"], dtype), dtype)
    return emitter.builder.blend(emitter.mask, kind, operand, absent)


def _shufflevector(
    emitter: SubgroupEmitter, shape: LaneShape, kind: str, value: str, other: str, lanes: list[int]
) -> str:
    """A shufflevector; numbers from `shape.lanes` on are the lanes of `other`."""
    wide = shape.of(kind)
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return emitter.w.emit(f"shufflevector {wide} {value}, {wide} {other}, <{len(lanes)} x i32> <{mask}>")


def reduce(emitter: SubgroupEmitter, op: Op) -> None:
    total = fold_lanes(emitter, op.attrs["combine"], op.operands[0].type, _padded_operand(emitter, op))
    emitter.define(op.results[0], [total])


def fold_lanes(emitter: SubgroupEmitter, combine: str, dtype: DataType, lanes: str) -> str:
    """All lanes of a vector as one scalar."""
    w, kind, width = emitter.w, carrier(dtype), SUBGROUP_SIZE
    while width > 1:
        half = width // 2
        low = _shufflevector(emitter, LaneShape(width), kind, lanes, "poison", list(range(half)))
        high = _shufflevector(emitter, LaneShape(width), kind, lanes, "poison", list(range(half, width)))
        if half == 1:
            low, high = (w.emit(f"extractelement <1 x {kind}> {part}, i64 0") for part in (low, high))
        lanes = elementwise.apply(w, LaneShape(half), combine, dtype, [low, high])
        width = half
    return lanes


def scan(emitter: SubgroupEmitter, op: Op) -> None:
    """An inclusive scan, or an exclusive one, whose lane 0 gets the identity."""
    dtype, combine, padded = op.operands[0].type, op.attrs["combine"], _padded_operand(emitter, op)
    kind = carrier(dtype)
    w = emitter.w
    absent = WIDE.const(arith.neutral(combine, dtype), dtype)
    totals, distance = padded, 1
    while distance < SUBGROUP_SIZE:
        shifted = _shifted_up(emitter, kind, totals, absent, distance)
        totals = elementwise.apply(w, WIDE, combine, dtype, [shifted, totals])
        distance *= 2
    if op.attrs["mode"] == "exclusive":
        first = WIDE.splat(kind, elementwise.identity(combine, dtype))
        totals = _shifted_up(emitter, kind, totals, first, 1)
    emitter.define(op.results[0], [totals])


def _shifted_up(emitter: SubgroupEmitter, kind: str, value: str, below: str, distance: int) -> str:
    """Lane k gets lane k - distance of `value`; the lowest lanes get lane 0 of `below`."""
    lanes = [SUBGROUP_SIZE if k < distance else k - distance for k in range(SUBGROUP_SIZE)]
    return _shufflevector(emitter, WIDE, kind, value, below, lanes)


def ballot(emitter: SubgroupEmitter, op: Op) -> None:
    flags = emitter.builder.mask_and(emitter.mask, emitter.lane(op.operands[0]))
    emitter.define(op.results[0], [emitter.builder.mask_bits(flags)])


# --- shuffles


def shuffle(emitter: SubgroupEmitter, op: Op) -> None:
    """A lane whose source lane does not exist keeps its own value."""
    value, result = op.operands[0], op.results[0]
    kind = carrier(value.type.element)
    lane = op.operands[1].owner
    if isinstance(lane, Op) and lane.name == "const":
        sources = _constant_source_lanes(op.attrs["mode"], lane.attrs["value"])
        _shuffle_by_constants(emitter, op, kind, sources)
        return
    source_lanes = _source_lanes(emitter, op)
    parts = emitter.lanes(value)
    emitter.define(result, [runtime.permute(emitter.builder, kind, part, source_lanes) for part in parts])


def _constant_source_lanes(mode: str, amount: int) -> list[int]:
    sources = []
    for lane in range(SUBGROUP_SIZE):
        source = {"idx": amount, "up": lane - amount, "down": lane + amount, "xor": lane ^ amount}[mode]
        sources.append(source if 0 <= source < SUBGROUP_SIZE else lane)
    return sources


def _shuffle_by_constants(emitter: SubgroupEmitter, op: Op, kind: str, sources: list[int]) -> None:
    value, result = op.operands[0], op.results[0]
    if emitter.shape(result) is SCALAR:  # one lane's value for all, see LaneFacts
        wide = WIDE.of(kind)
        if emitter.facts.is_uniform(value):
            emitter.define(result, emitter.scalars(value))
        else:
            source, parts = f"i64 {sources[0]}", emitter.lanes(value)
            emitter.define(result, [emitter.w.emit(f"extractelement {wide} {p}, {source}") for p in parts])
        return
    shuffled = [_shufflevector(emitter, WIDE, kind, part, "poison", sources) for part in emitter.lanes(value)]
    if emitter.mask is not None:
        present = _shufflevector(emitter, WIDE, "i1", emitter.mask, "poison", sources)
        pairs = zip(shuffled, emitter.lanes(value), strict=True)
        shuffled = [emitter.builder.blend(present, kind, moved, unmoved) for moved, unmoved in pairs]
    emitter.define(result, shuffled)


def _source_lanes(emitter: SubgroupEmitter, op: Op) -> str:
    """The number of the lane that each lane reads, as an i32 vector."""
    w, builder, kind = emitter.w, emitter.builder, WIDE.of("i32")
    amount = emitter.lane(op.operands[1])
    mode, lanes_here = op.attrs["mode"], builder.lane_indices()
    if mode == "idx":
        source = amount
    else:
        verb = {"up": "sub", "down": "add", "xor": "xor"}[mode]
        source = w.emit(f"{verb} {kind} {lanes_here}, {amount}")
    # An amount of 2^32 - k would wrap to a lane of the subgroup, though no lane is that far away
    limit = WIDE.integer("i32", SUBGROUP_SIZE)
    inside = w.emit(f"icmp ult {kind} {source}, {limit}")
    near = w.emit(f"icmp ult {kind} {amount}, {limit}")
    inside = w.emit(f"and {WIDE.of('i1')} {inside}, {near}")
    if emitter.mask is not None:
        # `permute` takes numbers below 32; what a larger one gives is dropped, as it is not inside
        clamped = w.emit(f"and {kind} {source}, {WIDE.integer('i32', SUBGROUP_SIZE - 1)}")
        present = runtime.permute(builder, "i1", emitter.mask or ALL, clamped)
        inside = w.emit(f"and {WIDE.of('i1')} {inside}, {present}")
    return w.emit(f"select {WIDE.of('i1')} {inside}, {kind} {source}, {kind} {lanes_here}")


SUBGROUP_OPS = {"reduce": reduce, "scan": scan, "shuffle": shuffle, "ballot": ballot}
