"""pow: x^y = 2^(y log2 x), with the logarithm and its product with y in two words.

    log(m) = 2 artanh(s) = 2 s + s^3 (2/3 + s^2 L(s^2)),  s = (m - 1) / (m + 1)

Since y log2 x may be as large as the largest exponent, its error must be smaller than an ulp by as many bits; all of
the series but its tail is computed in two words.
"""

from __future__ import annotations

import math
from fractions import Fraction

from . import coefficients
from .constants import LN2, words
from .double_word import Words, divided, fast_two_sum, product, two_product, two_sum
from .exponentials import exp_words
from .expression import Format, Real, fma, polynomial, select
from .logarithms import split

__all__ = ["power"]


def _pair(value: Fraction, format: Format) -> tuple[float, float]:
    first, second = words(value, 2, format)
    return first, second


def _log2_words(x: Real) -> Words:
    """log2(x) of a positive finite x, with a relative error of some 2^-(2 precision - 12)."""
    format = x.format
    e, m = split(x)
    one = x.constant(1.0)
    s = fast_two_sum(*divided((m - 1.0, x.constant(0.0)), two_sum(m, one)))
    square = product(s, s)
    tail = square[0] * polynomial(square[0], coefficients.LOG_TAIL[format.name])
    third, third_low = _pair(Fraction(2, 3), format)
    high, low = fast_two_sum(x.constant(third), tail)
    series = product(product(square, s), (high, low + third_low))
    log_m = _sum((2.0 * s[0], 2.0 * s[1]), series)
    scaled = product(log_m, _pair(1 / LN2, format))
    total, error = fast_two_sum(e, scaled[0])
    return fast_two_sum(total, error + scaled[1])


def _sum(a: Words, b: Words) -> Words:
    """a + b for |a| >= |b|."""
    high, low = fast_two_sum(a[0], b[0])
    return fast_two_sum(high, low + (a[1] + b[1]))


def _exp2_words(p: Words) -> Real:
    """2^(p0 + p1), which may be zero or infinite."""
    high, low = p
    format = high.format
    least, most = -float(format.bias + format.fraction_bits + 2), float(format.bias + 2)
    beyond = (high > most) | (high < least)
    high = select(high > most, most, select(high > least, high, least))
    n = high.round()
    fraction = fast_two_sum(high - n, select(beyond, 0.0, low))
    total, rest = exp_words(product(fraction, _pair(LN2, format)))
    return (total + rest).scale(n)


def power(x: Real, y: Real) -> Real:
    size = abs(x)
    high, low = _log2_words(size)
    # the logarithm of 0 and infinity; y times it is then 0, infinite or NaN, as the result is
    high = select(size.equals(0.0), -math.inf, select(size.equals(math.inf), math.inf, high))
    exponent, error = two_product(y, high)
    magnitude = _exp2_words((exponent, fma(y, low, error)))
    half = 0.5 * y
    is_integer, is_odd = y.trunc().equals(y), ~half.trunc().equals(half)
    # infinity is no odd number, and neither is what is so large that its half is integral
    signed = select(is_integer & is_odd, magnitude.with_sign_of(x), magnitude)
    below = x < 0.0
    result = select(below & (size < math.inf) & ~is_integer, math.nan, signed)
    result = select(x.is_nan() | y.is_nan(), math.nan, result)
    is_one = x.equals(1.0) | (x.equals(-1.0) & abs(y).equals(math.inf)) | y.equals(0.0)
    return select(is_one, 1.0, result)
