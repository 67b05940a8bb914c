"""sin, cos and tan.

sin(r) = r + r^3 S(r^2),  cos(r) = 1 - r^2/2 + r^4 C(r^2),  |r| <= pi/4;  r and its quadrant: pi_reduction.py
"""

from __future__ import annotations

import math

from . import coefficients
from .double_word import Words, divided, fast_two_sum
from .expression import Bits, Real, fma, polynomial, rarely, select
from .pi_reduction import Reduced, limit, reduced, reduced_large

__all__ = ["cos", "cos_large", "sin", "sin_large", "tan", "tan_large", "where_large"]


def _sine(r: Words) -> Words:
    """Sine as two words, for quotients."""
    high, low = r
    square = high * high
    series = polynomial(square, coefficients.SIN[high.format.name])
    return fast_two_sum(high, fma(high * square, series, fma(low, -0.5 * square, low)))


def _cosine(r: Words) -> Words:
    high, low = r
    square = high * high
    series = polynomial(square, coefficients.COS[high.format.name])
    half = 0.5 * square
    lost = fma(0.5 * high, high, -half)  # of the square's rounding
    total = 1.0 - half
    rest = ((1.0 - total) - half) - lost
    return fast_two_sum(total, fma(square * square, series, fma(-high, low, rest)))


def _sine_at(quadrant: Bits, r: Words) -> Real:
    """Sine in one word: the terms of `_sine` and `_cosine` that change less than a sixth of an ulp are left out."""
    (high, low), name = r, r[0].format.name
    square = high * high
    half = 0.5 * square
    total = 1.0 - half
    sine = high + fma(high * square, polynomial(square, coefficients.SIN[name]), low)
    rest = fma(-high, low, (1.0 - total) - half)
    cosine = total + fma(square * square, polynomial(square, coefficients.COS[name]), rest)
    value = select((quadrant & 1).is_zero(), sine, cosine)
    # the second bit of the quadrant, as the sign
    return (value.bits() ^ ((quadrant & 2) << value.format.bits - 2)).real()


def _tangent(at: Reduced) -> Real:
    quadrant, r = at
    even = (quadrant & 1).is_zero()
    sine, cosine = _sine(r), _cosine(r)
    above = select(even, sine[0], -cosine[0]), select(even, sine[1], -cosine[1])
    below = select(even, cosine[0], sine[0]), select(even, cosine[1], sine[1])
    quotient, rest = divided(above, below)
    return quotient + rest


def where_large(name: str, x: Real, usual: Real) -> Real:
    """`usual`, or the function `name` where the argument is too large for it; infinity gives NaN."""
    size = abs(x)
    return rarely((size > limit(x.format)) & (size < math.inf), name, (x,), usual)


def sin(x: Real) -> Real:
    usual = _sine_at(*reduced(x))
    return where_large("sin.large", x, select(abs(x) < _tiny(x), x, usual))


def cos(x: Real) -> Real:
    quadrant, r = reduced(x)
    return where_large("cos.large", x, _sine_at(quadrant + 1, r))


def tan(x: Real) -> Real:
    return where_large("tan.large", x, select(abs(x) < _tiny(x), x, _tangent(reduced(x))))


def _tiny(x: Real) -> float:
    """Below it the x^3 / 3 of the series is less than a sixteenth of an ulp: sin(x) and tan(x) round to x."""
    return 2.0 ** (-x.format.precision // 2 - 1)


def sin_large(x: Real) -> Real:
    return _sine_at(*reduced_large(x))


def cos_large(x: Real) -> Real:
    quadrant, r = reduced_large(x)
    return _sine_at(quadrant + 1, r)


def tan_large(x: Real) -> Real:
    return _tangent(reduced_large(x))
