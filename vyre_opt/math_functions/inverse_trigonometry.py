"""asin, acos, atan and atan2.

atan(t)  = t + t^3 A(t^2),  |t| <= tan(pi/8)
atan(y / x) = pi/4 + atan((y - x) / (y + x))   in the middle octants of the first quadrant
            = pi/2 - atan(x / y)               in the upper one
asin(x)  = x + x^3 B(x^2),  |x| <= 1/2;  asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)) beyond
"""

from __future__ import annotations

import math

from . import coefficients
from .constants import PI, words
from .double_word import Words, divided, fast_two_sum, two_sum
from .expression import Flag, Format, Real, fma, polynomial, select

__all__ = ["acos", "asin", "atan", "atan2"]


def _pi(format: Format) -> tuple[float, float]:
    first, second = words(PI, 2, format)
    return first, second


def _angle(y: Real, x: Real) -> Words:
    """The angle of the point (x, y), from 0 to pi/2, for y >= 0 and x >= 0 of which one is positive."""
    tangent = math.tan(math.pi / 8)
    low, high = y <= x * tangent, x < y * tangent  # exact bounds do not matter
    (difference, lost), (total, excess) = two_sum(y, -x), two_sum(y, x)
    zero = x.constant(0.0)
    above = select(low, y, select(high, -x, difference)), select(low | high, zero, lost)
    below = select(low, x, select(high, y, total)), select(low | high, zero, excess)
    t, rest = divided(above, below)
    square = t * t
    correction = fma(t * square, polynomial(square, coefficients.ATAN[x.format.name]), rest)
    first, second = _pi(x.format)
    base = tuple(select(low, 0.0, select(high, word / 2, word / 4)) for word in (first, second))
    angle, error = fast_two_sum(base[0], t)
    return angle, error + (correction + base[1])


def atan(x: Real) -> Real:
    size = abs(x)
    finite = select(size < math.inf, size, 2.0 ** (x.format.precision + 2))
    high, low = _angle(finite, x.constant(1.0))
    return select(x.is_nan(), x, (high + low).with_sign_of(x))


def atan2(y: Real, x: Real) -> Real:
    angle = _first_quadrant(abs(y), abs(x))
    pi = _pi(x.format)
    # the sign bit decides, for -0.0 too
    left = x.constant(1.0).with_sign_of(x) < 0.0
    high, error = fast_two_sum(x.constant(pi[0]), -angle[0])
    high = select(left, high + (error + (pi[1] - angle[1])), angle[0] + angle[1])
    return select(x.is_nan(), x, select(y.is_nan(), y, high.with_sign_of(y)))


def _first_quadrant(y: Real, x: Real) -> Words:
    """`_angle` for any two that are not negative."""
    format = x.format
    # infinite ones are equal, and larger than any other; of two zeros x is taken for 1
    both = y.equals(math.inf) & x.equals(math.inf)
    neither = y.equals(0.0) & x.equals(0.0)
    y, x = select(both, 1.0, y), select(both | neither, 1.0, x)
    # a common factor keeps sums finite, and errors of products normal
    largest = select(x < y, y, x)
    is_huge, is_small = (
        largest > 2.0 ** (format.bias - 2),
        largest < 2.0 ** (2 * format.precision - format.bias),
    )
    factor = select(is_huge, 0.0625, select(is_small, 2.0 ** (2 * format.precision), 1.0))
    y, x = y * factor, x * factor
    # an infinite one beside a finite one: 1 beside 0
    y, x = _beside_infinity(y, x)
    return _angle(y, x)


def _beside_infinity(y: Real, x: Real) -> Words:
    y_infinite, x_infinite = y.equals(math.inf), x.equals(math.inf)
    return (
        select(y_infinite, 1.0, select(x_infinite, 0.0, y)),
        select(x_infinite, 1.0, select(y_infinite, 0.0, x)),
    )


def _arcsine_parts(x: Real) -> tuple[Flag, Real, Real]:
    """(|x| <= 1/2, a, b) with a + b the arcsine of |x| there, and of sqrt((1 - |x|) / 2) beyond."""
    size = abs(x)
    near = size <= 0.5
    rest = (1.0 - size) * 0.5  # exact
    square = select(near, size * size, rest)
    root = rest.sqrt()
    # the root's rounding error; it is 0 for a root of 0
    lost = select(root.equals(0.0), 0.0, fma(-root, root, rest) / (root + root))
    series = square * polynomial(square, coefficients.ASIN[x.format.name])
    base = select(near, size, root)
    return near, base, fma(base, series, select(near, 0.0, lost))


def asin(x: Real) -> Real:
    near, base, rest = _arcsine_parts(x)
    first, second = (word / 2 for word in _pi(x.format))
    high, error = fast_two_sum(x.constant(first), -2.0 * base)
    far = high + (error + fma(rest, -2.0, second))
    result = select(near, base + rest, far).with_sign_of(x)
    return select(abs(x) <= 1.0, result, math.nan)


def acos(x: Real) -> Real:
    near, base, rest = _arcsine_parts(x)
    pi, pi_low = _pi(x.format)
    # pi/2 - asin(x) near 0; 2 asin(sqrt((1 - x) / 2)) near 1; pi less that near -1
    negative = x < 0.0
    signed_base, signed_rest = select(negative, base, -base), select(negative, rest, -rest)
    high, error = fast_two_sum(x.constant(pi / 2), signed_base)
    middle = high + (error + (signed_rest + pi_low / 2))
    high, error = fast_two_sum(x.constant(pi), -2.0 * base)
    left = high + (error + fma(rest, -2.0, pi_low))
    result = select(near, middle, select(negative, left, 2.0 * base + 2.0 * rest))
    return select(abs(x) <= 1.0, result, math.nan)
