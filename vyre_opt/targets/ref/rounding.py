"""One rounding from a wider float to the type of an op.

An op on f16 is computed in f32, one on bf16 in f64: both have more than twice the
significand bits plus two, so that rounding the wide sum, product, quotient or root
gives the correctly rounded narrow one (Figueroa, 1995).  bf16 needs f64 and not f32
since their subnormals start at the same exponent, where f32 has no bits to spare.
"""

from __future__ import annotations

import numpy as np

from ...ir.types import DataType

_QUIET_BF16 = np.uint32(0x7FC00000)


def widen(values: np.ndarray, dtype: DataType) -> np.ndarray:
    """A register's value in the type that ops on it compute in."""
    name = dtype.element.name
    if name == "f16":
        return values.astype(np.float32)
    return values.astype(np.float64) if name == "bf16" else values


def narrow(computed: np.ndarray, dtype: DataType) -> np.ndarray:
    """A computed value rounded to the register type, once."""
    name = dtype.element.name
    if name == "f16":
        return computed.astype(np.float16)
    if name == "bf16":
        return round_to_bf16(computed)
    return computed.astype(np.float32 if name == "f32" else np.float64, copy=False)


def round_to_bf16(wide: np.ndarray) -> np.ndarray:
    """f64 or f32 rounded to nearest even in bf16, as the float32 of that value."""
    single = wide if wide.dtype == np.float32 else _odd_single(wide)
    bits = np.ascontiguousarray(single).view(np.uint32)
    # Half a bf16 ulp, less one where the last bit kept is 0, so that ties go to even.  A carry into the
    # exponent is right: it gives the next power of two, or infinity.
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded &= np.uint32(0xFFFF0000)
    # the addition could have carried a NaN into the sign
    return np.where(np.isnan(single), _QUIET_BF16, rounded).astype(np.uint32).view(np.float32)


def _odd_single(wide: np.ndarray) -> np.ndarray:
    """f64 to f32, towards zero, with an odd last bit where inexact.

    The odd bit remembers that something was cut off, so that a second rounding to fewer
    bits gives what a single one would (Boldo and Melquiond, 2008).
    """
    near = wide.astype(np.float32)
    back = near.astype(np.float64)
    inexact = (back != wide) & ~np.isnan(wide)
    if not inexact.any():
        return near
    bits = near.view(np.uint32).copy()
    # In either sign the pattern one below is the next value towards zero; below infinity that is the largest
    # f32, which the next rounding makes infinity again.
    bits -= (inexact & (np.abs(back) > np.abs(wide))).astype(np.uint32)
    bits |= inexact.astype(np.uint32)
    return bits.view(np.float32)


def odd_double(near: np.ndarray, error: np.ndarray) -> np.ndarray:
    """The exact sum near + error, |error| <= ulp(near)/2, in f64 with an odd last bit where inexact."""
    inexact = (error != 0) & np.isfinite(near)
    if not inexact.any():
        return near
    bits = near.copy().view(np.uint64)
    # the sum lies closer to zero than `near` where their signs differ
    bits -= (inexact & (np.signbit(near) != np.signbit(error))).astype(np.uint64)
    bits |= inexact.astype(np.uint64)
    return bits.view(np.float64)
