"""Arrays of NumPy on a GPU as those of torch or CuPy, and back; torch moves no unsigned ones, so those go as signed."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["to_gpu", "to_host"]


def to_gpu(library: Any, array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        return array
    if library.__name__ == "cupy":
        return library.asarray(array)
    if array.dtype in (np.uint16, np.uint32, np.uint64):
        return (
            library.from_numpy(array.view(f"i{array.itemsize}"))
            .cuda()
            .view(getattr(library, array.dtype.name))
        )
    return library.from_numpy(array.copy()).cuda()


def to_host(array: Any) -> np.ndarray:
    if hasattr(array, "get"):
        return np.asarray(array.get())
    if str(array.dtype).startswith("torch.uint") and array.element_size() > 1:
        signed = array.view(getattr(__import__("torch"), f"int{8 * array.element_size()}"))
        return np.asarray(signed.cpu().numpy().view(f"u{array.element_size()}"))
    return np.asarray(array.cpu().numpy())
