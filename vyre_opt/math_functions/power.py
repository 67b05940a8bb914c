"""pow: x^y = 2^(y log2 x), with the logarithm and its product with y in two words.

    log2(m) = 2 artanh(s) / ln 2 = (2 s + 2/3 s^3 + 2/5 s^5) / ln 2 + s^7 L(s^2),  s = (m - 1) / (m + 1)

Since y log2 x may be as large as the largest exponent, its error must be smaller than an ulp by as many bits; all of
the series but its tail is computed in two words.
"""

from __future__ import annotations

import math
from fractions import Fraction

from . import coefficients
from .constants import LN2, words
from .division import quotient_words
from .double_word import Words, fast_two_sum, two_product
from .exponentials import clamped, exp_words
from .expression import Format, Real, fma, polynomial, rarely, select
from .logarithms import is_normal, split, split_normal

__all__ = ["power", "power_special"]


def _pair(value: Fraction, format: Format) -> tuple[float, float]:
    first, second = words(value, 2, format)
    return first, second


def _log2_words(e: Real, m: Real) -> Words:
    """log2(2^e m) with a relative error of some 2^-(2 precision - 12)."""
    format = m.format
    f = m - 1.0
    s, s_low = quotient_words(f, fast_two_sum(m.constant(2.0), f))
    square = s * s
    square_low = fma(s + s, s_low, fma(s, s, -square))
    fifth, fifth_low = _pair(Fraction(2, 5) / LN2, format)
    term = fma(square, polynomial(square, coefficients.LOG2_TAIL[format.name]), fifth)
    rest = square * term
    rest_low = fma(square, fifth_low, fma(square_low, term, fma(square, term, -rest)))
    third, third_low = _pair(Fraction(2, 3) / LN2, format)
    factor, factor_low = fast_two_sum(m.constant(third), rest)
    slope = square * factor
    slope_low = fma(
        square, factor_low + (third_low + rest_low), fma(square_low, factor, fma(square, factor, -slope))
    )
    tail = s * slope
    tail_low = fma(s, slope_low, fma(s_low, slope, fma(s, slope, -tail)))
    linear, linear_low = _pair(2 / LN2, format)
    line = s * linear
    line_low = fma(s_low, linear, fma(s, linear_low, fma(s, linear, -line)))
    high, error = fast_two_sum(line, tail)
    total, lost = fast_two_sum(e, high)
    return fast_two_sum(total, lost + (error + (line_low + tail_low)))


def _exp2(fraction: Real, rest: Real) -> Real:
    """2^(fraction + rest) for |fraction| <= 1/2, and a smaller rest where the fraction is not 0."""
    first, second = _pair(LN2, fraction.format)
    high, low = fast_two_sum(fraction, rest)
    r = high * first
    total, rest = exp_words((r, fma(low, first, fma(high, second, fma(high, first, -r)))))
    return total + rest


def _signed(x: Real, y: Real, magnitude: Real) -> Real:
    """The power of x whose magnitude is that of |x|."""
    half = 0.5 * y
    is_integer, is_odd = y.trunc().equals(y), ~half.trunc().equals(half)
    # infinity is no odd number, and neither is what is so large that its half is integral
    result = select(is_integer & is_odd, magnitude.with_sign_of(x), magnitude)
    return select((x < 0.0) & (abs(x) < math.inf) & ~is_integer, math.nan, result)


def power(x: Real, y: Real) -> Real:
    size = abs(x)
    high, low = _log2_words(*split_normal(size))
    exponent = y * high
    n = exponent.round()
    value = _exp2(exponent - n, fma(y, low, fma(y, high, -exponent)))
    is_usual = is_normal(size) & (abs(exponent) < float(x.format.bias - 1))
    return rarely(~is_usual, "pow.special", (x, y), _signed(x, y, value * n.power_of_2()))


def power_special(x: Real, y: Real) -> Real:
    """x^y for any x and y."""
    size, format = abs(x), x.format
    high, low = _log2_words(*split(size))
    # the logarithm of 0 and infinity; y times it is then 0, infinite or NaN, as the result is
    high = select(size.equals(0.0), -math.inf, select(size.equals(math.inf), math.inf, high))
    exponent, error = two_product(y, high)
    least, most = -float(format.bias + format.fraction_bits + 2), float(format.bias + 2)
    within = clamped(exponent, least, most)
    n = within.round()
    value = _exp2(within - n, select(within.equals(exponent), fma(y, low, error), 0.0))
    result = _signed(x, y, value.scale(n))
    result = select(x.is_nan() | y.is_nan(), math.nan, result)
    is_one = x.equals(1.0) | (x.equals(-1.0) & abs(y).equals(math.inf)) | y.equals(0.0)
    return select(is_one, 1.0, result)
