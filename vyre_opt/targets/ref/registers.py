"""The NumPy types of values in registers, and conversions from and to storage.

Registers and storage differ only for bf16: a register has the float32 of the same value, storage the
16 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...execution.arrays import constant, storage_type
from ...ir.types import DataType


def register_type(dtype: DataType) -> np.dtype[Any]:
    """The NumPy type of a register's scalars."""
    if dtype.element is DataType.BF16:
        return np.dtype(np.float32)
    scalar = storage_type(dtype)
    assert scalar is not None, f"no register holds {dtype}"
    return scalar


def from_storage(stored: np.ndarray, dtype: DataType) -> np.ndarray:
    if dtype.element is DataType.BF16:
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored


def to_storage(values: np.ndarray, dtype: DataType) -> np.ndarray:
    if dtype.element is DataType.BF16:
        return (np.ascontiguousarray(values).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return values


def constant_register(value: Any, dtype: DataType) -> np.ndarray:
    """An encoded constant: shape (1,), or (1, lanes) of a vector."""
    return from_storage(constant(value, dtype), dtype)
