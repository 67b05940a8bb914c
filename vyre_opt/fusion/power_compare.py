"""Whether a product of many numbers is at most a power: exact, in nearly linear time.

Both sides are computed by interval arithmetic, on integers of PRECISION bits with an exponent, rounded
outwards.  If the intervals do not overlap, the answer is certain.  Sides closer than that are mostly
equal; only they are multiplied out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd, prod
from typing import NamedTuple

__all__ = ["is_within_power", "product"]

PRECISION = 256


class _Interval(NamedTuple):
    """[low, high] * 2^exponent, with positive low and high."""

    low: int
    high: int
    exponent: int

    def times(self, other: _Interval) -> _Interval:
        low, high = self.low * other.low, self.high * other.high
        exponent = self.exponent + other.exponent
        excess = high.bit_length() - PRECISION
        if excess > 0:
            low, high, exponent = low >> excess, -(-high >> excess), exponent + excess
        return _Interval(low, high, exponent)


def _interval(factors: Sequence[int]) -> _Interval:
    """The product.  Eight u32 factors have about PRECISION bits, so each such product is rounded once."""
    result = _Interval(1, 1, 0)
    for i in range(0, len(factors), 8):
        exact = prod(factors[i : i + 8])
        result = result.times(_Interval(exact, exact, 0))
    return result


def _power(base: _Interval, exponent: int) -> _Interval:
    result = _Interval(1, 1, 0)
    while exponent:
        if exponent & 1:
            result = result.times(base)
        base = base.times(base)
        exponent >>= 1
    return result


def _is_greater(x: int, x_exponent: int, y: int, y_exponent: int) -> bool:
    """x 2^x_exponent > y 2^y_exponent, of positive numbers."""
    size = (x.bit_length() + x_exponent) - (y.bit_length() + y_exponent)
    if size:
        return size > 0
    shift = x_exponent - y_exponent  # of equal sizes, so no more than the numbers have bits
    return (x << shift) > y if shift >= 0 else x > (y << -shift)


def product(factors: Sequence[int]) -> int:
    """The product, by a balanced tree: large factors of equal size multiply fastest."""
    level = list(factors) or [1]
    while len(level) > 1:
        level = [prod(level[i : i + 2]) for i in range(0, len(level), 2)]
    return level[0]


def is_within_power(factors: Iterable[int], base: Fraction, exponent: int) -> bool:
    """product(factors) <= base^exponent, for positive factors and a positive base.

    Time is linear in the number of factors, except for sides that agree in their first 200 bits or so,
    which are multiplied out.  Before that the exponents are divided by their common divisor, so that a
    chain of equal factors costs nothing.
    """
    counts = Counter(factors)
    by_count: dict[int, list[int]] = {}
    for factor, times in counts.items():
        by_count.setdefault(times, []).append(factor)
    left = _power(_interval([base.denominator]), exponent)
    for times, group in by_count.items():
        left = left.times(_power(_interval(group), times))
    right = _power(_interval([base.numerator]), exponent)
    if _is_greater(left.low, left.exponent, right.high, right.exponent):
        return False
    if not _is_greater(left.high, left.exponent, right.low, right.exponent):
        return True
    common = gcd(exponent, *counts.values())
    exact_product = product([factor ** (times // common) for factor, times in counts.items()])
    links = exponent // common
    is_within: bool = exact_product * base.denominator**links <= base.numerator**links
    return is_within
