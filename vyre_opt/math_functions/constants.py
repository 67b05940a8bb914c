"""pi, the logarithms of 2 and 10 and the like as integers of many bits, and as sums of floats.

They are computed here by integer arithmetic, from series for the arctangent:

    pi / 4 = 4 arctan(1/5) - arctan(1/239)                             (Machin, 1706)
    ln 2   = 18 artanh(1/26) - 2 artanh(1/4801) + 8 artanh(1/8749)
    ln 10  = 46 artanh(1/31) + 34 artanh(1/49) + 20 artanh(1/161)      (the last two of the kind of Gauss)
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from .expression import Format

__all__ = ["LN10", "LN2", "PI", "two_over_pi", "words"]

_BITS = 1400
"""Bits behind the point: for f64 two_over_pi needs the largest exponent, the significand and three words."""


def _arctan(n: int, sign: int) -> Fraction:
    """arctan(1/n), or artanh(1/n) for sign 1, to _BITS bits: the sum of sign^k / ((2k + 1) n^(2k + 1))."""
    one = 1 << (_BITS + 32)
    power, total, k = one // n, 0, 0
    while power:
        total += sign**k * (power // (2 * k + 1))
        power //= n * n
        k += 1
    return Fraction(total, one)


PI = 16 * _arctan(5, -1) - 4 * _arctan(239, -1)
LN2 = 18 * _arctan(26, 1) - 2 * _arctan(4801, 1) + 8 * _arctan(8749, 1)
LN10 = 46 * _arctan(31, 1) + 34 * _arctan(49, 1) + 20 * _arctan(161, 1)


def words(value: Fraction, count: int, format: Format, first_bits: int | None = None) -> tuple[float, ...]:
    """`value` as a sum of floats, each the rounded rest of those before.

    `first_bits`: how many significant bits the first has; a product with a small integer is then exact.
    """
    result = []
    for number in range(count):
        bits = first_bits if number == 0 and first_bits is not None else format.precision
        word = _rounded(value, bits)
        result.append(word)
        value -= Fraction(word)
    return tuple(result)


def _rounded(value: Fraction, bits: int) -> float:
    """`value` rounded to so many significant bits."""
    if value == 0:
        return 0.0
    exponent = value.numerator.bit_length() - value.denominator.bit_length() - bits
    unit = Fraction(2) ** exponent
    if abs(value / unit) >= 1 << bits:
        unit *= 2
    return float(round(value / unit) * unit)


@cache
def two_over_pi(width: int, count: int) -> tuple[int, ...]:
    """The first `count` words of `width` bits behind the point of 2 / pi, highest first."""
    scaled = int(2 / PI * (1 << width * count))
    return tuple((scaled >> width * (count - 1 - k)) & ((1 << width) - 1) for k in range(count))
