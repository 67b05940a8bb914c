"""Quotients by additions and products alone, where a division would take longer than the rest of a function.

A polynomial p is near 1 / d, and h = 1 - d p small:  1 / d = p (1 + h + h^2 + ...)
"""

from __future__ import annotations

from . import coefficients
from .double_word import Words
from .expression import Real, fma, polynomial

__all__ = ["quotient", "quotient_words", "reciprocal"]


def reciprocal(d: Real) -> Real:
    """1 / d for 1 <= d <= 2.5, with an error below an ulp."""
    p = polynomial(d, coefficients.RECIPROCAL[d.format.name])
    h = fma(-d, p, 1.0)
    return fma(p, fma(h, h, h), p)


def quotient(a: Words, d: Words) -> Real:
    """a / d for 1 <= d <= 2.5, with an error of little more than half an ulp."""
    inverse = reciprocal(d[0])
    rough = a[0] * inverse
    rest = fma(-rough, d[1], fma(-rough, d[0], a[0]) + a[1])
    return fma(rest, inverse, rough)


def quotient_words(a: Real, d: Words) -> Words:
    """a / d for 1 <= d <= 2.5; the second word is good to half as many bits as a float has."""
    inverse = reciprocal(d[0])
    rough = a * inverse
    high = fma(fma(-rough, d[0], a), inverse, rough)
    return high, inverse * fma(-high, d[1], fma(-high, d[0], a))
