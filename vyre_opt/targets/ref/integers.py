"""Integer and bit ops on arrays, as section "Integers" of the language's semantics has them.

Each takes the operands and the scalar type, and returns an array of that type.
NumPy's integers wrap as the language's do; what is special is division, shifts by
more than the width, saturation, and products wider than 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...execution.arrays import bits_type
from ...ir import arith
from ...ir.types import DataType

Array = np.ndarray[Any, np.dtype[np.integer[Any]]]


def _bits(a: Array, t: DataType) -> Array:
    """The same bits, unsigned."""
    return a.view(bits_type(t))


def _back(bits: Array, t: DataType, like: Array) -> Array:
    return bits.astype(bits_type(t), copy=False).view(like.dtype)


def _scalar(value: int, like: Array) -> np.integer[Any]:
    return like.dtype.type(value)


def div(a: Array, b: Array, t: DataType) -> Array:
    """Truncated; x/0 = x, INT_MIN/-1 = INT_MIN."""
    zero = b == 0
    divisor = np.where(zero, _scalar(1, b), b)
    if t.is_signed:
        minus = divisor == -1  # negation wraps where division would overflow
        divisor = np.where(minus, _scalar(1, b), divisor)
        quotient = a // divisor
        # NumPy rounds down; one more gives truncation where the quotient is negative and not whole
        rest = a - quotient * divisor
        quotient = quotient + ((rest != 0) & ((a < 0) != (divisor < 0))).astype(a.dtype)
        quotient = np.where(minus, -a, quotient)
    else:
        quotient = a // divisor
    return np.where(zero, a, quotient)


def rem(a: Array, b: Array, t: DataType) -> Array:
    """The sign of a; x%0 = 0, INT_MIN%-1 = 0."""
    nothing = (b == 0) | (b == -1) if t.is_signed else b == 0
    return np.where(nothing, _scalar(0, a), np.fmod(a, np.where(nothing, _scalar(1, b), b)))


def abs_diff(a: Array, b: Array, t: DataType) -> Array:
    return np.where(a > b, a - b, b - a)


def mul_hi(a: Array, b: Array, t: DataType) -> Array:
    """The high half of the exact product."""
    assert t.bits is not None
    if t.bits < 64:
        wide = np.int64 if t.is_signed else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(t.bits)).astype(a.dtype)
    x, y = _bits(a, t), _bits(b, t)
    high = _mul_hi_u64(x, y)
    if t.is_signed:  # subtract what reading the operands as unsigned added
        zero = np.uint64(0)
        high = high - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return _back(high, t, a)


def _mul_hi_u64(x: Array, y: Array) -> Array:
    """Schoolbook multiplication by halves of 32 bits."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    # no sum overflows: (2^32 - 1)^2 + 2^32 - 1 is below 2^64
    middle = x1 * y0 + ((x0 * y0) >> half)
    cross = x0 * y1 + (middle & low)
    high: Array = x1 * y1 + (middle >> half) + (cross >> half)
    return high


# --- saturating forms


def _limits(t: DataType, like: Array) -> tuple[np.integer[Any], np.integer[Any]]:
    low, high = arith.int_range(t)
    return _scalar(low, like), _scalar(high, like)


def add_sat(a: Array, b: Array, t: DataType) -> Array:
    low, high = _limits(t, a)
    total = a + b
    if not t.is_signed:
        return np.where(total < a, high, total)
    # a sum that wrapped lies on the wrong side of `a`
    total = np.where((b > 0) & (total < a), high, total)
    return np.where((b < 0) & (total > a), low, total).astype(a.dtype)


def sub_sat(a: Array, b: Array, t: DataType) -> Array:
    low, high = _limits(t, a)
    rest = a - b
    if not t.is_signed:
        return np.where(b > a, low, rest)
    return np.where((b < 0) & (rest < a), high, np.where((b > 0) & (rest > a), low, rest))


def mul_sat(a: Array, b: Array, t: DataType) -> Array:
    """The product fits if its high half only repeats the sign of its low half."""
    low, high = _limits(t, a)
    product, upper = a * b, mul_hi(a, b, t)
    if not t.is_signed:
        return np.where(upper != 0, high, product)
    fits = upper == np.where(product < 0, _scalar(-1, a), _scalar(0, a))
    return np.where(fits, product, np.where((a < 0) != (b < 0), low, high))


# --- shifts and rotates; the amount is taken modulo the width


def _amount(b: Array, t: DataType) -> Array:
    assert t.bits is not None
    return b & _scalar(t.bits - 1, b)


def shl(a: Array, b: Array, t: DataType) -> Array:
    return a << _amount(b, t)


def shr(a: Array, b: Array, t: DataType) -> Array:
    return a >> _amount(b, t)


def rotl(a: Array, b: Array, t: DataType) -> Array:
    x, left = _bits(a, t), _bits(_amount(b, t), t)
    # taken modulo the width once more: a rotation by 0 must shift by 0 both ways, not by the width
    right = _amount(_scalar(t.bits or 0, x) - left, t)
    return _back((x << left) | (x >> right), t, a)


def rotr(a: Array, b: Array, t: DataType) -> Array:
    return rotl(a, -b, t)


# --- counting and reversing, on 64 bits


def _count(x: Array) -> Array:
    """Set bits of each uint64, by adding neighbours in ever wider fields."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


def _wide(a: Array, t: DataType) -> Array:
    return _bits(a, t).astype(np.uint64)


def popcount(a: Array, t: DataType) -> Array:
    return _count(_wide(a, t)).astype(a.dtype)


def clz(a: Array, t: DataType) -> Array:
    """Set every bit below the highest one, and count the rest."""
    x = _wide(a, t)
    for shift in (1, 2, 4, 8, 16, 32):
        x = x | (x >> np.uint64(shift))
    return (np.uint64(t.bits or 0) - _count(x)).astype(a.dtype)


def ctz(a: Array, t: DataType) -> Array:
    """~a & (a - 1) has the trailing zeros of a as ones, all of them for 0."""
    x = _bits(a, t)
    below = ~x & (x - _scalar(1, x))
    return _count(below.astype(np.uint64)).astype(a.dtype)


_SWAPS = (
    (1, 0x5555555555555555),
    (2, 0x3333333333333333),
    (4, 0x0F0F0F0F0F0F0F0F),
    (8, 0x00FF00FF00FF00FF),
    (16, 0x0000FFFF0000FFFF),
    (32, 0x00000000FFFFFFFF),
)


def reverse_bits(a: Array, t: DataType) -> Array:
    """Swap neighbours in ever wider fields; the result ends up in the top bits."""
    x = _wide(a, t)
    for shift, field in _SWAPS:
        s, f = np.uint64(shift), np.uint64(field)
        x = ((x & f) << s) | ((x >> s) & f)
    return _back((x >> np.uint64(64 - (t.bits or 0))), t, a)
