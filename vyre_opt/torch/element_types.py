"""The type of torch that holds an element type."""

from __future__ import annotations

from typing import Any

import torch

from ..execution.arrays import storage_type
from ..ir.types import DataType

__all__ = ["torch_type"]


def torch_type(dtype: DataType) -> Any:
    """The torch.dtype of elements of a type."""
    if dtype.element.name == "bf16":
        return torch.bfloat16
    stored = storage_type(dtype.element)
    assert stored is not None
    return getattr(torch, stored.name)
