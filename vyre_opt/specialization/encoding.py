"""Values of specialization constants as constants of their types."""

from __future__ import annotations

from ..ir import arith
from ..ir.literals import LiteralError, encode, read_literal
from ..ir.types import DataType, with_article
from .values import SpecValue

__all__ = ["encode_value"]

# By the scalar type of a constant: the kind of SpecValue that it may be bound to.
_CARRIERS = {
    **dict.fromkeys(("u8", "u16", "u32", "u64"), "u32"),
    **dict.fromkeys(("i8", "i16", "i32", "i64"), "i32"),
    **dict.fromkeys(("f16", "bf16", "f32", "f64"), "f32"),
    "bool": "bool",
}


def encode_value(value: str | SpecValue, dtype: DataType) -> int:
    """A value as an encoded constant of a scalar type.

    A SpecValue fits the type that it names; a u32 also the other unsigned integers, an i32 the
    signed ones and an f32 the floats, where they hold it exactly.  Raises ValueError.
    """
    if isinstance(value, str):
        return encode(read_literal(value), dtype)
    scalar = dtype.bound
    carrier = _CARRIERS.get(scalar.name)
    if value.kind != carrier:
        raise LiteralError(f"{value!r} is {with_article(value.kind)}, not {with_article(carrier or scalar)}")
    if carrier == "bool":
        return value.bits
    if carrier == "f32":
        return _float(value, scalar)
    low, high = arith.int_range(scalar)
    if not low <= value.value <= high:
        raise LiteralError(f"{value.value} does not fit in {scalar} ({low} to {high})")
    return int(value.value)


def _float(value: SpecValue, dtype: DataType) -> int:
    if dtype is DataType.F32:
        return value.bits
    bits = arith.encode_float(value.value, dtype)
    if value.value == value.value and arith.decode_float(bits, dtype) != value.value:
        raise LiteralError(f"{value.value!r} is not exact in {dtype}")
    return bits
