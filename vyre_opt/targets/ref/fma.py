"""a * b + c with one rounding, for every float type.

The product of two f16, bf16 or f32 values is exact in f64.  TwoSum (Knuth) gives the
sum and its error; rounding that to odd keeps what the final rounding depends on.  For
f64 the product has an error too (Dekker), and the three parts are added as Boldo and
Melquiond prove correct (Emulation of FMA and correctly rounded sums, 2008).  Operands
so large or small that an intermediate value could overflow or lose bits are computed with
exact rationals, one by one.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ...ir.types import DataType
from .rounding import narrow, odd_double

Array = np.ndarray

# Products and addends between these magnitudes leave all error terms exact.
_SMALL, _LARGE = 2.0**-900, 2.0**900
# splitting a factor multiplies it by 2^27 + 1, which must not overflow either
_FACTOR_LARGE = 2.0**500
_SPLITTER = 134217729.0  # 2^27 + 1


def fma(a: Array, b: Array, c: Array, t: DataType) -> Array:
    x, y, z = np.broadcast_arrays(*(v.astype(np.float64) for v in (a, b, c)))
    if t.element.name == "f64":
        return _fma_f64(x, y, z)
    product = x * y
    # the product is exact: 24 + 24 significand bits of f32 fit into the 53 of f64
    return narrow(odd_double(*_two_sum(product, z)), t)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its exact error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and its exact error, by halves of the significands."""
    product = a * b
    a1, a0 = _halves(a)
    b1, b0 = _halves(b)
    return product, a0 * b0 - (((product - a1 * b1) - a0 * b1) - a1 * b0)


def _halves(a: Array) -> tuple[Array, Array]:
    """a = high + low, each with at most 26 significand bits (Veltkamp)."""
    scaled = a * _SPLITTER
    high = scaled - (scaled - a)
    return high, a - high


def _fma_f64(x: Array, y: Array, z: Array) -> Array:
    product, error = _two_product(x, y)
    upper, lower = _two_sum(z, error)
    total, rest = _two_sum(product, upper)
    # the last addition is the only one to round; the odd bit stands for all that is smaller
    result: Array = total + odd_double(*_two_sum(lower, rest))
    simple = (
        (np.abs(x) < _FACTOR_LARGE)
        & (np.abs(y) < _FACTOR_LARGE)
        & (np.abs(product) > _SMALL)
        & (np.abs(product) < _LARGE)
        & (np.abs(z) < _LARGE)
        & ((np.abs(z) > _SMALL) | (z == 0.0))
    )
    # the product is exact, or some operand is no number: one addition is right, but for x * y that overflows
    plain = (x == 0.0) | (y == 0.0) | ~np.isfinite(x) | ~np.isfinite(y) | ~np.isfinite(z)
    is_product_finite = np.isfinite(x) & np.isfinite(y)
    result = np.where(plain, np.where(is_product_finite & ~np.isfinite(z), z, product + z), result)
    rest = ~(simple | plain)
    if rest.any():
        indices = np.nonzero(rest)
        result[indices] = [
            _exactly(float(p), float(q), float(r))
            for p, q, r in zip(x[indices], y[indices], z[indices], strict=True)
        ]
    return result


def _exactly(x: float, y: float, z: float) -> float:
    """x * y + z of finite numbers by rationals: converting a Fraction to float rounds correctly."""
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return x * y + z  # the sign of zero
    try:
        size = float(abs(exact))
    except OverflowError:
        size = math.inf
    return -size if exact < 0 else size
