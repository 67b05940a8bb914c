# mypy: no-warn-return-any
"""cast and bitcast on registers."""

from __future__ import annotations

import numpy as np

from ...ir import arith
from ...ir.types import DataType
from .registers import from_storage, register_type, to_storage
from .rounding import narrow

Array = np.ndarray


def cast(held: Array, source: DataType, target: DataType) -> Array:
    """Wraps between integers, rounds to floats, saturates from floats with NaN -> 0."""
    s, t = source.element, target.element
    if s is t:
        return held
    if t.is_bool:
        return held != 0
    if t.is_float:
        return _float_to_float(held, s, t) if s.is_float else _int_to_float(held, t)
    return _float_to_int(held, t) if s.is_float else held.astype(register_type(t))


def _float_to_float(held: Array, s: DataType, t: DataType) -> Array:
    if t is DataType.BF16 and s is DataType.F16:
        held = held.astype(np.float32)  # exact
    return narrow(held, t)


def _int_to_float(held: Array, t: DataType) -> Array:
    """NumPy rounds an integer to f32 and f64 once; to the narrower types it goes through f32."""
    if t is DataType.F32 or t is DataType.F64:
        return held.astype(register_type(t))
    return narrow(_exact_enough(held), t)


def _exact_enough(held: Array) -> Array:
    """An integer as f64, the bits that do not fit replaced by one that says whether any was set."""
    if held.dtype.itemsize < 8:
        return held.astype(np.float64)
    magnitude = np.abs(held).view(np.uint64) if held.dtype.kind == "i" else held
    cut = np.uint64((1 << 11) - 1)
    sticky = np.where(magnitude & cut != 0, np.uint64(1 << 11), np.uint64(0))
    kept = np.where(magnitude >> np.uint64(53) != 0, (magnitude & ~cut) | sticky, magnitude)
    number = kept.astype(np.float64)
    return np.where(held < 0, -number, number)


def _float_to_int(held: Array, t: DataType) -> Array:
    low, high = arith.int_range(t)
    wide = held.astype(np.float64)
    kind = register_type(t).type
    below, above = wide <= low, wide >= float(high)
    inside = ~(below | above | np.isnan(wide))
    whole = np.where(inside, wide, 0.0).astype(kind)  # truncates
    return np.where(below, kind(low), np.where(above, kind(high), whole))


def bitcast(held: Array, source: DataType, target: DataType) -> Array:
    """The same bits as another type; between vectors the first lane is the lowest."""
    stored = np.ascontiguousarray(to_storage(held, source))
    raw = stored.reshape(len(stored), -1).view(np.uint8)
    if target.element.is_bool:
        found = (raw & np.uint8(1)) != 0
    else:
        scalar = to_storage(np.empty(0, register_type(target)), target).dtype
        found = from_storage(raw.view(scalar), target)
    return found if target.is_vec else found.reshape(len(stored))
