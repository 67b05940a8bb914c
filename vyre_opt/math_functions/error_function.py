"""erf and erfc.

    erf(x)  = 1 - e^(-x - x Q(x)),  x >= 0;  the exponent is the logarithm of erfc(x)
    erfc(x) = e^(-x^2) G(t) / (1 + 2x),  t = (x - 4) / (x + 4),  x >= 1;  (1 - x) - x E(x^2) below

(1 + 2x) e^(x^2) erfc(x) is nearly flat in t, so one polynomial does for all x.  (Shepherd and Laframboise, "Chebyshev
approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity", 1981.)
"""

from __future__ import annotations

from . import coefficients
from .double_word import two_product
from .exponentials import at_most, clamped, exp_words, negative_expm1, reduced_words
from .expression import Real, fma, polynomial, select

__all__ = ["erf", "erfc"]


_ZERO = {"f32": 10.5, "f64": 28.0}
"""x from which on erfc(x) rounds to zero."""

_HALF_ULP = {"f32": 4.0, "f64": 6.0}
"""x from which on erfc(x) is below half an ulp of 1, and erf(x) rounds to 1."""


def _tail(x: Real, end: float) -> Real:
    """erfc(x) for 0 <= x <= end, beyond which it is that of `end`."""
    x = clamped(x, 0.0, end)
    square, error = two_product(x, x)
    n, r = reduced_words((-square, -error))
    power, rest = exp_words(r)
    scaled = polynomial((x - 4.0) / (x + 4.0), coefficients.ERFC[x.format.name])
    below = fma(x, 2.0, 1.0)
    quotient = scaled / below
    return fma(quotient, power, quotient * rest).scale(n)


def erf(x: Real) -> Real:
    format = x.format
    t = at_most(abs(x), _HALF_ULP[format.name])
    slope = polynomial(t, coefficients.LOG_ERFC[format.name])
    logarithm = fma(-t, slope, -t)
    low = fma(-t, slope, -t - logarithm)
    return select(x.is_nan(), x, negative_expm1(logarithm, low)[0].with_sign_of(x))


def erfc(x: Real) -> Real:
    tail = _tail(abs(x), _ZERO[x.format.name])
    far = select(x < 0.0, 2.0 - tail, tail)
    # 1 - x is exact from 1/2 on, where the difference with the series cancels
    near = fma(-x, polynomial(x * x, coefficients.ERF[x.format.name]), 1.0 - x)
    return select(x.is_nan(), x, select(abs(x) < 1.0, near, far))
