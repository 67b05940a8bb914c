"""Sums of two floats, high + low with |low| <= ulp(high) / 2: about twice the precision.

(Dekker, "A floating-point technique for extending the available precision", 1971; Knuth, The Art of Computer
Programming 2, 4.2.2; with fma the error of a product is one operation.)
"""

from __future__ import annotations

from .expression import Real, fma

__all__ = ["Words", "divided", "fast_two_sum", "product", "two_product", "two_sum"]

Words = tuple[Real, Real]


def two_sum(a: Real, b: Real) -> Words:
    """a + b, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fast_two_sum(a: Real, b: Real) -> Words:
    """a + b, exactly, for |a| >= |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Real, b: Real) -> Words:
    """a * b, exactly unless the low word is subnormal."""
    high = a * b
    return high, fma(a, b, -high)


def product(a: Words, b: Words | tuple[float, float]) -> Words:
    """a * b with a relative error of some 2^(2 - 2 precision)."""
    high, low = two_product(a[0], a[0].constant(b[0]))
    return fast_two_sum(high, fma(a[0], b[1], fma(a[1], b[0], low)))


def divided(a: Words, b: Words) -> Words:
    """a / b; the low word is good to a few bits less than a float has."""
    quotient = a[0] / b[0]
    rest = fma(-quotient, b[0], a[0]) + fma(-quotient, b[1], a[1])
    return quotient, rest / b[0]
