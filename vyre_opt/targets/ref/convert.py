"""cast and bitcast on registers."""

from __future__ import annotations

import numpy as np

from ...ir import arith
from ...ir.types import DataType
from .registers import from_storage, register_type, to_storage
from .rounding import narrow

Array = np.ndarray


def cast(values: Array, source: DataType, target: DataType) -> Array:
    """Wraps between integers, rounds to floats, saturates from floats with NaN -> 0."""
    s, t = source.element, target.element
    if s is t:
        return values
    if t.is_bool:
        truth: Array = values != 0
        return truth
    if t.is_float:
        return _float_to_float(values, s, t) if s.is_float else _int_to_float(values, t)
    return _float_to_int(values, t) if s.is_float else values.astype(register_type(t))


def _float_to_float(values: Array, s: DataType, t: DataType) -> Array:
    if t is DataType.BF16 and s is DataType.F16:
        values = values.astype(np.float32)  # exact
    return narrow(values, t)


def _int_to_float(values: Array, t: DataType) -> Array:
    """NumPy rounds an integer to f32 and f64 once; to the narrower types it goes through f64."""
    if t is DataType.F32 or t is DataType.F64:
        return values.astype(register_type(t))
    return narrow(_exact_enough(values), t)


def _exact_enough(values: Array) -> Array:
    """An integer as f64.  The bits that do not fit are replaced by a sticky bit, so that the next rounding is right."""
    if values.dtype.itemsize < 8:
        return values.astype(np.float64)
    # the least i64 has no absolute value: it stays as it is, and its bits as u64 are 2^63
    magnitude = np.abs(values).view(np.uint64) if values.dtype.kind == "i" else values
    low_bits = np.uint64((1 << 11) - 1)
    sticky = np.where(magnitude & low_bits != 0, np.uint64(1 << 11), np.uint64(0))
    exact = np.where(magnitude >> np.uint64(53) != 0, (magnitude & ~low_bits) | sticky, magnitude)
    number = exact.astype(np.float64)
    return np.where(values < 0, -number, number)


def _float_to_int(values: Array, t: DataType) -> Array:
    low, high = arith.int_range(t)
    wide = values.astype(np.float64)
    kind = register_type(t).type
    # For 64 bits `float(high)` rounds up to the first number that does not fit; `low` is always exact.
    below, above = wide <= low, wide >= float(high)
    inside = ~(below | above | np.isnan(wide))
    whole = np.where(inside, wide, 0.0).astype(kind)  # truncates
    return np.where(below, kind(low), np.where(above, kind(high), whole))


def bitcast(values: Array, source: DataType, target: DataType) -> Array:
    """The same bits as another type; between vectors the first lane is the lowest."""
    stored = np.ascontiguousarray(to_storage(values, source))
    raw = stored.reshape(len(stored), -1).view(np.uint8)
    if target.element.is_bool:
        result: Array = (raw & np.uint8(1)) != 0
    else:
        scalar = to_storage(np.empty(0, register_type(target)), target).dtype
        result = from_storage(raw.view(scalar), target)
    return result if target.is_vec else result.reshape(values.shape[: values.ndim - source.is_vec])
