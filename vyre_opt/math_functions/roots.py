"""cbrt, rsqrt and rcp."""

from __future__ import annotations

import math

from . import coefficients
from .expression import Real, fma, polynomial, select

__all__ = ["cbrt", "rcp", "rsqrt"]


def rcp(x: Real) -> Real:
    return 1.0 / x


def rsqrt(x: Real) -> Real:
    return 1.0 / x.sqrt()


def cbrt(x: Real) -> Real:
    """|x| = m 2^(3k) 2^j with m in [1, 2) and j in 0, 1, 2; an approximation of m^(-1/3) is refined.

    For r = m^(-1/3) (1 + d) and h = 1 - m r^3, r + r h (1/3 + 2/9 h) has an error of some 5 d^3.  At the end,
    y = m r^2 is corrected by its own residue, which is computed without rounding of note.
    """
    format = x.format
    size = abs(x)
    tiny = size < format.least_normal
    shift = 3 * (format.precision // 3 + 1)
    bits = select(tiny, size * 2.0**shift, size).bits()
    fraction_bits = format.fraction_bits
    # thirds of the biased exponent: 2^16 / 3 rounded up gives the floor of all that occur
    biased = bits >> fraction_bits
    offset = -format.bias % 3  # exponent = 3 (third - (bias + offset) / 3) + j
    third = ((biased + offset) * 43691) >> 17
    j = biased + offset - third * 3
    m = ((bits & ((1 << fraction_bits) - 1)) | (format.bias << fraction_bits)).real()
    r = polynomial(m, coefficients.INVERSE_CBRT[format.name])
    is_0, is_1 = j.is_zero(), (j - 1).is_zero()
    r = r * select(is_0, 1.0, select(is_1, 0.5 ** (1 / 3), 0.25 ** (1 / 3)))
    m = m * select(is_0, 1.0, select(is_1, 2.0, 4.0))
    for _ in range({"f32": 1, "f64": 2}[format.name]):
        residue = fma(-m * r, r * r, 1.0)
        r = fma(r * residue, fma(residue, 2 / 9, 1 / 3), r)
    y = m * r * r
    square = y * y
    residue = fma(square, y, -m) + fma(y, y, -square) * y
    root = fma(residue * (r * r), -1 / 3, y)
    # exponents of roots are far from the ends of the range
    exponent = third - ((format.bias + offset) // 3)
    scaled = root * ((exponent + format.bias) << fraction_bits).real()
    scaled = select(tiny, scaled * 2.0 ** (-shift // 3), scaled).with_sign_of(x)
    return select((size < math.inf) & (size > 0.0), scaled, x)
