"""Sample values of each type, and the interpreter's results for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vyre_opt.ir import DataType
from vyre_opt.targets.ref.convert import bitcast, cast
from vyre_opt.targets.ref.elementwise import COMPARISONS, compute
from vyre_opt.targets.ref.registers import from_storage, register_type, to_storage

__all__ = ["FLOATS", "INTS", "SCALARS", "edges", "encoded", "interpreted", "interpreted_bits", "samples"]

INTS = [DataType.of(name) for name in ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64")]
FLOATS = [DataType.of(name) for name in ("f16", "bf16", "f32", "f64")]
SCALARS = [DataType.BOOL, *INTS, *FLOATS]

Bits = np.ndarray[Any, Any]

FRACTION_BITS = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
EXPONENT_BITS = {"f16": 5, "bf16": 8, "f32": 8, "f64": 11}
_RANDOM = 24


def edges(dtype: DataType) -> list[int]:
    """Encoded constants where a type is special."""
    bits = dtype.bits or 0
    if dtype.is_bool:
        return [0, 1]
    if dtype.is_float:
        return _float_edges(dtype)
    values = {0, 1, 2, 3, 5, 7, bits - 1, bits, bits + 1, -1, -2, -7, 1 << (bits - 1), (1 << (bits - 1)) - 1}
    values |= {(1 << (bits - 1)) + 1, (1 << (bits // 2)), -(1 << (bits // 2))}
    return sorted({encoded(v, dtype) for v in values})


def _float_edges(dtype: DataType) -> list[int]:
    """Patterns: zeros, ends of the subnormals and normals, infinities, NaNs, 1 and its neighbours, 2, 1/2, 3."""
    fraction = FRACTION_BITS[dtype.name]
    one = ((1 << (EXPONENT_BITS[dtype.name] - 1)) - 1) << fraction
    hidden, infinity = 1 << fraction, ((1 << EXPONENT_BITS[dtype.name]) - 1) << fraction
    magnitudes = [0, 1, hidden - 1, hidden, infinity - 1, infinity, infinity + 1, infinity | hidden >> 1,
                  one, one - 1, one + 1, one + hidden, one - hidden, one + hidden + (hidden >> 1)]  # fmt: skip
    sign = 1 << ((dtype.bits or 0) - 1)
    return [magnitude | s for magnitude in magnitudes for s in (0, sign)]


def samples(dtype: DataType) -> list[int]:
    """The edges and random bit patterns."""
    rng = np.random.default_rng(3)
    patterns = [int.from_bytes(rng.bytes(8), "little") for _ in range(_RANDOM)]
    return [*edges(dtype), *(encoded(p, dtype) for p in patterns)]


def encoded(value: int, dtype: DataType) -> int:
    """Bits, or an integer of any size, as an encoded constant of a type."""
    if dtype.is_bool:
        return value & 1
    bits = dtype.bits or 0
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.is_signed and value >> (bits - 1) else value


def interpreted_bits(
    name: str, patterns: Sequence[Bits], types: Sequence[DataType], result: DataType
) -> Bits:
    """The interpreter's results for arrays of bit patterns, as bit patterns."""
    arrays = [_registers(column, t) for column, t in zip(patterns, types, strict=True)]
    with np.errstate(all="ignore"):
        if name in COMPARISONS:
            values = COMPARISONS[name](*arrays)
        elif name == "select":
            values = np.where(*arrays)
        elif name in ("cast", "bitcast"):
            values = (cast if name == "cast" else bitcast)(arrays[0], types[0], result)
        else:
            values = compute(name, arrays, result)
    stored = np.ascontiguousarray(to_storage(np.asarray(values), result))
    return np.asarray(stored.view(_unsigned(result)))


def _unsigned(dtype: DataType) -> str:
    return f"<u{(dtype.bits or 8) // 8}"


def _registers(patterns: Bits, dtype: DataType) -> Bits:
    """Bit patterns as the interpreter holds values."""
    raw = patterns.view(to_storage(np.empty(0, register_type(dtype)), dtype).dtype)
    return np.asarray(from_storage(raw, dtype))


def interpreted(
    name: str, operands: Sequence[Sequence[int]], types: Sequence[DataType], result: DataType
) -> list[int]:
    """The encoded results of the interpreter for columns of encoded operands."""
    patterns = [
        np.array([v & ((1 << (t.bits or 8)) - 1) for v in column], dtype=_unsigned(t))
        for column, t in zip(operands, types, strict=True)
    ]
    return [encoded(int(bits), result) for bits in interpreted_bits(name, patterns, types, result)]
