"""Ops on values alone: constants, ids, arithmetic, vectors, casts of bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...ir.ops import AXES
from ...ir.program import Op
from ...ir.types import DataType
from ..common import conversions, elementwise
from ..common.lane_shape import SCALAR
from .function_emitter import Body, Elements

__all__ = ["VALUE_OPS", "linear_id", "subgroup_lanes"]

TARGET = "nvptx"
SUBGROUP = 32


# --- constants, ids and sizes


def _const(body: Body, op: Op) -> None:
    body.set(op, *_encoded(op.attrs["value"], op.results[0].type))


def _spec(body: Body, op: Op) -> None:
    body.set(op, *_encoded(body.context.specs[op.attrs["spec"]], op.results[0].type))


def _encoded(value: Any, dtype: DataType) -> Elements:
    lanes = value if isinstance(value, tuple) else (value,) * dtype.lanes
    return tuple(SCALAR.const(lane, dtype.element) for lane in lanes)


def register(body: Body, name: str, axis: int, extent: int | None) -> str:
    """A special register, below `extent` where that is known; 0 if nothing else is possible."""
    if extent == 1:
        return "0"
    called = f"llvm.nvvm.read.ptx.sreg.{name}.{AXES[axis]}"
    body.w.module.declare(called, "i32", [])
    known = f"range(i32 0, {extent}) " if extent is not None and extent < 1 << 31 else ""
    return body.w.emit(f"call {known}i32 @{called}()")


def _local_id(body: Body, axis: int) -> str:
    return register(body, "tid", axis, body.context.program.workgroup[axis])


def _workgroup_id(body: Body, axis: int) -> str:
    grid = body.context.program.grid
    return register(body, "ctaid", axis, grid[axis] if grid else None)


def _num_workgroups(body: Body, axis: int) -> str:
    grid = body.context.program.grid
    return str(grid[axis]) if grid else register(body, "nctaid", axis, None)


def _scaled(body: Body, groups: str, axis: int) -> str:
    size = body.context.program.workgroup[axis]
    return groups if size == 1 else body.w.emit(f"mul i32 {groups}, {size}")


def _global_id(body: Body, axis: int) -> str:
    groups = _scaled(body, _workgroup_id(body, axis), axis)
    return body.w.emit(f"add i32 {groups}, {_local_id(body, axis)}")


def linear_id(body: Body) -> str:
    """x + size_x * (y + size_y * z), as i32."""
    x, y, _ = body.context.program.workgroup
    total = _local_id(body, 2)
    for axis, size in ((1, y), (0, x)):
        if total != "0":
            total = body.w.emit(f"mul i32 {total}, {size}")
        here = _local_id(body, axis)
        total = here if total == "0" else body.w.emit(f"add i32 {total}, {here}")
    return total


def lane(body: Body) -> str:
    linear = linear_id(body)
    return linear if body.context.program.lanes <= SUBGROUP else body.w.emit(f"and i32 {linear}, 31")


def subgroup_lanes(body: Body) -> str:
    """How many invocations this subgroup has: 32, or less in a short last one."""
    lanes = body.context.program.lanes
    rest = lanes % SUBGROUP
    if not rest:
        return str(SUBGROUP)
    if lanes < SUBGROUP:
        return str(rest)
    in_last = body.w.emit(f"icmp uge i32 {linear_id(body)}, {lanes - rest}")
    return body.w.emit(f"select i1 {in_last}, i32 {rest}, i32 {SUBGROUP}")


_IDS: dict[str, Callable[[Body, int], str]] = {
    "local_id": _local_id,
    "workgroup_id": _workgroup_id,
    "num_workgroups": _num_workgroups,
    "global_id": _global_id,
    "workgroup_size": lambda body, axis: str(body.context.program.workgroup[axis]),
    "global_size": lambda body, axis: _scaled(body, _num_workgroups(body, axis), axis),
    "lane_id": lambda body, axis: lane(body),
    "subgroup_id": lambda body, axis: body.w.emit(f"lshr i32 {linear_id(body)}, 5"),
    "subgroup_size": lambda body, axis: str(SUBGROUP),
    "num_subgroups": lambda body, axis: str(-(-body.context.program.lanes // SUBGROUP)),
}


def _id(body: Body, op: Op) -> None:
    body.set(op, _IDS[op.name](body, AXES.index(op.attrs.get("axis", "x"))))


def _len(body: Body, op: Op) -> None:
    count, bits = body.context.places[op.attrs["buffer"]].count, op.results[0].type.bits or 32
    if not count.startswith("%"):
        body.set(op, str(int(count) & ((1 << bits) - 1)))
    else:
        body.set(op, count if bits == 64 else body.w.emit(f"trunc i64 {count} to i{bits}"))


# --- arithmetic

# Where flags mean something to LLVM.  The others expand to steps that flags would break.
_FLAGGED = {"add", "sub", "mul", "div", "neg", "sqrt", "min", "max", "abs_diff", "fma"}
_FLOAT_OP = re.compile(r" = (fadd|fsub|fmul|fdiv|fneg|call(?= (?:float|double) @llvm\.))")


def with_flags(body: Body, op: Op, dtype: DataType, start: int, is_exact: bool = True) -> None:
    """Put the fastmath flags of `op` on the float instructions written since line `start`."""
    flags = op.attrs.get("fastmath")
    if not flags or dtype.element.name not in ("f32", "f64") or not is_exact:
        return
    lines = body.w.lines
    words = " ".join(flags)
    for number in range(start, len(lines)):
        lines[number] = _FLOAT_OP.sub(rf" = \1 {words}", lines[number])


def _arithmetic(body: Body, op: Op) -> None:
    element = op.results[0].type.element
    start = len(body.w.lines)
    operands = [body.get(value) for value in op.operands]
    guarded = body.context.guards.needed(op)
    apply = elementwise.Elementwise(body.w, SCALAR, element, TARGET, guarded).apply
    made = [apply(op.name, parts) for parts in zip(*operands, strict=True)]
    with_flags(body, op, element, start, op.name in _FLAGGED)
    body.set(op, *made)


def _compare(body: Body, op: Op) -> None:
    a, b = op.operands
    element = a.type.element
    pairs = zip(body.get(a), body.get(b), strict=True)
    body.set(op, *(elementwise.compare(body.w, SCALAR, op.name, element, x, y) for x, y in pairs))


def _select(body: Body, op: Op) -> None:
    predicate, a, b = (body.get(value) for value in op.operands)
    if len(predicate) < len(a):  # one bool for a whole vector
        predicate *= len(a)
    element = op.results[0].type.element
    body.set(
        op,
        *(
            elementwise.select(body.w, SCALAR, element, p, x, y)
            for p, x, y in zip(predicate, a, b, strict=True)
        ),
    )


def _cast(body: Body, op: Op) -> None:
    source, target = op.operands[0].type.element, op.results[0].type.element
    given = body.get(op.operands[0])
    body.set(op, *(conversions.convert(body.w, SCALAR, source, target, x) for x in given))


def _bitcast(body: Body, op: Op) -> None:
    """Through the bits, lowest lane first: joined where lanes grow wider, cut where they grow narrower."""
    source, target = op.operands[0].type.element, op.results[0].type.element
    w, old, new = body.w, source.bits or 0, target.bits or 0
    bits = [conversions.bits_of(w, SCALAR, source, x) for x in body.get(op.operands[0])]
    if old != new:
        count = len(bits) * old // new
        whole = _gathered(body, bits, f"i{old}")
        cast = w.emit(f"bitcast {_vector_type(len(bits), old)} {whole} to {_vector_type(count, new)}")
        bits = [cast]
        if count > 1:
            bits = [w.emit(f"extractelement <{count} x i{new}> {cast}, i32 {k}") for k in range(count)]
    body.set(op, *(conversions.from_bits(w, SCALAR, target, x) for x in bits))


def _vector_type(count: int, bits: int) -> str:
    return f"<{count} x i{bits}>" if count > 1 else f"i{bits}"


def _gathered(body: Body, elements: list[str], kind: str) -> str:
    """The elements as one LLVM vector; a single one as it is."""
    if len(elements) == 1:
        return elements[0]
    whole = "poison"
    for lane, element in enumerate(elements):
        whole = body.w.emit(f"insertelement <{len(elements)} x {kind}> {whole}, {kind} {element}, i32 {lane}")
    return whole


# --- vectors


def _splat(body: Body, op: Op) -> None:
    body.set(op, *(body.get(op.operands[0]) * op.results[0].type.lanes))


def _vector(body: Body, op: Op) -> None:
    body.set(op, *(body.scalar(value) for value in op.operands))


def _extract(body: Body, op: Op) -> None:
    body.set(op, body.get(op.operands[0])[op.attrs["index"]])


def _insert(body: Body, op: Op) -> None:
    scalar, whole = op.operands
    elements = list(body.get(whole))
    elements[op.attrs["index"]] = body.scalar(scalar)
    body.set(op, *elements)


VALUE_OPS: dict[str, Callable[[Body, Op], None]] = {
    "const": _const,
    "spec": _spec,
    "id": _id,
    "size": _id,
    "len": _len,
    "unary": _arithmetic,
    "binary": _arithmetic,
    "ternary": _arithmetic,
    "compare": _compare,
    "select": _select,
    "cast": _cast,
    "bitcast": _bitcast,
    "splat": _splat,
    "vector": _vector,
    "extract": _extract,
    "insert": _insert,
}
"""By form, or by name where a form has several."""
