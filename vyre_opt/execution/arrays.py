"""Element types in NumPy: how the elements of a buffer are stored, and constants as arrays.

A buffer's array holds its *storage* type.  That is the obvious NumPy type, except for
bf16, which is stored as its 16 bits in uint16, and the one-byte formats without
arithmetic, which are uint8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir import arith
from ..ir.literals import show_number
from ..ir.program import Buffer
from ..ir.types import DataType, with_article
from ..worker import import_module
from .dispatcher import Scratch
from .signatures import library_of_type

_STORAGE: dict[str, Any] = {
    "bool": np.bool_,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": np.uint16,
    "f32": np.float32,
    "tf32": np.float32,
    "f64": np.float64,
    "f8e4m3": np.uint8,
    "f8e5m2": np.uint8,
}

_BITS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


STORED_AS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""The NumPy types that hold elements of types that NumPy lacks, by the names that other libraries have for these."""

_NUMBERS = (int, float, bool)

POISON = 1
"""The bytes of uninitialised memory where it is looked for: not 0, so that nobody takes it for zeros."""


def storage_type(dtype: DataType) -> np.dtype[Any] | None:
    """The NumPy type of the scalars that a buffer of `dtype` stores; None if it has none."""
    scalar = _STORAGE.get(dtype.element.name)
    return None if scalar is None else np.dtype(scalar)


def kind_of(dtype: DataType, like: Any, like_dtype: DataType | None = None, like_kind: str = "") -> str:
    """The element type of a new array of the library of `like`, as that library or NumPy names it.

    `like_dtype`: what the elements of `like` are, whose type is `like_kind`.  If the new ones are the same, so is their
    type: bf16, for example, may be stored as bfloat16 or as uint16.
    """
    if like_dtype is not None and dtype.element is like_dtype.element:
        return like_kind
    stored = storage_type(dtype)
    assert stored is not None
    torch_type = _TORCH_TYPES.get(dtype.element.name) if library_of_type(type(like)) == "torch" else None
    return torch_type or stored.name


_TORCH_TYPES = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
"""Torch's names of the types that NumPy lacks."""


def bits_type(dtype: DataType) -> np.dtype[Any]:
    """The unsigned NumPy type as wide as a scalar of `dtype`."""
    assert dtype.element.bits is not None
    return np.dtype(_BITS[dtype.element.bits])


def constant(value: Any, dtype: DataType) -> np.ndarray:
    """An encoded constant (see ir.arith) in storage form: shape (1,), or (1, lanes) of a vector."""
    lanes = value if isinstance(value, tuple) else (value,) * dtype.lanes
    bits = [arith.to_bits(int(lane), dtype.element) for lane in lanes]
    stored = storage_type(dtype)
    assert stored is not None
    array = np.array([bits], dtype=bits_type(dtype)).view(stored)
    return array if dtype.lanes > 1 else array.reshape(1)


def number_of(value: Any) -> Any:
    """The number in a scalar of NumPy or an array of no dimensions, of any library; anything else as it is.

    Of an array on a GPU it is copied from there, which waits for what its library is doing with it.
    """
    if getattr(value, "shape", None) != ():
        return value
    read = getattr(value, "item", None)
    return read() if read is not None else value.get().item() if hasattr(value, "get") else value  # PyCUDA


def encode_spec(value: Any, dtype: DataType) -> Any:
    """A number, or what `number_of` makes one of, or a SpecValue as an encoded constant of `dtype` (see ir.arith).

    Raises ValueError.
    """
    if type(value) not in _NUMBERS:  # else it is no SpecValue, and most calls load no more than they need
        import_module(f"{__package__.rpartition('.')[0]}.specialization.encoding")
        from ..specialization.encoding import encode_value
        from ..specialization.values import SpecValue

        if isinstance(value, SpecValue):
            return encode_value(value, dtype)
    if dtype.is_vec:
        lanes = tuple(value) if isinstance(value, (tuple, list, np.ndarray)) else None
        if lanes is None:
            return encode_spec(value, dtype.element)
        if len(lanes) != dtype.lanes:
            raise ValueError(f"{dtype} has {dtype.lanes} lanes, {len(lanes)} given")
        return tuple(encode_spec(lane, dtype.element) for lane in lanes)
    value = number_of(value)
    if dtype.is_bool:
        if not isinstance(value, bool):
            raise ValueError(f"a bool is True or False, not {value!r}")
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a number")
    if dtype.is_float:
        if isinstance(value, int):
            try:
                bits = arith.convert(value, DataType.I64, dtype)
            except OverflowError:
                message = f"{with_article(dtype)} holds no integer of {value.bit_length()} bits"
                raise ValueError(message) from None
        else:
            bits = arith.encode_float(value, dtype)
        if math.isinf(arith.decode_float(bits, dtype)) and not math.isinf(value):
            raise ValueError(f"{show_number(value)} does not fit in {dtype}, and would be inf")
        return bits
    if not dtype.is_int:
        raise ValueError(f"no constant of {dtype} exists")
    low, high = arith.int_range(dtype)
    if isinstance(value, float) or not low <= value <= high:
        raise ValueError(f"{value!r} is not {with_article(dtype)} ({low} to {high})")
    return value


def new_storage(buffer: Buffer, allocate: Callable[[int, np.dtype[Any]], np.ndarray]) -> np.ndarray:
    """Storage of a buffer of known length, flat over scalars, by `np.empty` or another function like it."""
    stored = storage_type(buffer.dtype)
    assert stored is not None
    # a bool array that holds other bytes than 0 and 1 is undefined in NumPy
    return (np.zeros if stored == np.bool_ else allocate)((buffer.count or 0) * buffer.dtype.lanes, stored)


def fits_buffer(array: np.ndarray, buffer: Buffer) -> bool:
    """Whether a flat array may be the storage of a buffer of known length."""
    return len(array) == (buffer.count or 0) * buffer.dtype.lanes and array.dtype == storage_type(
        buffer.dtype
    )


def transient_storage(buffer: Buffer, scratch: Scratch | None) -> np.ndarray:
    """Zeroed storage, flat over scalars, for an unbound buffer; kept in `scratch` for the next dispatch."""
    array = None if scratch is None else scratch.storage.get(buffer.name)
    if isinstance(array, np.ndarray) and fits_buffer(array, buffer):
        array.fill(0)
        return array
    try:
        zeros = new_storage(buffer, np.zeros)
    except ValueError as error:  # beyond the address space, where NumPy does not even try
        raise MemoryError(str(error)) from None
    if scratch is not None:
        scratch.storage[buffer.name] = zeros
    return zeros
