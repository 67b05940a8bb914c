"""What the array functions share: targets by name, arrays and their element types, room for results.

A NumPy array is made contiguous.  Anything with `__cuda_array_interface__` is passed to the
dispatcher as it is; what a dispatcher returns is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.types import DataType
from ..runtime.arrays import storage_type
from ..runtime.dispatcher import BadInputs, Dispatcher
from ..runtime.dispatcher import dispatcher as make_dispatcher

__all__ = [
    "Target",
    "as_array",
    "as_octets",
    "as_stored",
    "as_u32",
    "element_type",
    "like",
    "room",
    "target",
    "target_name",
]

Target = str | Dispatcher
"""A dispatcher, or the name of one: ref, cpu or cuda."""

_made: dict[str, Dispatcher] = {}


def target(given: Target) -> Dispatcher:
    """The dispatcher meant; one a name is kept, since it may have compiled programs."""
    if not isinstance(given, str):
        return given
    if given not in _made:
        _made[given] = make_dispatcher(given)
    return _made[given]


def target_name(given: Target) -> str:
    return given if isinstance(given, str) else given.name


def is_on_device(array: Any) -> bool:
    return hasattr(array, "__cuda_array_interface__")


def as_array(array: Any, name: str) -> Any:
    """`array` as NumPy, or as it is where it lies on a device.  Raises BadInputs."""
    if is_on_device(array):
        return array
    made = np.asarray(array)
    if made.dtype == object:
        raise BadInputs(f"{name} is not an array of numbers: {type(array).__name__}")
    return np.ascontiguousarray(made) if made.ndim else made.reshape(1)


def as_u32(values: Any, name: str) -> Any:
    """u32 elements, from an array of integers that fit or a sequence of ints.  Raises BadInputs."""
    array = as_array(values, name)
    if is_on_device(array) or array.dtype == np.uint32:
        return array
    if array.size and (array.dtype.kind not in "iu" or int(array.min()) < 0 or int(array.max()) >= 1 << 32):
        raise BadInputs(f"{name} holds {array.dtype.name} values that are not u32 numbers")
    return array.astype(np.uint32)


def as_octets(text: Any, name: str) -> Any:
    """Text as u8: a str of ASCII characters, bytes, or an array of u8.  Raises BadInputs."""
    if isinstance(text, str):
        try:
            text = text.encode("ascii")
        except UnicodeEncodeError as wrong:
            raise BadInputs(f"{name}: {wrong.object[wrong.start]!r} is not an ASCII character") from None
    if isinstance(text, (bytes, bytearray, memoryview)):
        return np.frombuffer(text, np.uint8)
    array = as_array(text, name)
    if not is_on_device(array) and array.dtype != np.uint8:
        raise BadInputs(f"{name} is text, bytes or an array of uint8, not of {array.dtype.name}")
    return array


_BY_NAME = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "uint32": "u32", "int32": "i32"}


def element_type(array: Any, name: str, accepted: Sequence[DataType], given: str | None = None) -> DataType:
    """The element type of an array, or the one `given` by name.  Raises BadInputs.

    bf16 elements come as a `bfloat16` of ml_dtypes or torch, or as uint16 with "bf16" given.
    """
    shown = str(array.dtype).removeprefix("torch.")
    word = given or _BY_NAME.get(shown, shown)
    found = next((dtype for dtype in accepted if dtype.name == word), None)
    if found is None:
        known = ", ".join(dtype.name for dtype in accepted)
        raise BadInputs(f"{name} holds {known}, not {given or shown}")
    return found


def as_stored(array: Any, dtype: DataType) -> Any:
    """As dispatchers take it: flat where it is a NumPy array, bf16 as the uint16 of its bits."""
    if is_on_device(array):
        return array
    return (array.view(np.uint16) if str(array.dtype) == "bfloat16" else array).reshape(-1)


def like(result: Any, array: Any, shape: Sequence[int] | None = None) -> Any:
    """A result in the shape (if none is given) and, for bf16, the type of the array it was made from."""
    if str(array.dtype) == "bfloat16" and isinstance(result, np.ndarray):
        result = result.view(array.dtype)
    return result.reshape(array.shape if shape is None else tuple(shape))


def room(count: int, dtype: DataType) -> np.ndarray:
    """Where a result of `count` elements goes."""
    return np.zeros(count, storage_type(dtype))
