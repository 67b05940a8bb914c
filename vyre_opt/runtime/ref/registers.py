"""How a value is held while it is computed with, and how it is stored.

Both forms agree except for bf16: a register holds it as the float32 of the same value,
storage as its 16 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.types import DataType
from ..arrays import constant, storage_type


def register_type(dtype: DataType) -> np.dtype[Any]:
    """The NumPy type of a register's scalars."""
    if dtype.element is DataType.BF16:
        return np.dtype(np.float32)
    found = storage_type(dtype)
    assert found is not None, f"no register holds {dtype}"
    return found


def from_storage(stored: np.ndarray, dtype: DataType) -> np.ndarray:
    if dtype.element is DataType.BF16:
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored


def to_storage(held: np.ndarray, dtype: DataType) -> np.ndarray:
    if dtype.element is DataType.BF16:
        return (np.ascontiguousarray(held).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return held


def constant_register(value: Any, dtype: DataType) -> np.ndarray:
    """An encoded constant: shape (1,), or (1, lanes) of a vector."""
    return from_storage(constant(value, dtype), dtype)
