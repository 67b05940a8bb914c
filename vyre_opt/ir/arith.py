"""Scalar semantics on encoded constants: the meaning of arithmetic, in plain Python.

An encoded constant is an int: the value itself for an integer (negative for a
negative signed one), 0 or 1 for a bool, the bit pattern for a float.  Folding
uses these functions; the interpreter is tested against them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from .types import DataType

_FLOATS: dict[str, tuple[int, int, int]] = {
    # name: (significand bits p, exponent of the smallest subnormal, largest exponent)
    "f16": (11, -24, 16),
    "bf16": (8, -133, 128),
    "f32": (24, -149, 128),
    "f64": (53, -1074, 1024),
}

CANONICAL_NAN = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "f64": 0x7FF8000000000000}


def wrap(value: int, dtype: DataType) -> int:
    """`value` modulo 2^bits, in the range of `dtype`."""
    bits = dtype.bits
    assert bits is not None
    if dtype.kind == "bool":
        return value & 1
    value &= (1 << bits) - 1
    if dtype.kind == "int" and value >> (bits - 1):  # the sign bit
        value -= 1 << bits
    return value


def int_range(dtype: DataType) -> tuple[int, int]:
    """Smallest and largest value of an integer or bool type."""
    assert dtype.bits is not None
    if dtype.kind == "bool":
        return 0, 1
    if dtype.kind == "int":
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def round_float(value: float, dtype: DataType) -> float:
    """`value` rounded to nearest even in a narrower float type, subnormals and overflow included."""
    if dtype.name == "f64" or value == 0.0 or math.isinf(value) or math.isnan(value):
        return value
    precision, min_exponent, max_exponent = _FLOATS[dtype.name]
    if abs(value) >= math.ldexp(1.0, max_exponent):
        return math.copysign(math.inf, value)
    _, exponent = math.frexp(value)
    unit = max(exponent - precision, min_exponent)
    # a scaling by a power of two is exact, and round() takes ties to even
    rounded = math.ldexp(round(math.ldexp(value, -unit)), unit)
    return math.copysign(math.inf if abs(rounded) >= math.ldexp(1.0, max_exponent) else rounded, value)


def encode_float(value: float, dtype: DataType) -> int:
    """The bit pattern of `value` rounded to `dtype`; NaN gives the canonical one."""
    if math.isnan(value):
        return CANONICAL_NAN[dtype.name]
    value = round_float(value, dtype)  # beyond the range it is inf, where struct would raise
    if dtype.name == "f64":
        return int.from_bytes(struct.pack("<d", value), "little")
    if dtype.name == "f16":
        return int.from_bytes(struct.pack("<e", value), "little")
    bits = int.from_bytes(struct.pack("<f", value), "little")
    return bits >> 16 if dtype.name == "bf16" else bits  # rounded, so the lower half is zero


def decode_float(bits: int, dtype: DataType) -> float:
    """The value of a bit pattern."""
    if dtype.name == "f64":
        return float(struct.unpack("<d", bits.to_bytes(8, "little"))[0])
    if dtype.name == "f16":
        return float(struct.unpack("<e", bits.to_bytes(2, "little"))[0])
    if dtype.name == "bf16":
        bits <<= 16
    return float(struct.unpack("<f", bits.to_bytes(4, "little"))[0])


def to_bits(value: int, dtype: DataType) -> int:
    """The unsigned bit pattern of an encoded constant."""
    assert dtype.bits is not None
    return value & ((1 << dtype.bits) - 1)


def from_bits(bits: int, dtype: DataType) -> int:
    """The encoded constant of a bit pattern."""
    return bits if dtype.kind == "float" else wrap(bits, dtype)


# --- integers; arguments are values, the result is wrapped by the caller


def int_div(a: int, b: int) -> int:
    """Truncating division; x/0 = x.  INT_MIN/-1 wraps to INT_MIN."""
    if b == 0:
        return a
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def int_rem(a: int, b: int) -> int:
    """Remainder with the sign of the dividend; x%0 = 0."""
    return 0 if b == 0 else a - b * int_div(a, b)


def saturate(value: int, dtype: DataType) -> int:
    low, high = int_range(dtype)
    return min(max(value, low), high)


def rotate_left(a: int, amount: int, dtype: DataType) -> int:
    assert dtype.bits is not None
    bits, amount = to_bits(a, dtype), amount % dtype.bits
    return wrap((bits << amount) | (bits >> (dtype.bits - amount)), dtype)


def leading_zeros(a: int, dtype: DataType) -> int:
    assert dtype.bits is not None
    return dtype.bits - to_bits(a, dtype).bit_length()


def trailing_zeros(a: int, dtype: DataType) -> int:
    assert dtype.bits is not None
    bits = to_bits(a, dtype)
    return (bits & -bits).bit_length() - 1 if bits else dtype.bits


def reverse_bits(a: int, dtype: DataType) -> int:
    return wrap(int(format(to_bits(a, dtype), f"0{dtype.bits}b")[::-1], 2), dtype)


# --- floats; arguments and result are Python floats, rounded by the caller.  A double
#     holds the exact or the correctly double-rounded sum, product, quotient and root of
#     two values of half its precision or less (Figueroa, 1995), so one rounding is enough.


def float_div(a: float, b: float) -> float:
    if b == 0.0:
        if a == 0.0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, math.copysign(1.0, a) * math.copysign(1.0, b))
    return a / b


def float_rem(a: float, b: float) -> float:
    """C's fmod: the sign of the dividend; NaN for x%0 and inf%x."""
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0.0:
        return math.nan
    return math.fmod(a, b)


def float_min(a: float, b: float) -> float:
    """The smaller; a NaN operand is ignored; -0.0 is smaller than 0.0."""
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    if a == b:
        return a if math.copysign(1.0, a) < 0 else b
    return min(a, b)


def float_max(a: float, b: float) -> float:
    """The larger; a NaN operand is ignored; 0.0 is larger than -0.0."""
    return -float_min(-a, -b)


def float_sqrt(a: float) -> float:
    return math.nan if a < 0 else math.sqrt(a) if not math.isinf(a) else a


def round_even(a: float) -> float:
    return a if math.isinf(a) or math.isnan(a) else math.copysign(float(round(a)), a)


def integral(direction: Callable[[float], int]) -> Callable[[float], float]:
    """A float version of math.floor, ceil or trunc that keeps inf, NaN and the sign of zero."""

    def rounded(a: float) -> float:
        return a if math.isinf(a) or math.isnan(a) else math.copysign(float(direction(a)), a)

    return rounded


def float_fma(a: float, b: float, c: float, dtype: DataType) -> int:
    """Encoded a*b + c with one rounding, through exact rationals."""
    from fractions import Fraction

    if math.isfinite(a) and math.isfinite(b) and not math.isfinite(c):
        return encode_float(c, dtype)  # whatever the product overflows to
    if not all(map(math.isfinite, (a, b, c))):
        return encode_float(a * b + c, dtype)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return encode_float(a * b + c, dtype)  # the sign of zero
    precision, min_exponent, max_exponent = _FLOATS[dtype.name]
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude >= Fraction(2) ** exponent:
        exponent += 1
    unit = max(exponent - precision, min_exponent)
    rounded = round(exact / Fraction(2) ** unit) * Fraction(2) ** unit
    if abs(rounded) >= Fraction(2) ** max_exponent:
        return encode_float(math.inf if exact > 0 else -math.inf, dtype)
    value = float(rounded)
    return encode_float(value if value or exact > 0 else -0.0, dtype)


def identity(combine: str, dtype: DataType) -> int:
    """The encoded value that changes nothing by a combiner: add, mul, min, max, and, or, xor."""
    if dtype.is_float:
        return encode_float({"add": 0.0, "mul": 1.0, "min": math.inf, "max": -math.inf}[combine], dtype)
    low, high = int_range(dtype)
    ones = -1 if dtype.is_signed else high
    return {"add": 0, "mul": 1, "min": high, "max": low, "and": ones, "or": 0, "xor": 0}[combine]


def neutral(combine: str, dtype: DataType) -> int:
    """The encoded value that changes no bit by a combiner: unlike `identity` neither -0.0 nor a NaN."""
    if not dtype.is_float:
        return identity(combine, dtype)
    # 0.0 + -0.0 is 0.0, and min(inf, NaN) is inf
    return encode_float({"add": -0.0, "mul": 1.0, "min": math.nan, "max": math.nan}[combine], dtype)


def convert(value: int, source: DataType, target: DataType) -> int:
    """`cast`: wrap between integers, round to a float, saturate from a float with NaN -> 0."""
    if source.kind == "float":
        number = decode_float(value, source)
        if target.kind == "float":
            return encode_float(number, target)
        if target.kind == "bool":
            return int(number != 0.0)
        if math.isnan(number):
            return 0
        low, high = int_range(target)
        return low if number <= low else high if number >= high else int(number)
    if target.kind == "float":
        return _encode_int(value, target)
    return int(value != 0) if target.kind == "bool" else wrap(value, target)


def _encode_int(value: int, target: DataType) -> int:
    """An integer rounded once, to nearest even, to a float type."""
    precision, _, _ = _FLOATS[target.name]
    excess = abs(value).bit_length() - precision
    if excess > 0:
        half, remainder = 1 << (excess - 1), abs(value) & ((1 << excess) - 1)
        significand = abs(value) >> excess
        significand += remainder > half or (remainder == half and significand & 1)
        value = (significand << excess) * (-1 if value < 0 else 1)
    return encode_float(float(value), target)
