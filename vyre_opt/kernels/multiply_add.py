"""Products and sums of the element types that contractions take.

f32 multiplies and adds with one rounding.  u32 and i32 hold signed 16.16 numbers: each
product has 64 bits and is shifted right by 16, rounding down; sums wrap modulo 2^32.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.program import Value
from ..ir.types import DataType
from .collective import as_type

__all__ = ["multiply_add", "signed", "stored", "zero"]


def zero(b: Builder, dtype: DataType, lanes: int = 1) -> Value:
    """Zero in the type that sums are kept in: f32, or i32 for 16.16."""
    element = DataType.F32 if dtype.element.is_float else DataType.I32
    return b.const(0, element if lanes == 1 else DataType.vec(element, lanes))


def signed(b: Builder, value: Value) -> Value:
    """A loaded element (or vector) in the type that is computed with: f32, or i32 for 16.16."""
    element = value.type.element
    target = value.type.with_element(DataType.F32 if element.is_float else DataType.I32)
    if element.is_float or value.type is target:
        return as_type(b, value, target)
    return b.bitcast(value, target)  # u32 holds the bits of a signed number


def multiply_add(b: Builder, x: Value, y: Value, total: Value) -> Value:
    """total + x * y, of values as `signed` gives them; x may be a scalar beside vectors."""
    if y.type.is_vec and not x.type.is_vec:
        x = b.splat(x, y.type.lanes)
    if total.type.element.is_float:
        return b.fma(x, y, total)
    wide = total.type.with_element(DataType.I64)
    product = b.mul(b.cast(x, wide), b.cast(y, wide))
    return b.add(total, b.cast(b.shr(product, b.const(16, wide)), total.type))


def stored(b: Builder, value: Value, dtype: DataType) -> Value:
    """A sum as an element (or vector) of `dtype`."""
    target = value.type.with_element(dtype)
    if dtype.is_float or value.type is target:
        return as_type(b, value, target)
    return b.bitcast(value, target)
