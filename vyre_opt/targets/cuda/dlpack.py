"""Reads DLPack capsules: the pointer, shape and type of an array without its library.

The layout is that of dlpack.h, version 0.8 (the unversioned `dltensor` capsule).
"""

from __future__ import annotations

import ctypes
from typing import Any

from ...records import dataclass

__all__ = ["CUDA", "DlpackView", "view"]

CUDA = 2
"""The device type of CUDA memory."""

_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class DlpackView:
    """`name`: of the element type, as NumPy has it, or bfloat16; `strides`: in bytes, None if contiguous."""

    pointer: int
    device: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    name: str


def view(array: Any, stream: int) -> DlpackView:
    """The view that `array.__dlpack__` gives.  `stream`: the handle of the stream that will use it (1: the default).

    The array must outlive every use.  Raises TypeError for element types that have no name here.
    """
    capsule = array.__dlpack__(stream=stream)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(get(capsule, b"dltensor"))
    word = _CODES.get(tensor.dtype.code)
    if word is None or tensor.dtype.lanes != 1:
        raise TypeError(f"DLPack element type {tensor.dtype.code} of {tensor.dtype.lanes} lanes")
    # copied, since the tensor is freed with the capsule, when this returns
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = None
    if tensor.strides:
        # CuPy divides a negative stride as an unsigned number, so only its product is right, in 64 bits
        size = tensor.dtype.bits // 8
        strides = tuple(ctypes.c_int64(stride * size).value for stride in tensor.strides[: tensor.ndim])
    name = word if word == "bool" else f"{word}{tensor.dtype.bits}"
    return DlpackView((tensor.data or 0) + tensor.byte_offset, tensor.device_id, shape, strides, name)
