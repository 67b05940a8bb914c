"""Data of any kind as bytes in main memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime.dispatcher import BadInputs

__all__ = ["octets_of"]

Array = np.ndarray[Any, Any]


def octets_of(data: Any, name: str) -> Array:
    """u8[n], in the place where they are if that is main memory: of bytes, memoryviews, mmaps and arrays of u8.

    A str counts as its UTF-8.  Arrays on a GPU are copied.  Raises BadInputs.
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    array = data if isinstance(data, np.ndarray) else _as_array(data, name)
    if array.dtype != np.uint8:
        raise BadInputs(f"{name} is bytes or an array of uint8, not of {array.dtype}")
    return np.ascontiguousarray(array).reshape(-1)


def _as_array(data: Any, name: str) -> Array:
    if hasattr(data, "__cuda_array_interface__"):
        data = data.get() if hasattr(data, "get") else data.cpu()  # CuPy's, or torch's
    try:
        view = memoryview(data)
    except TypeError:
        if hasattr(data, "__array__"):  # torch's
            return np.asarray(data)
        kind = type(data).__name__
        raise BadInputs(
            f"{name} is bytes, or what has bytes, such as an array or a file's mmap, not {kind}"
        ) from None
    if view.format not in ("B", "b", "c"):
        return np.asarray(view)
    return np.frombuffer(view if view.c_contiguous else view.tobytes(), np.uint8)
