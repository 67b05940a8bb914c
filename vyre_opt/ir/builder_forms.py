"""What the builder's methods take, by the form of their op.

unary, binary, ternary, compare   b.add(x, y)           select   b.select(p, x, y)
id, size                          b.global_id("x")      convert  b.cast(x, DataType.F32)
splat      b.splat(x, 4)                                vector   b.vector(x, y, z)
extract    b.extract(v, 0)                              insert   b.insert(x, v, 0)
len        b.len(buffer)                                load     b.load(buffer, i, lanes=1)
atomic     b.atomic_add(buffer, i, x, order="relaxed")  ballot   b.subgroup_ballot(p)
shuffle    b.subgroup_shuffle(x, lane, "idx")           reduce   b.subgroup_reduce(x, "add")
scan       b.subgroup_scan(x, "inclusive", "add")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import arith
from .ops import OpDef
from .program import NO_ATTRS, Buffer, Value
from .shapes import ARITY
from .types import MIN_VECTOR_LANES, DataType, TypeNameError, vector_lanes

if TYPE_CHECKING:
    from .builder import Builder

Number = bool | int | float


def encode_constant(value: Number | Sequence[Number], dtype: DataType) -> Any:
    """A Python value as a `const` keeps it.  Raises ValueError for one that `dtype` cannot hold."""
    if isinstance(value, Sequence):
        if len(value) != dtype.lanes or not dtype.is_vec:
            raise ValueError(f"{dtype} does not have {len(value)} lanes")
        lanes = tuple(_encode(lane, dtype.element) for lane in value)
        return lanes[0] if len(set(lanes)) == 1 else lanes
    return _encode(value, dtype.element)


def _encode(value: Number, dtype: DataType) -> int:
    if hasattr(value, "item"):  # a NumPy scalar
        value = value.item()
    if dtype.is_bool and isinstance(value, bool):
        return int(value)
    if dtype.is_float and isinstance(value, float):
        return arith.encode_float(value, dtype)
    if isinstance(value, int) and not isinstance(value, bool):
        if dtype.is_float:
            return arith.convert(value, DataType.I64, dtype)
        if dtype.is_int:
            low, high = arith.int_range(dtype)
            if low <= value <= high:
                return value
            raise ValueError(f"{value} does not fit in {dtype} ({low} to {high})")
    raise ValueError(f"{value!r} is not a constant of {dtype}")


def as_value(b: Builder, operand: Value | Number, dtype: DataType) -> Value:
    """`operand`, or the constant of `dtype` that it is."""
    return operand if isinstance(operand, Value) else b.const(operand, dtype)


def _alike(b: Builder, row: OpDef, operands: tuple[Value | Number, ...], count: int) -> tuple[Value, ...]:
    """Operands of one type; numbers take the type of the first value among them."""
    if len(operands) != count:
        raise TypeError(f"{row.name} takes {count} operand{'s' * (count != 1)}, {len(operands)} given")
    dtype = next((v.type for v in operands if isinstance(v, Value)), None)
    if dtype is None:
        raise TypeError(f"{row.name}: give one operand at least as a value, to tell the type")
    return tuple(as_value(b, operand, dtype) for operand in operands)


def _elementwise(b: Builder, row: OpDef, *operands: Value | Number, fastmath: Sequence[str] = ()) -> Value:
    values = _alike(b, row, operands, ARITY[row.format])
    dtype = values[0].type
    result = dtype.with_element(DataType.BOOL) if row.format == "compare" else dtype
    attrs = {"fastmath": tuple(fastmath)} if fastmath else NO_ATTRS
    return b.emit(row, values, (result,), attrs).result


def _select(b: Builder, row: OpDef, predicate: Value | Number, *operands: Value | Number) -> Value:
    values = _alike(b, row, operands, 2)
    return b.emit(row, (as_value(b, predicate, DataType.BOOL), *values), (values[0].type,)).result


def _id(b: Builder, row: OpDef, axis: str = "x") -> Value:
    return b.emit(row, (), (DataType.U32,), {"axis": axis}).result


def _size(b: Builder, row: OpDef) -> Value:
    return b.emit(row, (), (DataType.U32,)).result


def _convert(b: Builder, row: OpDef, operand: Value, dtype: DataType) -> Value:
    return b.emit(row, (operand,), (dtype,)).result


def _splat(b: Builder, row: OpDef, operand: Value, lanes: int) -> Value:
    return b.emit(row, (operand,), (_vector_of(operand.type, lanes),)).result


def _vector(b: Builder, row: OpDef, *operands: Value | Number) -> Value:
    values = _alike(b, row, operands, len(operands))
    return b.emit(row, values, (_vector_of(values[0].type, len(values)),)).result


def _vector_of(element: DataType, lanes: int) -> DataType:
    if lanes < MIN_VECTOR_LANES:
        raise TypeNameError(vector_lanes(lanes))
    return DataType.vec(element, lanes)


def _extract(b: Builder, row: OpDef, vector: Value, index: int) -> Value:
    return b.emit(row, (vector,), (vector.type.element,), {"index": index}).result


def _insert(b: Builder, row: OpDef, operand: Value | Number, vector: Value, index: int) -> Value:
    given = as_value(b, operand, vector.type.element)
    return b.emit(row, (given, vector), (vector.type,), {"index": index}).result


def _len(b: Builder, row: OpDef, buffer: Buffer | str, dtype: DataType = DataType.U32) -> Value:
    return b.emit(row, (), (dtype,), {"buffer": b._buffer(buffer).name}).result


def _load(b: Builder, row: OpDef, buffer: Buffer | str, index: Value | Number, lanes: int = 1) -> Value:
    source = b._buffer(buffer)
    dtype = source.dtype if lanes == 1 else DataType.vec(source.dtype, lanes)
    where = as_value(b, index, DataType.U32)
    return b.emit(row, (where,), (dtype,), {"buffer": source.name}).result


def _atomic(
    b: Builder,
    row: OpDef,
    buffer: Buffer | str,
    index: Value | Number,
    *operands: Value | Number,
    order: str = "relaxed",
) -> Value:
    target = b._buffer(buffer)
    wanted = 2 if row.name.endswith("compare_exchange") else 1
    if len(operands) != wanted:
        raise TypeError(f"{row.name} takes {wanted} operand{'s' * (wanted != 1)} after the index")
    values = tuple(as_value(b, operand, target.dtype) for operand in operands)
    where = as_value(b, index, DataType.U32)
    attrs = {"order": order, "buffer": target.name}
    return b.emit(row, (where, *values), (target.dtype,), attrs).result


def _shuffle(b: Builder, row: OpDef, operand: Value, lane: Value | Number, mode: str = "idx") -> Value:
    return b.emit(row, (operand, as_value(b, lane, DataType.U32)), (operand.type,), {"mode": mode}).result


def _reduce(b: Builder, row: OpDef, operand: Value, combine: str = "add") -> Value:
    return b.emit(row, (operand,), (operand.type,), {"combine": combine}).result


def _scan(b: Builder, row: OpDef, operand: Value, mode: str = "inclusive", combine: str = "add") -> Value:
    return b.emit(row, (operand,), (operand.type,), {"mode": mode, "combine": combine}).result


def _ballot(b: Builder, row: OpDef, predicate: Value) -> Value:
    return b.emit(row, (predicate,), (DataType.U32,)).result


METHODS: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(("unary", "binary", "ternary", "compare"), _elementwise),
    "select": _select,
    "id": _id,
    "size": _size,
    "convert": _convert,
    "splat": _splat,
    "vector": _vector,
    "extract": _extract,
    "insert": _insert,
    "len": _len,
    "load": _load,
    "atomic": _atomic,
    "shuffle": _shuffle,
    "reduce": _reduce,
    "scan": _scan,
    "ballot": _ballot,
}
"""Form -> what builds an op of it that gives one value."""
