"""erf and erfc.

    erf(x)  = x + x E(x^2),  |x| < 1;  1 - erfc(x) beyond
    erfc(x) = e^(-x^2) G(t) / (1 + 2x),  t = (x - 4) / (x + 4),  x >= 1/2;  1 - erf(x) below

(1 + 2x) e^(x^2) erfc(x) is nearly flat in t, so one polynomial does for all x.  (Shepherd and Laframboise, "Chebyshev
approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity", 1981.)
"""

from __future__ import annotations

from . import coefficients
from .double_word import two_product
from .exponentials import clamped, exp_words, reduced_words
from .expression import Real, fma, polynomial, select

__all__ = ["erf", "erfc"]


def _tail(x: Real) -> Real:
    """erfc(x) for x >= 0, NaN as infinity."""
    # beyond it the result is zero in either format
    x = clamped(x, 0.0, {"f32": 10.5, "f64": 28.0}[x.format.name])
    square, error = two_product(x, x)
    n, r = reduced_words((-square, -error))
    power, rest = exp_words(r)
    scaled = polynomial((x - 4.0) / (x + 4.0), coefficients.ERFC[x.format.name])
    below = fma(x, 2.0, 1.0)
    quotient = scaled / below
    return fma(quotient, power, quotient * rest).scale(n)


def _near(x: Real) -> Real:
    """erf(x) for |x| <= 1."""
    return fma(x, polynomial(x * x, coefficients.ERF[x.format.name]), x)


def erf(x: Real) -> Real:
    near = _near(x)
    far = (1.0 - _tail(abs(x))).with_sign_of(x)
    return select(x.is_nan(), x, select(abs(x) < 1.0, near, far))


def erfc(x: Real) -> Real:
    tail = _tail(abs(x))
    far = select(x < 0.0, 2.0 - tail, tail)
    return select(x.is_nan(), x, select(abs(x) < 0.5, 1.0 - _near(x), far))
