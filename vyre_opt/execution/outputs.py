"""Checks the output of a dispatch, for dispatchers that are not of this project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dispatcher import BackendError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["u32_output"]

U32_MAX = (1 << 32) - 1


def u32_output(outputs: Any, count: int, where: str) -> np.ndarray:
    """The only output of a dispatch as `count` u32 elements, whether it is an array or bytes.

    Raises BackendError, with a message that begins with `where`, for anything else.
    """
    import numpy as np

    if not isinstance(outputs, (list, tuple)) or len(outputs) != 1:
        got = f"{len(outputs)} outputs" if isinstance(outputs, (list, tuple)) else type(outputs).__name__
        raise BackendError(f"{where}: the backend gave {got} instead of a list of one output")
    if isinstance(outputs[0], (bytes, bytearray, memoryview)):
        size = memoryview(outputs[0]).nbytes
        if size != 4 * count:
            raise BackendError(f"{where}: the backend gave {size} bytes instead of {4 * count}")
        return np.frombuffer(outputs[0], "<u4").astype(np.uint32)
    try:
        array = np.asarray(outputs[0]).reshape(-1)
    except (TypeError, ValueError):
        raise BackendError(f"{where}: the backend gave a {type(outputs[0]).__name__}, no array") from None
    if array.size != count:
        raise BackendError(f"{where}: the backend gave {array.size} elements instead of {count}")
    if array.dtype.kind not in "iu" or int(array.min()) < 0 or int(array.max()) > U32_MAX:
        raise BackendError(f"{where}: the backend gave {array.dtype.name} elements that are not u32 numbers")
    return np.ascontiguousarray(array, np.uint32)
