"""Accesses of MLIR as accesses of ours: memref and vector loads and stores, lengths, atomics, copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.program import Buffer, Value
from ..ir.types import DataType
from .helpers.atomics import ATOMIC_KINDS
from .read_ops import hint
from .reader import Reader, attribute, text_attribute
from .syntax import ATOMIC_NUMBERS
from .typed_values import Byte, Index, NotReadable, signless

__all__ = ["READ_MEMORY", "read_atomic_helper"]

U32, U64 = DataType.U32, DataType.U64


def _indices(r: Reader, buffer: Buffer, operands: Sequence[Any]) -> tuple[Value, ...]:
    """The indices of an access; the last index of a buffer of vectors selects a lane, and is 0."""
    if buffer.dtype.is_vec:
        if r.number(operands[-1]) != 0:
            raise NotReadable(f"an access of @{buffer.name}, whose elements are vectors, is of whole ones")
        operands = operands[:-1]
    return tuple(r.element_index(operand) for operand in operands)


def _access_type(r: Reader, buffer: Buffer, kind: Any) -> DataType:
    """Our type of what moves, which is of the buffer's element."""
    dtype = r.dtype(kind)
    element = buffer.dtype.element
    moved = DataType.vec(element, dtype.lanes) if dtype.is_vec else element
    is_byte = element.is_bool and dtype.element.bits == 8
    if not is_byte and signless(moved) is not signless(dtype):
        raise NotReadable(f"@{buffer.name} has elements of {buffer.dtype}, and this is {kind}")
    return moved


def _load(r: Reader, op: Any) -> None:
    memory, *indices = op.operands
    buffer, (result,) = r.memory(memory), op.results
    dtype = _access_type(r, buffer, result.type)
    value = r.emit("load", _indices(r, buffer, indices), dtype, {"buffer": buffer.name})
    is_byte = dtype.element.is_bool and str(getattr(result.type, "element_type", result.type)) == "i8"
    r.set(result, Byte(value) if is_byte else value)


def _store(r: Reader, op: Any) -> None:
    stored, memory, *indices = op.operands
    buffer = r.memory(memory)
    dtype = _access_type(r, buffer, stored.type)
    typed = r.get(stored)
    if isinstance(typed, Byte) and dtype.element.is_bool:
        value = typed.flag
    elif dtype.element.is_bool and str(getattr(stored.type, "element_type", stored.type)) == "i8":
        byte = r.value(stored)
        value = r.emit("ne", (byte, r.constant(0, byte.type)), dtype)
    else:
        value = r.value(stored, dtype)
    name = "copy_async" if text_attribute(op, "vyre.op") == "copy_async" and buffer.is_workgroup else "store"
    r.add(name, (value, *_indices(r, buffer, indices)), attrs={"buffer": buffer.name})


def _dim(r: Reader, op: Any) -> None:
    memory, dimension = op.operands
    buffer, (result,), number = r.memory(memory), op.results, r.number(dimension)
    if number is None or not 0 <= number < buffer.dimensions:
        raise NotReadable("memref.dim is read of a constant dimension, of those that the buffer has")
    attrs: dict[str, Any] = {"buffer": buffer.name}
    if buffer.dimensions > 1:
        attrs["dimension"] = number
    r.set(result, Index(r.emit("len", (), _length_type(r, result), attrs)))


def _length_type(r: Reader, result: Any) -> DataType:
    """The type of a length: u32 or u64 if a use casts it to that, otherwise u32."""
    for use in result.uses:
        op = use.operation
        if op.name == "arith.index_castui":
            dtype = hint(op, r.type_of(op.results[0])) or r.type_of(op.results[0], False)
            if dtype in (U32, U64):
                return dtype
    return U32


# --- atomics


def _atomic(r: Reader, op: Any) -> None:
    value, memory, *indices = op.operands
    buffer, number = r.memory(memory), int(attribute(op, "kind").value.data)
    kind = ATOMIC_NUMBERS[number] if number < len(ATOMIC_NUMBERS) else str(number)
    dtype = buffer.dtype
    rows = [(name, c) for (name, c), theirs in ATOMIC_KINDS.items() if theirs == kind]
    classes = ("f",) if dtype.is_float else ("i", "s" if dtype.is_signed else "u")
    named = [name for name, c in rows if c in classes]
    if not named:
        raise NotReadable(
            f"memref.atomic_rmw {kind} of @{buffer.name}, whose elements are {dtype}, is not read"
        )
    operands = (*_indices(r, buffer, indices), r.value(value, dtype))
    attrs = {"order": "relaxed", "buffer": buffer.name}
    r.set(op.results[0], r.emit(f"atomic_{named[0]}", operands, dtype, attrs))


def read_atomic_helper(r: Reader, op: Any, name: str, order: str) -> None:
    """A call of the helper for an atomic: memref, indices, values."""
    memory, *rest = op.operands
    buffer = r.memory(memory)
    count = 2 if name == "atomic_compare_exchange" else 1
    values = tuple(r.value(value, buffer.dtype) for value in rest[-count:])
    operands = (*_indices(r, buffer, rest[:-count]), *values)
    r.set(op.results[0], r.emit(name, operands, buffer.dtype, {"order": order, "buffer": buffer.name}))


# --- asynchronous copies, which are stores


def _commit(r: Reader, op: Any) -> None:
    """Skip the op: the wait after it ends the group."""


def _wait(r: Reader, op: Any) -> None:
    r.add("copy_wait", attrs={"pending": int(attribute(op, "n").value.data)})


READ_MEMORY: dict[str, Callable[[Reader, Any], None]] = {
    "memref.load": _load,
    "vector.load": _load,
    "memref.store": _store,
    "vector.store": _store,
    "memref.dim": _dim,
    "memref.atomic_rmw": _atomic,
    "nvvm.cp.async.commit.group": _commit,
    "nvvm.cp.async.wait.group": _wait,
}
"""Readers by the name of MLIR's op."""
