"""Ops that touch no memory: constants, ids and sizes, arithmetic, vectors, casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.folding import lanes_of
from ...ir.ops import AXES, SUBGROUP_SIZE
from ...ir.program import Op
from ...ir.rewrite import constant_value
from ...ir.types import DataType
from ..common import conversions, elementwise
from ..common.guards import largest_lane, needs_guard
from ..common.lane_shape import SCALAR, LaneShape, carrier
from .byte_permutes import permute_bytes
from .function_emitter import Elements, FunctionEmitter

__all__ = [
    "VALUE_OPS",
    "as_vector",
    "lane",
    "linear_id",
    "register",
    "subgroup",
    "subgroup_lanes",
    "words_of",
]

TARGET = "nvptx"


# --- constants, ids and sizes


def _const(emitter: FunctionEmitter, op: Op) -> None:
    emitter.set(op, *_encode(op.attrs["value"], op.results[0].type))


def _spec(emitter: FunctionEmitter, op: Op) -> None:
    emitter.set(op, *_encode(emitter.context.specs[op.attrs["spec"]], op.results[0].type))


def _param(emitter: FunctionEmitter, op: Op) -> None:
    word = emitter.context.params[op.attrs["param"]]
    emitter.set(op, conversions.of_word(emitter.w, op.results[0].type, word))


def _encode(value: Any, dtype: DataType) -> Elements:
    lanes = value if isinstance(value, tuple) else (value,) * dtype.lanes
    return tuple(SCALAR.const(lane, dtype.element) for lane in lanes)


def register(emitter: FunctionEmitter, name: str, axis: int, extent: int | None) -> str:
    """A PTX special register, known to be below `extent` unless that is None; "0" for an extent of 1."""
    if extent == 1:
        return "0"
    intrinsic = f"llvm.nvvm.read.ptx.sreg.{name}.{AXES[axis]}"
    emitter.w.module.declare(intrinsic, "i32", [])
    range_attribute = f"range(i32 0, {extent}) " if extent is not None and extent < 1 << 31 else ""
    return emitter.w.emit(f"call {range_attribute}i32 @{intrinsic}()")


def _local_id(emitter: FunctionEmitter, axis: int) -> str:
    return register(emitter, "tid", axis, emitter.context.program.workgroup[axis])


def _workgroup_id(emitter: FunctionEmitter, axis: int) -> str:
    grid = emitter.context.program.grid
    return register(emitter, "ctaid", axis, grid[axis] if grid else None)


def _num_workgroups(emitter: FunctionEmitter, axis: int) -> str:
    grid = emitter.context.program.grid
    return str(grid[axis]) if grid else register(emitter, "nctaid", axis, None)


def _scaled(emitter: FunctionEmitter, groups: str, axis: int) -> str:
    size = emitter.context.program.workgroup[axis]
    return groups if size == 1 else emitter.w.emit(f"mul i32 {groups}, {size}")


def _global_id(emitter: FunctionEmitter, axis: int) -> str:
    groups = _scaled(emitter, _workgroup_id(emitter, axis), axis)
    return emitter.w.emit(f"add i32 {groups}, {_local_id(emitter, axis)}")


def linear_id(emitter: FunctionEmitter) -> str:
    """x + size_x * (y + size_y * z), as i32."""
    x, y, _ = emitter.context.program.workgroup
    total = _local_id(emitter, 2)
    for axis, size in ((1, y), (0, x)):
        if total != "0":
            total = emitter.w.emit(f"mul i32 {total}, {size}")
        local_id = _local_id(emitter, axis)
        total = local_id if total == "0" else emitter.w.emit(f"add i32 {total}, {local_id}")
    return total


def lane(emitter: FunctionEmitter) -> str:
    linear = linear_id(emitter)
    return (
        linear
        if emitter.context.program.lanes <= SUBGROUP_SIZE
        else emitter.w.emit(f"and i32 {linear}, {SUBGROUP_SIZE - 1}")
    )


def subgroup(emitter: FunctionEmitter) -> str:
    """The number of this subgroup in its workgroup."""
    if emitter.context.program.lanes <= SUBGROUP_SIZE:
        return "0"
    return emitter.w.emit(f"lshr i32 {linear_id(emitter)}, 5")


def subgroup_lanes(emitter: FunctionEmitter) -> str:
    """The number of invocations in this subgroup: 32, or fewer in a partial last one (a number or a name)."""
    lanes = emitter.context.program.lanes
    remainder = lanes % SUBGROUP_SIZE
    if not remainder:
        return str(SUBGROUP_SIZE)
    if lanes < SUBGROUP_SIZE:
        return str(remainder)
    in_last = emitter.w.emit(f"icmp uge i32 {linear_id(emitter)}, {lanes - remainder}")
    return emitter.w.emit(f"select i1 {in_last}, i32 {remainder}, i32 {SUBGROUP_SIZE}")


_IDS: dict[str, Callable[[FunctionEmitter, int], str]] = {
    "local_id": _local_id,
    "workgroup_id": _workgroup_id,
    "num_workgroups": _num_workgroups,
    "global_id": _global_id,
    "workgroup_size": lambda emitter, axis: str(emitter.context.program.workgroup[axis]),
    "global_size": lambda emitter, axis: _scaled(emitter, _num_workgroups(emitter, axis), axis),
    "lane_id": lambda emitter, axis: lane(emitter),
    "subgroup_id": lambda emitter, axis: subgroup(emitter),
    "subgroup_size": lambda emitter, axis: str(SUBGROUP_SIZE),
    "num_subgroups": lambda emitter, axis: str(-(-emitter.context.program.lanes // SUBGROUP_SIZE)),
}


def _id(emitter: FunctionEmitter, op: Op) -> None:
    emitter.set(op, _IDS[op.name](emitter, AXES.index(op.attrs.get("axis", "x"))))


def _len(emitter: FunctionEmitter, op: Op) -> None:
    count, bits = emitter.context.buffers[op.attrs["buffer"]].count, op.results[0].type.bits or 32
    if not count.startswith("%"):
        emitter.set(op, str(int(count) & ((1 << bits) - 1)))
    else:
        emitter.set(op, count if bits == 64 else emitter.w.emit(f"trunc i64 {count} to i{bits}"))


# --- arithmetic


def _arithmetic(emitter: FunctionEmitter, op: Op) -> None:
    element = op.results[0].type.element
    operands = [emitter.get(value) for value in op.operands]
    guarded = needs_guard(op, emitter.context.forms)
    flags = op.attrs.get("fastmath", ())
    apply = elementwise.Elementwise(emitter.w, SCALAR, element, TARGET, guarded, flags).apply
    emitter.set(op, *(apply(op.name, parts) for parts in zip(*operands, strict=True)))


def _compare(emitter: FunctionEmitter, op: Op) -> None:
    a, b = op.operands
    element = a.type.element
    pairs = zip(emitter.get(a), emitter.get(b), strict=True)
    emitter.set(op, *(elementwise.compare(emitter.w, SCALAR, op.name, element, x, y) for x, y in pairs))


def _select(emitter: FunctionEmitter, op: Op) -> None:
    predicate, a, b = (emitter.get(value) for value in op.operands)
    if len(predicate) < len(a):  # one bool for a whole vector
        predicate *= len(a)
    element = op.results[0].type.element
    lanes = zip(predicate, a, b, strict=True)
    emitter.set(op, *(elementwise.select(emitter.w, SCALAR, element, *lane) for lane in lanes))


def _cast(emitter: FunctionEmitter, op: Op) -> None:
    source, target = op.operands[0].type.element, op.results[0].type.element
    elements = emitter.get(op.operands[0])
    in_pairs = emitter.w.module.rounds_to_bf16 and len(elements) % 2 == 0
    if in_pairs and target.name == "bf16" and source.name in ("f16", "f32"):
        emitter.set(op, *conversions.round_pairs_to_bf16(emitter.w, elements))
    else:
        emitter.set(op, *(conversions.convert(emitter.w, SCALAR, source, target, x) for x in elements))


def _bitcast(emitter: FunctionEmitter, op: Op) -> None:
    """Emit a bitcast on integers, lowest lane first: lanes are joined into wider or cut into narrower ones."""
    source, target = op.operands[0].type.element, op.results[0].type.element
    w, old, new = emitter.w, source.bits or 0, target.bits or 0
    bits = [conversions.bits_of(w, SCALAR, source, x) for x in emitter.get(op.operands[0])]
    if old != new:
        count = len(bits) * old // new
        whole = as_vector(emitter, bits, f"i{old}")
        kind = LaneShape(count).of(f"i{new}")
        cast = w.emit(f"bitcast {LaneShape(len(bits)).of(f'i{old}')} {whole} to {kind}")
        bits = [cast]
        if count > 1:
            bits = [w.emit(f"extractelement {kind} {cast}, i32 {k}") for k in range(count)]
    emitter.set(op, *(conversions.from_bits(w, SCALAR, target, x) for x in bits))


def as_vector(emitter: FunctionEmitter, elements: list[str], kind: str) -> str:
    """The elements as one LLVM vector; a single one as it is."""
    if len(elements) == 1:
        return elements[0]
    whole, vector = "poison", LaneShape(len(elements)).of(kind)
    for lane, element in enumerate(elements):
        whole = emitter.w.emit(f"insertelement {vector} {whole}, {kind} {element}, i32 {lane}")
    return whole


# --- vectors


def _splat(emitter: FunctionEmitter, op: Op) -> None:
    emitter.set(op, *(emitter.get(op.operands[0]) * op.results[0].type.lanes))


def _vector(emitter: FunctionEmitter, op: Op) -> None:
    emitter.set(op, *(emitter.scalar(value) for value in op.operands))


def _extract(emitter: FunctionEmitter, op: Op) -> None:
    emitter.set(op, emitter.get(op.operands[0])[op.attrs["index"]])


def _insert(emitter: FunctionEmitter, op: Op) -> None:
    scalar, whole = op.operands
    elements = list(emitter.get(whole))
    elements[op.attrs["index"]] = emitter.scalar(scalar)
    emitter.set(op, *elements)


# --- bytes of a vector by other bytes


def _permute(emitter: FunctionEmitter, op: Op) -> None:
    table, index = op.operands
    known = constant_value(index)
    if known is not None:
        entries = emitter.get(table)
        lanes = lanes_of(known, index.type)
        emitter.set(op, *(entries[at] if at < len(entries) else "0" for at in lanes))
        return
    is_inside = largest_lane(index) < table.type.lanes
    emitter.set(op, *permute_bytes(emitter.w, emitter.get(table), emitter.get(index), is_inside))


def _movemask(emitter: FunctionEmitter, op: Op) -> None:
    """Bits of up to 32 lanes in one register each, which is what the machine adds and shifts."""
    w, flags = emitter.w, emitter.get(op.operands[0])
    words = []
    for start in range(0, len(flags), 32):
        word = "0"
        for position, flag in enumerate(flags[start : start + 32]):
            bit = w.emit(f"select i1 {flag}, i32 {1 << position}, i32 0")
            word = w.emit(f"or i32 {word}, {bit}")
        words.append(word)
    bits = op.results[0].type.bits or 32
    if bits < 32:
        emitter.set(op, w.emit(f"trunc i32 {words[0]} to i{bits}"))
    elif bits == 32:
        emitter.set(op, words[0])
    else:
        low, high = (w.emit(f"zext i32 {word} to i64") for word in words)
        emitter.set(op, w.emit(f"or i64 {low}, {w.emit(f'shl i64 {high}, 32')}"))


def words_of(emitter: FunctionEmitter, dtype: DataType, element: str) -> list[str]:
    """The bits of a scalar as one i32 or two, the low one first."""
    w = emitter.w
    if carrier(dtype) == "float":  # f16 and bf16 too, which are carried as float
        return [w.emit(f"bitcast float {element} to i32")]
    if dtype.is_bool:
        return [w.emit(f"zext i1 {element} to i32")]
    bits = conversions.bits_of(w, SCALAR, dtype, element)
    if dtype.bits == 32:
        return [bits]
    if dtype.bits != 64:
        return [w.emit(f"zext i{dtype.bits} {bits} to i32")]
    high = w.emit(f"lshr i64 {bits}, 32")
    return [w.emit(f"trunc i64 {part} to i32") for part in (bits, high)]


VALUE_OPS: dict[str, Callable[[FunctionEmitter, Op], None]] = {
    "const": _const,
    "spec": _spec,
    "param": _param,
    "id": _id,
    "size": _id,
    "len": _len,
    **dict.fromkeys(("unary", "binary", "ternary"), _arithmetic),
    "compare": _compare,
    "select": _select,
    "cast": _cast,
    "bitcast": _bitcast,
    "splat": _splat,
    "vector": _vector,
    "extract": _extract,
    "insert": _insert,
    "permute": _permute,
    "movemask": _movemask,
}
"""Emitters keyed by the op's format in the op table, or by its name where a format has several."""
