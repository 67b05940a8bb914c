"""Arrays that are on the GPU already, whoever made them: taken without a copy, given back in kind.

An array is known by `__cuda_array_interface__` (torch, CuPy, PyCUDA, Numba) or by DLPack.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.program import Buffer
from ..lowering.abi import ALIGNMENT
from ..runtime.arrays import storage_type
from ..runtime.dispatcher import BadInputs
from . import dlpack
from .device import Device

__all__ = ["DeviceArray", "View", "is_on_gpu", "producer_stream", "take", "made_like"]


@dataclass(frozen=True, slots=True)
class View:
    """An array of the caller's: `pointer`, `size` in bytes, `scalars`, and `owner` to keep it alive."""

    pointer: int
    size: int
    scalars: int
    owner: Any


class DeviceArray:
    """GPU memory of this project, as others read it: by `__cuda_array_interface__`.

    `to_host()` copies it into a NumPy array.
    """

    def __init__(self, device: Device, allocation: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.device = device
        self.allocation = allocation
        self.shape = shape
        self.dtype = dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (int(self.allocation), False),
            "version": 3,
            "strides": None,
            "stream": 1,
        }

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def to_host(self) -> np.ndarray:
        found = np.empty(self.shape, self.dtype)
        if self.nbytes:
            with self.device:
                self.device.cuda.memcpy_dtoh(found, int(self.allocation))
        return found


def is_on_gpu(given: Any) -> bool:
    """Whether `given` is an array in GPU memory."""
    if isinstance(given, (np.ndarray, bytes, bytearray, memoryview)):
        return False
    if _library(given) == "torch":
        return bool(given.is_cuda)
    if hasattr(given, "__cuda_array_interface__"):
        return True
    where = getattr(given, "__dlpack_device__", None)
    return where is not None and int(where()[0]) == dlpack.CUDA


def take(given: Any, buffer: Buffer, where: str, number: int) -> View:
    """The memory of an array that is bound to `buffer`.  Raises BadInputs, beginning with `where`."""
    stored = storage_type(buffer.dtype)
    assert stored is not None
    if _library(given) == "torch":
        pointer, shape = given.data_ptr(), tuple(given.shape)
        kind, contiguous = _name_of_torch(given), given.is_contiguous()
        owner_device = given.get_device()
    elif hasattr(given, "__cuda_array_interface__"):
        pointer, shape, kind, contiguous = _by_interface(given, stored)
        owner_device = number
    else:
        seen = _by_dlpack(given, where)
        pointer, shape, owner_device = seen.pointer, seen.shape, seen.device
        kind = _kind_of(seen, stored)
        contiguous = seen.strides is None or _is_contiguous(shape, seen.strides, 1)
    if owner_device != number:
        raise BadInputs(f"{where}: the array is on GPU {owner_device}, the dispatcher on GPU {number}")
    if kind != stored.name:
        raise BadInputs(f"{where}: {buffer.dtype} elements are {stored.name}, the array is {kind}")
    if not contiguous:
        raise BadInputs(f"{where}: the array is not contiguous; pass a contiguous copy")
    scalars, lanes = int(np.prod(shape, dtype=np.int64)), buffer.dtype.lanes
    if lanes > 1 and (shape[-1] != lanes if len(shape) > 1 else scalars % lanes):
        raise BadInputs(
            f"{where}: shape {tuple(shape)} does not divide into {buffer.dtype} elements; "
            f"pass shape (count, {lanes}) or a flat array of count * {lanes}"
        )
    if buffer.count is not None and scalars // lanes != buffer.count:
        raise BadInputs(f"{where}: {scalars // lanes} elements given, the program declares {buffer.count}")
    return View(pointer, scalars * stored.itemsize, scalars, given)


def is_aligned(view: View) -> bool:
    return view.pointer % ALIGNMENT == 0


# --- how arrays describe themselves


def _by_interface(given: Any, stored: np.dtype[Any]) -> tuple[int, tuple[int, ...], str, bool]:
    interface = given.__cuda_array_interface__
    shape = tuple(int(extent) for extent in interface["shape"])
    dtype = np.dtype(interface["typestr"])
    strides = interface.get("strides")
    contiguous = strides is None or _is_contiguous(shape, tuple(strides), dtype.itemsize)
    kind = stored.name if dtype.kind == "V" and dtype.itemsize == stored.itemsize else dtype.name
    return int(interface["data"][0] or 0), shape, kind, contiguous


def _name_of_torch(given: Any) -> str:
    """NumPy's name of a tensor's type; bfloat16, which NumPy does not have, is stored as its bits."""
    name = str(given.dtype).removeprefix("torch.")
    return {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}.get(name, name)


def _by_dlpack(given: Any, where: str) -> dlpack.DlpackView:
    try:
        return dlpack.view(given, 1)
    except (TypeError, BufferError, RuntimeError) as refused:
        raise BadInputs(f"{where}: the array cannot be read by DLPack: {refused}") from None


def _kind_of(seen: dlpack.DlpackView, stored: np.dtype[Any]) -> str:
    """The NumPy name of a DLPack type; bf16 is stored as its bits."""
    if seen.kind == "bf" and seen.bits == 16:
        return "uint16"
    word = {"i": "int", "u": "uint", "f": "float", "b": "bool", "bf": "bfloat"}[seen.kind]
    if seen.kind == "b" or (seen.kind == "u" and seen.bits == 8 and stored == np.bool_):
        return "bool"
    return f"{word}{seen.bits}"


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != expected:
            return False
        expected *= max(1, extent)
    return True


# --- arrays of the same kind


def _library(given: Any) -> str:
    return type(given).__module__.partition(".")[0]


def _like_torch(given: Any, device: Device, shape: tuple[int, ...]) -> Any:
    return sys.modules["torch"].empty(shape, dtype=given.dtype, device=given.device)


def _like_cupy(given: Any, device: Device, shape: tuple[int, ...]) -> Any:
    return sys.modules["cupy"].empty(shape, dtype=given.dtype)


def _like_pycuda(given: Any, device: Device, shape: tuple[int, ...]) -> Any:
    from pycuda import gpuarray

    return gpuarray.empty(shape, given.dtype, allocator=device.allocate)


_MAKERS: dict[str, Callable[[Any, Device, tuple[int, ...]], Any]] = {
    "torch": _like_torch,
    "cupy": _like_cupy,
    "pycuda": _like_pycuda,
}


def made_like(given: Any, view: View, buffer: Buffer, device: Device) -> tuple[Any, int]:
    """A new array of the kind, type and shape of `given`, and its pointer; the context must be current."""
    maker = _MAKERS.get(_library(given))
    if maker is None:
        stored = storage_type(buffer.dtype)
        assert stored is not None
        allocation = device.allocate(view.size)
        lanes = buffer.dtype.lanes
        shape = (view.scalars // lanes, lanes) if lanes > 1 else (view.scalars,)
        return DeviceArray(device, allocation, shape, stored), int(allocation)
    made = maker(given, device, tuple(given.shape))
    pointer = made.data_ptr() if hasattr(made, "data_ptr") else made.__cuda_array_interface__["data"][0]
    return made, int(pointer or 0)


def producer_stream(given: Any) -> int:
    """The handle of the stream on which the array's library works now; 0 is the default one."""
    library = _library(given)
    if library == "torch":
        return int(sys.modules["torch"].cuda.current_stream(given.device).cuda_stream)
    if library == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    interface = getattr(given, "__cuda_array_interface__", None) or {}
    return int(interface.get("stream") or 0)
