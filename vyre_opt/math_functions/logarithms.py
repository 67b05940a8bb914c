"""log, log2 and log1p.

    log(x) = e ln 2 + log(m),  x = 2^e m,  m in [sqrt(1/2), sqrt 2)
    log(m) = f - f^2/2 + f^3 L(f),  f = m - 1

f is exact, and the terms behind it are small, so the sum with e ln 2 in two words is good to nearly half an ulp.
"""

from __future__ import annotations

import math

from . import coefficients
from .constants import LN2, words
from .double_word import Words, fast_two_sum, product, two_sum
from .expression import Flag, Format, Real, fma, polynomial, rarely, select

__all__ = [
    "is_normal",
    "log",
    "log1p",
    "log2",
    "log2_special",
    "log_special",
    "special",
    "split",
    "split_normal",
]


def is_normal(x: Real) -> Flag:
    """Whether x is a positive normal number."""
    least = x.format.encode(x.format.least_normal)
    return x.bits() - least < x.format.encode(math.inf) - least


def split_normal(x: Real) -> Words:
    """(e, m) with x = 2^e m and m in [sqrt(1/2), sqrt 2), of a positive normal x."""
    format, bits = x.format, x.bits()
    # with the bits of sqrt(1/2) subtracted the exponent changes there
    exponent = (bits - format.encode(math.sqrt(0.5))).arithmetic_shift(format.fraction_bits)
    return exponent.to_real(), (bits - (exponent << format.fraction_bits)).real()


def split(x: Real) -> Words:
    """`split_normal` of any positive finite x."""
    # a subnormal has no hidden bit: it is scaled to a normal number, and e is corrected
    tiny = x < x.format.least_normal
    e, m = split_normal(select(tiny, x * 2.0**x.format.precision, x))
    return e - select(tiny, float(x.format.precision), 0.0), m


def _log_words(m: Real) -> Words:
    """log(m) as the sum of two floats, for m in [sqrt(1/2), sqrt 2)."""
    f = m - 1.0
    half = 0.5 * f
    half_square = half * f
    error = fma(half, f, -half_square)
    high = f - half_square
    return high, fma(
        f * half_square, polynomial(f, coefficients.LOG[m.format.name]), ((f - high) - half_square) - error
    )


def _short_ln2(format: Format) -> Words | tuple[float, float]:
    """ln 2 in two words, the first so short that its product with an exponent is exact."""
    exponent_bits = format.bits - format.precision + 1
    first, second = words(LN2, 2, format, format.precision - exponent_bits)
    return first, second


def special(x: Real, result: Real) -> Real:
    """The logarithm's -inf at 0, NaN below, inf and NaN at themselves."""
    result = select(x.equals(math.inf), x, result)
    result = select(x.equals(0.0), -math.inf, result)
    result = select(x < 0.0, math.nan, result)
    return select(x.is_nan(), x, result)


def _log(e: Real, m: Real) -> Real:
    f = m - 1.0
    first, second = _short_ln2(e.format)
    total, error = fast_two_sum(e * first, f)
    series = polynomial(f, (-1.0, *coefficients.LOG[e.format.name]))
    return total + fma((0.5 * f) * f, series, fma(e, second, error))


def log(x: Real) -> Real:
    return rarely(~is_normal(x), "log.special", (x,), _log(*split_normal(x)))


def log_special(x: Real) -> Real:
    return special(x, _log(*split(x)))


def _log2(e: Real, m: Real) -> Real:
    per_ln2 = words(1 / LN2, 2, e.format)
    high, low = product(_log_words(m), (per_ln2[0], per_ln2[1]))
    total, error = fast_two_sum(e, high)
    return total + (error + low)


def log2(x: Real) -> Real:
    return rarely(~is_normal(x), "log2.special", (x,), _log2(*split_normal(x)))


def log2_special(x: Real) -> Real:
    return special(x, _log2(*split(x)))


def log1p(x: Real) -> Real:
    """log(u) + c / u, where u + c = 1 + x exactly."""
    u, c = two_sum(x.constant(1.0), x)
    e, m = split(u)
    high, low = _log_words(m)
    first, second = _short_ln2(e.format)
    total, error = fast_two_sum(e * first, high)
    result = special(u, total + (error + fma(e, second, low + c / u)))
    # x itself where the next term is below half an ulp: it keeps the sign of zero and subnormals
    return select(abs(x) < 2.0**-x.format.precision, x, result)
