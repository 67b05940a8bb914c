"""Constant folding of one op: exact or not at all.

Integers fold by the op table, wrapped to their type; floats where IEEE fixes the
result, which it does for all but the mathematical functions.  An op whose result is a NaN
is not folded: IEEE does not fix the bits of that NaN, and a program may look at them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from . import arith
from .ops import SUBGROUP_SIZE, OpDef
from .program import Func, Op, Program
from .rewrite import constant_value
from .types import DataType

__all__ = ["fold", "lanes_of"]

Lane = int | None
"""An encoded scalar, or None where it does not fold."""


def fold(op: Op, item: Program | Func) -> Any:
    """The encoded constant that is the result of `op`, an op of `item`; None if there is none, or its type is open."""
    rule = _RULES.get(op.definition.format)
    if rule is None or any(result.type.is_open for result in op.results):
        return None
    return rule(op, item)


def lanes_of(value: Any, dtype: DataType) -> tuple[int, ...]:
    """The encoded constant of each lane."""
    return value if isinstance(value, tuple) else (value,) * dtype.lanes


def _joined(lanes: Sequence[Lane]) -> Any:
    """The lanes as one encoded constant: a single int if they are equal, None if one did not fold."""
    if any(lane is None for lane in lanes):
        return None
    return lanes[0] if all(lane == lanes[0] for lane in lanes) else tuple(lanes)


def _elementwise(op: Op, item: Program | Func) -> Any:
    constants = []
    for operand in op.operands:
        constant = constant_value(operand)
        if constant is None:
            return None
        constants.append(constant)
    row, dtype = op.definition, op.operands[0].type
    fold_lane = _float_lane if dtype.element.is_float else _int_lane
    if all(isinstance(constant, int) for constant in constants):
        return fold_lane(row, constants, dtype.element)
    by_lane = zip(*[lanes_of(constant, dtype) for constant in constants], strict=True)
    return _joined([fold_lane(row, list(lanes), dtype.element) for lanes in by_lane])


def _int_lane(row: OpDef, lanes: list[int], dtype: DataType) -> Lane:
    if row.fold_int is None or dtype.kind == "opaque":
        return None
    result = row.fold_int(*lanes, dtype)
    return int(result) if row.format == "compare" else arith.wrap(int(result), dtype)


def _float_lane(row: OpDef, lanes: list[int], dtype: DataType) -> Lane:
    assert dtype.bits is not None
    sign = 1 << (dtype.bits - 1)
    # neg and abs are fixed for a NaN too: they touch nothing but the sign bit
    if row.name == "neg":
        return lanes[0] ^ sign
    if row.name == "abs":
        return lanes[0] & ~sign
    numbers = [arith.decode_float(lane, dtype) for lane in lanes]
    if row.name == "fma":
        return _unless_nan(arith.float_fma(numbers[0], numbers[1], numbers[2], dtype), dtype)
    if row.fold_float is None:
        return None
    result = row.fold_float(*numbers)
    if row.format == "compare":
        return int(result)
    return _unless_nan(arith.encode_float(result, dtype), dtype)


def _unless_nan(bits: int, dtype: DataType) -> Lane:
    return None if math.isnan(arith.decode_float(bits, dtype)) else bits


def _select(op: Op, item: Program | Func) -> Any:
    predicate, a, b = (constant_value(operand) for operand in op.operands)
    if predicate is None or a is None or b is None:
        return None
    dtype = op.results[0].type
    lanes = zip(lanes_of(predicate, dtype), lanes_of(a, dtype), lanes_of(b, dtype), strict=True)
    return _joined([first if holds else second for holds, first, second in lanes])


def _convert(op: Op, item: Program | Func) -> Any:
    value = constant_value(op.operands[0])
    if value is None:
        return None
    source, target = op.operands[0].type, op.results[0].type
    lanes = lanes_of(value, source)
    if op.name == "bitcast":
        return _bitcast(lanes, source, target)
    converted = [arith.convert(lane, source.element, target.element) for lane in lanes]
    if target.element.is_float and source.element is not target.element:
        return _joined([_unless_nan(bits, target.element) for bits in converted])
    return _joined(converted)


def _bitcast(lanes: tuple[int, ...], source: DataType, target: DataType) -> Any:
    """Lane 0 has the least significant bits."""
    width, target_width = source.element.bits, target.element.bits
    assert width is not None
    assert target_width is not None
    bits = sum(arith.to_bits(lane, source.element) << (width * index) for index, lane in enumerate(lanes))
    mask = (1 << target_width) - 1
    pieces = [(bits >> (target_width * index)) & mask for index in range(target.lanes)]
    return _joined([arith.from_bits(piece, target.element) for piece in pieces])


def _splat(op: Op, item: Program | Func) -> Any:
    return constant_value(op.operands[0])


def _vector(op: Op, item: Program | Func) -> Any:
    return _joined([constant_value(operand) for operand in op.operands])


def _extract(op: Op, item: Program | Func) -> Any:
    vector = constant_value(op.operands[0])
    return None if vector is None else lanes_of(vector, op.operands[0].type)[op.attrs["index"]]


def _insert(op: Op, item: Program | Func) -> Any:
    lane, vector = (constant_value(operand) for operand in op.operands)
    if lane is None or vector is None:
        return None
    lanes = list(lanes_of(vector, op.results[0].type))
    lanes[op.attrs["index"]] = lane
    return _joined(lanes)


def _permute(op: Op, item: Program | Func) -> Any:
    table, index = (constant_value(operand) for operand in op.operands)
    if table is None or index is None:
        return None
    entries = lanes_of(table, op.operands[0].type)
    return _joined([entries[at] if at < len(entries) else 0 for at in lanes_of(index, op.result.type)])


def _movemask(op: Op, item: Program | Func) -> Lane:
    flags = constant_value(op.operands[0])
    if flags is None:
        return None
    return sum(flag << lane for lane, flag in enumerate(lanes_of(flags, op.operands[0].type)))


# --- what the declaration of a program determines: its workgroup, grid and buffer sizes


def _id(op: Op, item: Program | Func) -> Lane:
    if not isinstance(item, Program):
        return None
    axis = "xyz".index(op.attrs["axis"])
    size = item.workgroup[axis]
    groups = item.grid[axis] if item.grid is not None else None
    total = None if groups is None else groups * size
    extents = {"local_id": size, "workgroup_id": groups, "global_id": total}
    if op.name in extents:
        return 0 if extents[op.name] == 1 else None
    if op.name == "global_size" and total is not None:
        return arith.wrap(total, op.results[0].type)  # 2^32 invocations are allowed, and count as 0
    return {"workgroup_size": size, "num_workgroups": groups}.get(op.name)


def _size(op: Op, item: Program | Func) -> Lane:
    if op.name == "subgroup_size":
        return SUBGROUP_SIZE
    if not isinstance(item, Program):
        return None
    if op.name == "num_subgroups":
        return -(-item.lanes // SUBGROUP_SIZE)
    is_only = item.lanes == 1 if op.name == "lane_id" else item.lanes <= SUBGROUP_SIZE
    return 0 if is_only else None


def _len(op: Op, item: Program | Func) -> Lane:
    if not isinstance(item, Program):
        return None
    count = item.buffers[op.attrs["buffer"]].extent(op.attrs.get("dimension"))
    return count if count is not None and count <= arith.int_range(op.results[0].type)[1] else None


_RULES: dict[str, Callable[[Op, Program | Func], Any]] = {
    **dict.fromkeys(("unary", "binary", "ternary", "compare"), _elementwise),
    "select": _select,
    "convert": _convert,
    "splat": _splat,
    "vector": _vector,
    "extract": _extract,
    "insert": _insert,
    "permute": _permute,
    "movemask": _movemask,
    "id": _id,
    "size": _size,
    "len": _len,
}
