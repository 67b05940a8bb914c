"""exp, exp2, exp10, expm1 and the hyperbolic functions.

    e^x     = 2^n e^r,                 n = round(x / ln 2),  |r| <= ln 2 / 2
    tanh(x) = -m / (2 + m) for x > 0,  m = e^-2x - 1

Where a function's bound asks for it, r is kept in two words, so that the rounding of the argument's reduction does not show.
"""

from __future__ import annotations

from . import coefficients
from .constants import LN2, LN10, words
from .division import quotient
from .double_word import Words, fast_two_sum, product
from .expression import Format, Real, fma, polynomial, rounded_product, select

__all__ = [
    "at_most",
    "clamped",
    "cosh",
    "exp",
    "exp10",
    "exp2",
    "exp_words",
    "expm1",
    "negative_expm1",
    "reduced_words",
    "sinh",
    "tanh",
]


def at_most(x: Real, limit: float) -> Real:
    """The lesser of x and the limit, which a NaN becomes, too."""
    return select(x < limit, x, limit)


def clamped(x: Real, low: float, high: float) -> Real:
    """x within [low, high], for results that are 0, 1 or infinite beyond; a NaN becomes `high`."""
    x = at_most(x, high)
    return select(x > low, x, low)


def _or_nan(x: Real, result: Real) -> Real:
    return select(x.is_nan(), x, result)


def _exponents(format: Format) -> tuple[float, float]:
    """Powers of two that are zero and infinity, half an exponent away from those that are not."""
    return -(format.bias + format.fraction_bits + 1.5), format.bias + 1.5


def exp_words(r: Words) -> Words:
    """e^(r0 + r1) for |r0| <= ln 2 / 2, in two words."""
    high, low = r
    series = polynomial(high, coefficients.EXP[high.format.name])
    rest = fma(high * high, series, fma(low, high, low))
    total, error = fast_two_sum(high.constant(1.0), high)
    return total, error + rest


def _reduced(x: Real) -> tuple[Real, Words]:
    """(n, r) with x = n ln 2 + r."""
    first, second = words(LN2, 2, x.format)
    n = rounded_product(x, float(1 / LN2))
    # exact: r is a multiple of x's last place and below 1/2, so its bits fit
    rough = fma(-n, first, x)
    high = fma(-n, second, rough)
    return n, (high, fma(-n, second, rough - high))


def reduced_words(x: Words) -> tuple[Real, Words]:
    """(n, r) with x0 + x1 = n ln 2 + r."""
    n, (high, low) = _reduced(x[0])
    return n, fast_two_sum(high, low + x[1])


def exp(x: Real) -> Real:
    least, most = _exponents(x.format)
    n, (r, _) = _reduced(clamped(x, least * float(LN2), most * float(LN2)))
    return _or_nan(x, polynomial(r, (1.0, 1.0, *coefficients.EXP[x.format.name])).scale(n))


def exp2(x: Real) -> Real:
    """Exponential without a second word of the argument: x - n is exact."""
    within = clamped(x, *_exponents(x.format))
    n = within.round()
    f = within - n
    return _or_nan(x, fma(f, polynomial(f, coefficients.EXP2[x.format.name]), 1.0).scale(n))


def exp10(x: Real) -> Real:
    """10^x = 2^n e^(r ln 10), r = x - n log10(2)."""
    log10_2 = LN2 / LN10
    least, most = _exponents(x.format)
    within = clamped(x, least * float(log10_2), most * float(log10_2))
    first, second = words(log10_2, 2, x.format)
    n = rounded_product(within, float(1 / log10_2))
    rough = fma(-n, first, within)
    high = fma(-n, second, rough)
    ten = words(LN10, 2, x.format)
    scaled = product((high, fma(-n, second, rough - high)), (ten[0], ten[1]))
    total, low = exp_words(scaled)
    return _or_nan(x, (total + low).scale(n))


def expm1(x: Real) -> Real:
    """2^n (e^r - 1) + (2^n - 1), in units of 2^n / 2 so that 2^n never overflows."""
    format = x.format
    low_limit, high_limit = -(format.precision + 3) * float(LN2), (format.bias + 1.4) * float(LN2)
    n, (high, low) = _reduced(clamped(x, low_limit, high_limit))
    series = polynomial(high, coefficients.EXP[format.name])
    rest = fma(high * high, series, fma(low, high, low))  # e^r - 1 - high
    half = x.constant(0.5).scale(n)
    total, error = fast_two_sum(half - 0.5, half * high)
    result = 2.0 * (total + (error + half * rest))
    # x itself where the next term is below half an ulp: it keeps the sign of zero and subnormals
    return _or_nan(x, select(abs(x) < 2.0**-format.precision, x, result))


def negative_expm1(x: Real, low: Real | None = None) -> Words:
    """e^(x + low) - 1 for x from 0 down to where 2^-bias comes near; the second word is good to a bit or two."""
    n, (r, rest) = _reduced(x)
    series = polynomial(r, coefficients.EXP[x.format.name])
    part = fma(r * r, series, r) if low is None else r + fma(r * r, series, rest + low)
    power = n.power_of_2()
    less = power - 1.0
    total = fma(power, part, less)
    return total, fma(power, part, less - total)


def _half_exp(x: Real) -> Real:
    """e^|x| / 2."""
    n, r = _reduced(at_most(abs(x), (x.format.bias + 3) * float(LN2)))
    high, low = exp_words(r)
    return (high + low).scale(n - 1.0)


def sinh(x: Real) -> Real:
    square = x * x
    near = fma(x * square, polynomial(square, coefficients.SINH[x.format.name]), x)
    half = _half_exp(x)
    far = (half - 0.25 / half).with_sign_of(x)
    return _or_nan(x, select(abs(x) < 1.0, near, far))


def cosh(x: Real) -> Real:
    half = _half_exp(x)
    return _or_nan(x, half + 0.25 / half)


def tanh(x: Real) -> Real:
    # beyond the limit the quotient is less than half an ulp below 1
    m, low = negative_expm1(-2.0 * at_most(abs(x), (x.format.precision + 4) * float(LN2 / 2)))
    divisor, rest = fast_two_sum(m.constant(2.0), m)
    return _or_nan(x, quotient((m, low), (divisor, rest + low)).with_sign_of(x))
