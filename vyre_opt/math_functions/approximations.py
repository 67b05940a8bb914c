"""Short forms of functions of f32, which `fastmath<afn>` allows: some tens of instructions, so that memory sets the pace.

A GPU has instructions for 2^p, 1/x, 1/sqrt(x), sqrt(x) and x/y, good to 2 ulp; `Real.instruction` is one.  Elsewhere 2^p is
a polynomial, and functions that are no more than one of these have their exact forms.  The op table has each function's bound (`OpDef.approximate_ulp`).

    2^(p + e)     = 2^p + 2^p e ln 2  for a small e
    e^x           = 2^(p + e),  p = x log2(e) rounded, e its error
    log(2^k m)    = k ln 2 + f + f^2 L(f),  f = m - 1
    tanh(x)       = x + x^3 T(x^2),  |x| < 0.55;  1 - 2 / (e^2|x| + 1) beyond
    erf(x)        = x + x E(x^2),    |x| < 0.93;  1 - 2^(-x Q(x)) beyond
    x^y           = 2^(y log2 x),  the logarithm and the product in two words

Results below the least normal number may be zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from . import coefficients, exponentials
from .constants import LN2, PI, words
from .double_word import Words, fast_two_sum
from .expression import F32, Bits, Real, fma, polynomial, rarely, select
from .logarithms import special, split
from .trigonometry import where_large

__all__ = ["APPROXIMATIONS"]

_LN2, _LN2_LOW = words(LN2, 2, F32)
_LOG2_E, _LOG2_E_LOW = words(1 / LN2, 2, F32)
_MOST = 128.0 - 2.0**-17


# --- powers of two


def _power_of_2(p: Real, e: Real | None = None) -> Real:
    """2^(p + e) for |e| < 2^-10, or for p = _MOST and any positive e; zero where it is no normal number."""
    if p.graph.has_instructions:
        return p.instruction("exp2") if e is None else _nearby(p, e * _LN2)
    p = select(p > 128.0, 128.0, p)
    p = select(p < -126.5, -126.5, p)  # a NaN stays
    whole = (p - 0.5) + F32.integral  # the floor of p is in its low bits, or p - 1 where p is odd
    fraction = p - (whole - F32.integral)
    power = polynomial(fraction if e is None else fraction + e, coefficients.SHORT_EXP2["f32"])
    exponent = whole.bits() + (F32.bias - F32.encode(F32.integral))
    return power * (exponent << F32.fraction_bits).real()  # by 0 below 2^-126, by infinity at 128


def _nearby(p: Real, t: Real) -> Real:
    """2^p e^t for |t| < 2^-10, or for p = _MOST and any positive t, by an instruction."""
    power = p.instruction("exp2")
    return fma(power, t, power)


def _below_128(p: Real) -> Real:
    """p, or the largest float below 128, so that what p + e is above 128 stays in e, and does not overflow for e < 0."""
    return select(p > _MOST, _MOST, p)


def _exp2(x: Real) -> Real:
    return _power_of_2(x) if x.graph.has_instructions else exponentials.exp2(x)


def _exp(x: Real) -> Real:
    p = _below_128(x * _LOG2_E)
    if p.graph.has_instructions:
        t = fma(-p, _LN2_LOW, fma(-p, _LN2, x))  # x - p ln 2
        return _nearby(p, select(t > -1.0, t, -1.0))  # a NaN where p and x are -infinity
    e = fma(x, _LOG2_E_LOW, fma(x, _LOG2_E, -p))
    return _power_of_2(p, select(p > -128.0, e, 0.0))


def _tanh(x: Real) -> Real:
    square, size = x * x, abs(x)
    near = fma(x * square, polynomial(square, coefficients.SHORT_TANH["f32"]), x)
    far = fma(_rcp(_power_of_2(size * (2 * _LOG2_E)) + 1.0), -2.0, 1.0)
    return select(size < 0.55, near, far).with_sign_of(x)


def _erf(x: Real) -> Real:
    size = abs(x)
    near = fma(x, polynomial(x * x, coefficients.SHORT_ERF["f32"]), x)
    t = select(size > 4.0, 4.0, size)  # beyond, 1 - 2^-26 rounds to 1
    far = 1.0 - _power_of_2(-t * polynomial(t, coefficients.SHORT_ERFC["f32"]))
    return select(size < 0.93, near, far.with_sign_of(x))


# --- logarithms and powers


def _log_of_mantissa(m: Real) -> Real:
    f = m - 1.0
    return fma(f * f, polynomial(f, coefficients.SHORT_LOG["f32"]), f)


def _log(x: Real) -> Real:
    exponent, m = split(x)
    return special(x, fma(exponent, _LN2, _log_of_mantissa(m)))


def _log2(x: Real) -> Real:
    exponent, m = split(x)
    return special(x, fma(_log_of_mantissa(m), _LOG2_E, exponent))


def _log2_words(bits: Bits) -> Words:
    """log2 of a positive normal number of these bits, with a relative error of some 2^-30.

    log(m) = q + q^3 / 12 + ...,  q = 2f / (2 + f),  f = m - 1
    """
    shifted = bits - F32.encode(math.sqrt(0.5))
    exponent = shifted.arithmetic_shift(F32.fraction_bits)
    f = (bits - (exponent << F32.fraction_bits)).real() - 1.0
    inverse = _rcp(f + 2.0)
    q = (f + f) * inverse
    q_low = inverse * fma(-q, f, 2.0 * (f - q))  # what is left of 2f - q (2 + f); f - q is exact
    square = q * q
    tail = polynomial(square, coefficients.SHORT_LOG2_TAIL["f32"])
    high = q * _LOG2_E
    low = fma(q, _LOG2_E_LOW, fma(q, _LOG2_E, -high))
    slope = fma(square, _LOG2_E / 4, _LOG2_E)  # of log2(m) over q
    low = fma(square * q, tail, fma(q_low, slope, low))
    total, error = fast_two_sum(exponent.to_real(), high)
    return fast_two_sum(total, error + low)


def _pow(x: Real, y: Real) -> Real:
    size = abs(x)
    bits = size.bits()
    high, low = _log2_words(bits)
    p = _below_128(y * high)
    magnitude = _power_of_2(p, fma(y, low, fma(y, high, -p)))
    half = 0.5 * y
    is_integer, is_odd = y.trunc().equals(y), ~half.trunc().equals(half)
    result = select(is_integer & is_odd, magnitude.with_sign_of(x), magnitude)
    result = select((x < 0.0) & ~is_integer, math.nan, result)
    least, infinity = F32.encode(F32.least_normal), F32.encode(math.inf)
    # not where x is zero, subnormal, infinite or NaN, nor where y is infinite or NaN, or so large that the error is
    is_usual = (bits - least < infinity - least) & (abs(y) < 2.0**100) & (p > -(2.0**12))
    return rarely(~is_usual, "pow", (x, y), result)


# --- sine and cosine


def _sine_of_quadrants(x: Real, more: int) -> Real:
    """sin(x + more pi/2) for |x| <= the limit of the reduction."""
    first, second, third = words(PI / 2, 3, F32)
    n = (x * float(2 / PI)).round()
    r = fma(-n, third, fma(-n, second, fma(-n, first, x)))
    square = r * r
    sine = r * fma(square, polynomial(square, coefficients.SIN["f32"]), 1.0)
    cosine = fma(square, polynomial(square, (-0.5, *coefficients.COS["f32"])), 1.0)
    quadrant = n.integer() + more
    value = select((quadrant & 1).is_zero(), sine, cosine)
    return (value.bits() ^ ((quadrant & 2) << F32.bits - 2)).real()


def _sin(x: Real) -> Real:
    sine = select(abs(x) < 2.0**-13, x, _sine_of_quadrants(x, 0))  # which loses the sign of a zero
    return where_large("sin.large", x, sine)


def _cos(x: Real) -> Real:
    return where_large("cos.large", x, _sine_of_quadrants(x, 1))


# --- roots and quotients


def _rcp(x: Real) -> Real:
    return x.instruction("rcp") if x.graph.has_instructions else 1.0 / x


def _rsqrt(x: Real) -> Real:
    return x.instruction("rsqrt") if x.graph.has_instructions else 1.0 / x.sqrt()


def _sqrt(x: Real) -> Real:
    return x.instruction("sqrt") if x.graph.has_instructions else x.sqrt()


def _div(x: Real, y: Real) -> Real:
    return x.instruction("div", y) if x.graph.has_instructions else x / y


APPROXIMATIONS: dict[str, Callable[..., Real]] = {
    "exp": _exp,
    "exp2": _exp2,
    "log": _log,
    "log2": _log2,
    "pow": _pow,
    "sin": _sin,
    "cos": _cos,
    "tanh": _tanh,
    "erf": _erf,
    "rsqrt": _rsqrt,
    "rcp": _rcp,
    "sqrt": _sqrt,
    "div": _div,
}
"""Approximations by the op's name."""
