"""Builders of the ops of each format.  As methods of the builder:

    b.add(x, y)               b.select(p, x, y)    b.global_id("x")      b.cast(x, DataType.F32)
    b.splat(x, 4)             b.vector(x, y, z)    b.extract(v, 0)       b.insert(x, v, 0)
    b.permute(table, index)   b.movemask(flags)
    b.len(buffer)             b.load(buffer, i, lanes=1)                 b.atomic_add(buffer, i, x, order="relaxed")
    b.subgroup_ballot(p)      b.subgroup_shuffle(x, lane, "idx")
    b.subgroup_reduce(x, "add")                    b.subgroup_scan(x, "inclusive", "add")
    b.matrix_load(buffer, (r, c), dtype)           b.matrix_mul_add(x, y, z)
    b.slice_load(buffer, (r, 0), (None,))          b.slice_broadcast(x, like)   b.slice_reduce(v, "add", axis=0)
    b.slice_gather(buffer, (r, v))                 b.slice_iota(64)             b.slice_scan(v, "inclusive", "add")
    b.slice_transpose(v)                           b.slice_dot(x, y, total)

A format that is not among BUILDERS has a method of its own in `Builder`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .formats import FORMATS, mask_type, no_mask, sum_type
from .ops import OpDef
from .program import NO_ATTRS, Buffer, Op, Value
from .types import MIN_VECTOR_LANES, DataType, TypeNameError, as_type, vector_lanes
from .value_operators import Operand

__all__ = ["BUILDERS"]

_U32, _BOOL = DataType.U32, DataType.BOOL


class OpBuilder(Protocol):
    """Methods that build ops; see `Builder`."""

    def emit(
        self,
        row: OpDef,
        operands: tuple[Value, ...] = (),
        types: Sequence[DataType] = (),
        attrs: dict[str, Any] = NO_ATTRS,
    ) -> Op: ...

    def as_value(self, operand: Operand, dtype: DataType) -> Value: ...

    def as_indices(self, index: Operand | Sequence[Operand]) -> tuple[Value, ...]: ...

    def find_buffer(self, buffer: Buffer | str) -> Buffer: ...


# --- what several formats share -----------------------------------------------------------


def _build_alike(b: OpBuilder, row: OpDef, operands: tuple[Operand, ...], count: int) -> tuple[Value, ...]:
    """Operands of one type; numbers take the type of the first value among them."""
    if len(operands) != count:
        raise TypeError(f"{row.name} takes {count} operand{'s' * (count != 1)}, {len(operands)} given")
    dtype = next((v.type for v in operands if isinstance(v, Value)), None)
    if dtype is None:
        raise TypeError(f"{row.name}: give one operand at least as a value, to tell the type")
    return tuple(b.as_value(operand, dtype) for operand in operands)


# --- id, size, len ------------------------------------------------------------------------


def _build_id(b: OpBuilder, row: OpDef, axis: str = "x") -> Value:
    return b.emit(row, (), (_U32,), {"axis": axis}).result


def _build_size(b: OpBuilder, row: OpDef) -> Value:
    return b.emit(row, (), (_U32,)).result


def _build_len(
    b: OpBuilder,
    row: OpDef,
    buffer: Buffer | str,
    dtype: DataType | str = _U32,
    *,
    dimension: int | None = None,
) -> Value:
    attrs = {} if dimension is None else {"dimension": dimension}
    return b.emit(row, (), (as_type(dtype),), {"buffer": b.find_buffer(buffer).name, **attrs}).result


# --- unary, binary, ternary, compare, select ----------------------------------------------


def _build_elementwise(b: OpBuilder, row: OpDef, *operands: Operand, fastmath: Sequence[str] = ()) -> Value:
    values = _build_alike(b, row, operands, FORMATS[row.format].operands or 0)
    dtype = values[0].type
    result = dtype.with_element(_BOOL) if row.format == "compare" else dtype
    attrs = {"fastmath": tuple(fastmath)} if fastmath else NO_ATTRS
    return b.emit(row, values, (result,), attrs).result


def _build_select(b: OpBuilder, row: OpDef, predicate: Operand, *operands: Operand) -> Value:
    values = _build_alike(b, row, operands, 2)
    return b.emit(row, (b.as_value(predicate, _BOOL), *values), (values[0].type,)).result


# --- convert ------------------------------------------------------------------------------


def _build_convert(b: OpBuilder, row: OpDef, operand: Value, dtype: DataType | str) -> Value:
    return b.emit(row, (operand,), (as_type(dtype),)).result


# --- splat, vector, extract, insert -------------------------------------------------------


def _vector_of(element: DataType, lanes: int) -> DataType:
    if lanes < MIN_VECTOR_LANES:
        raise TypeNameError(vector_lanes(lanes))
    return DataType.vec(element, lanes)


def _build_splat(b: OpBuilder, row: OpDef, operand: Value, lanes: int | DataType) -> Value:
    dtype = lanes if isinstance(lanes, DataType) else _vector_of(operand.type, lanes)
    return b.emit(row, (operand,), (dtype,)).result


def _build_vector(b: OpBuilder, row: OpDef, *operands: Operand) -> Value:
    values = _build_alike(b, row, operands, len(operands))
    return b.emit(row, values, (_vector_of(values[0].type, len(values)),)).result


def _build_extract(b: OpBuilder, row: OpDef, vector: Value, index: int) -> Value:
    return b.emit(row, (vector,), (vector.type.element,), {"index": index}).result


def _build_insert(b: OpBuilder, row: OpDef, operand: Operand, vector: Value, index: int) -> Value:
    value = b.as_value(operand, vector.type.element)
    return b.emit(row, (value, vector), (vector.type,), {"index": index}).result


# --- permute, movemask --------------------------------------------------------------------


def _build_permute(b: OpBuilder, row: OpDef, table: Value, index: Value) -> Value:
    return b.emit(row, (table, index), (index.type,)).result


def _build_movemask(b: OpBuilder, row: OpDef, flags: Value) -> Value:
    dtype = mask_type(flags.type)
    if dtype is None:
        raise TypeError(f"{row.name} {no_mask(flags.type)}")
    return b.emit(row, (flags,), (dtype,)).result


# --- load, store, atomic ------------------------------------------------------------------


def _build_load(
    b: OpBuilder, row: OpDef, buffer: Buffer | str, index: Operand | Sequence[Operand], lanes: int = 1
) -> Value:
    source = b.find_buffer(buffer)
    dtype = source.dtype if lanes == 1 else DataType.vec(source.dtype, lanes)
    return b.emit(row, b.as_indices(index), (dtype,), {"buffer": source.name}).result


def _build_atomic(
    b: OpBuilder,
    row: OpDef,
    buffer: Buffer | str,
    index: Operand | Sequence[Operand],
    *operands: Operand,
    order: str = "relaxed",
    fastmath: Sequence[str] = (),
) -> Value:
    target = b.find_buffer(buffer)
    count = row.atomic_values
    if len(operands) != count:
        raise TypeError(f"{row.name} takes {count} operand{'s' * (count != 1)} after the index")
    values = tuple(b.as_value(operand, target.dtype) for operand in operands)
    attrs: dict[str, Any] = {"order": order, "buffer": target.name}
    if fastmath:
        attrs["fastmath"] = tuple(fastmath)
    return b.emit(row, (*b.as_indices(index), *values), (target.dtype,), attrs).result


# --- copy_wait, barrier, shuffle, reduce, scan, ballot ------------------------------------


def _build_shuffle(b: OpBuilder, row: OpDef, operand: Value, lane: Operand, mode: str = "idx") -> Value:
    return b.emit(row, (operand, b.as_value(lane, _U32)), (operand.type,), {"mode": mode}).result


def _build_reduce(b: OpBuilder, row: OpDef, operand: Value, combine: str = "add") -> Value:
    return b.emit(row, (operand,), (operand.type,), {"combine": combine}).result


def _build_scan(
    b: OpBuilder, row: OpDef, operand: Value, mode: str = "inclusive", combine: str = "add"
) -> Value:
    return b.emit(row, (operand,), (operand.type,), {"mode": mode, "combine": combine}).result


def _build_ballot(b: OpBuilder, row: OpDef, predicate: Value) -> Value:
    return b.emit(row, (predicate,), (_U32,)).result


# --- matrices -----------------------------------------------------------------------------


def _build_slice_load(
    b: OpBuilder,
    row: OpDef,
    buffer: Buffer | str,
    index: Operand | Sequence[Operand],
    extents: Sequence[int | None],
    fill: Operand | None = None,
) -> Value:
    source = b.find_buffer(buffer)
    beyond = () if fill is None else (b.as_value(fill, source.dtype),)
    attrs = {"edge": "checked" if fill is None else "filled", "buffer": source.name}
    return b.emit(
        row, (*b.as_indices(index), *beyond), (DataType.slice(extents, source.dtype),), attrs
    ).result


def _build_slice_gather(
    b: OpBuilder, row: OpDef, buffer: Buffer | str, index: Operand | Sequence[Operand]
) -> Value:
    source, indices = b.find_buffer(buffer), b.as_indices(index)
    extents = next(each.type.extents for each in indices if each.type.is_slice)
    return b.emit(row, indices, (DataType.slice(extents, source.dtype),), {"buffer": source.name}).result


def _build_slice_iota(
    b: OpBuilder,
    row: OpDef,
    extents: int | Sequence[int] | Value,
    dtype: DataType | str = _U32,
    start: Operand = 0,
) -> Value:
    first = b.as_value(start, as_type(dtype))
    if isinstance(extents, Value):
        return b.emit(row, (first, extents), (DataType.slice((None,), first.type),)).result
    extents = (extents,) if isinstance(extents, int) else extents
    return b.emit(row, (first,), (DataType.slice(extents, first.type),)).result


def _build_slice_broadcast(b: OpBuilder, row: OpDef, value: Value, like: Value | Sequence[int]) -> Value:
    if isinstance(like, Value):
        dtype = like.type.with_element(value.type.element)
        return b.emit(row, (value, like) if None in dtype.extents else (value,), (dtype,)).result
    return b.emit(row, (value,), (DataType.slice(like, value.type.element),)).result


def _build_slice_reduce(
    b: OpBuilder, row: OpDef, value: Value, combine: str = "add", axis: int = 0, keep: bool = False
) -> Value:
    extents, element = value.type.extents, value.type.element
    kept = (*extents[:axis], *[1] * keep, *extents[axis + 1 :])
    dtype = DataType.slice(kept, element) if kept else element
    return b.emit(row, (value,), (dtype,), {"combine": combine, "axis": axis}).result


def _build_slice_scan(
    b: OpBuilder, row: OpDef, value: Value, mode: str = "inclusive", combine: str = "add", axis: int = 0
) -> Value:
    attrs = {"mode": mode, "combine": combine, "axis": axis}
    return b.emit(row, (value,), (value.type,), attrs).result


def _build_slice_transpose(b: OpBuilder, row: OpDef, value: Value) -> Value:
    return b.emit(row, (value,), (DataType.slice(value.type.extents[::-1], value.type.element),)).result


def _build_slice_dot(b: OpBuilder, row: OpDef, x: Value, y: Value, total: Value | None = None) -> Value:
    extents = x.type.extents[0], y.type.extents[1]
    return b.emit(
        row, (x, y) if total is None else (x, y, total), (DataType.slice(extents, sum_type(x.type.element)),)
    ).result


def _build_slice_len(b: OpBuilder, row: OpDef, value: Value, axis: int = 0) -> Value:
    return b.emit(row, (value,), (_U32,), {"axis": axis}).result


def _build_matrix_load(
    b: OpBuilder,
    row: OpDef,
    buffer: Buffer | str,
    index: Operand | Sequence[Operand],
    dtype: DataType,
    layout: str = "row_major",
) -> Value:
    attrs = {"layout": layout, "buffer": b.find_buffer(buffer).name}
    return b.emit(row, b.as_indices(index), (dtype,), attrs).result


def _build_matrix_mul_add(b: OpBuilder, row: OpDef, x: Value, y: Value, z: Value) -> Value:
    return b.emit(row, (x, y, z), (z.type,)).result


def _build_matrix_unpack(b: OpBuilder, row: OpDef, matrix: Value) -> Value:
    return b.emit(row, (matrix,), (DataType.vec(matrix.type.element, matrix.type.lanes),)).result


def _build_matrix_pack(b: OpBuilder, row: OpDef, lanes: Value, dtype: DataType) -> Value:
    return b.emit(row, (lanes,), (dtype,)).result


# --- the table ----------------------------------------------------------------------------

BUILDERS: dict[str, Callable[..., Value]] = {
    "id": _build_id,
    "size": _build_size,
    "len": _build_len,
    "unary": _build_elementwise,
    "binary": _build_elementwise,
    "ternary": _build_elementwise,
    "compare": _build_elementwise,
    "select": _build_select,
    "convert": _build_convert,
    "splat": _build_splat,
    "vector": _build_vector,
    "extract": _build_extract,
    "insert": _build_insert,
    "permute": _build_permute,
    "movemask": _build_movemask,
    "load": _build_load,
    "atomic": _build_atomic,
    "shuffle": _build_shuffle,
    "reduce": _build_reduce,
    "scan": _build_scan,
    "ballot": _build_ballot,
    "slice_load": _build_slice_load,
    "slice_broadcast": _build_slice_broadcast,
    "slice_gather": _build_slice_gather,
    "slice_iota": _build_slice_iota,
    "slice_reduce": _build_slice_reduce,
    "slice_scan": _build_slice_scan,
    "slice_transpose": _build_slice_transpose,
    "slice_dot": _build_slice_dot,
    "slice_len": _build_slice_len,
    "matrix_load": _build_matrix_load,
    "matrix_mul_add": _build_matrix_mul_add,
    "matrix_unpack": _build_matrix_unpack,
    "matrix_pack": _build_matrix_pack,
}
