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
from .expression import Format, Real, fma, polynomial, select

__all__ = ["log", "log1p", "log2", "special", "split"]


def split(x: Real) -> tuple[Real, Real]:
    """(e, m) with x = 2^e m and m in [sqrt(1/2), sqrt 2), of a positive finite x."""
    format = x.format
    # a subnormal has no hidden bit: it is scaled to a normal number, and e is corrected
    tiny = x < format.least_normal
    bits = select(tiny, x * 2.0**format.precision, x).bits()
    # with the bits of sqrt(1/2) subtracted the exponent changes there
    exponent = (bits - format.encode(math.sqrt(0.5))).arithmetic_shift(format.fraction_bits)
    mantissa = (bits - (exponent << format.fraction_bits)).real()
    return exponent.to_real() - select(tiny, float(format.precision), 0.0), mantissa


def _log_words(m: Real) -> Words:
    """log(m) as the sum of two floats, for m in [sqrt(1/2), sqrt 2)."""
    f = m - 1.0
    half = 0.5 * f
    half_square = half * f
    error = fma(half, f, -half_square)
    high = f - half_square
    return high, fma(f * half_square, polynomial(f, coefficients.LOG[m.format.name]), ((f - high) - half_square) - error)


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


def _natural(e: Real, high: Real, low: Real) -> Real:
    """e ln 2 + high + low."""
    first, second = _short_ln2(e.format)
    total, error = fast_two_sum(e * first, high)
    return total + (error + fma(e, second, low))


def log(x: Real) -> Real:
    e, m = split(x)
    return special(x, _natural(e, *_log_words(m)))


def log2(x: Real) -> Real:
    e, m = split(x)
    per_ln2 = words(1 / LN2, 2, x.format)
    high, low = product(_log_words(m), (per_ln2[0], per_ln2[1]))
    total, error = fast_two_sum(e, high)
    return special(x, total + (error + low))


def log1p(x: Real) -> Real:
    """log(u) + c / u, where u + c = 1 + x exactly."""
    u, c = two_sum(x.constant(1.0), x)
    e, m = split(u)
    high, low = _log_words(m)
    result = special(u, _natural(e, high, low + c / u))
    # x itself where the next term is below half an ulp: it keeps the sign of zero and subnormals
    return select(abs(x) < 2.0**-x.format.precision, x, result)
