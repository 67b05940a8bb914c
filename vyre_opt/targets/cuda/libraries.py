"""The libraries that GPU arrays come from: how each allocates an array, and which stream it works on.

A library is recognised by the module of an array's type, and taken from `sys.modules`: whoever has its
arrays has imported it.  For arrays of other libraries (Numba, or DLPack alone) new ones are `DeviceArray`s.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from math import prod
from operator import attrgetter, methodcaller
from typing import Any

import numpy as np

from ...execution.arrays import STORED_AS
from ...execution.dispatcher import BackendError
from ...execution.signatures import library_of_type
from ...records import dataclass
from .device import Device

__all__ = [
    "DeviceArray",
    "FastAccess",
    "Library",
    "library_name",
    "library_of",
    "producer_stream",
]

ArrayShape = tuple[int, ...]

MAX_TEMPLATE_BYTES = 1 << 14
"""A smaller array is its own template, which spares the option that an expanded one needs."""


class DeviceArray:
    """An array in GPU memory of this project, for other libraries by `__cuda_array_interface__`.

    `stream`: the handle of the stream on which it is written; 0 and 1 are the default one.
    """

    def __init__(
        self, device: Device, allocation: Any, shape: ArrayShape, dtype: np.dtype[Any], stream: int = 0
    ) -> None:
        self.device = device
        self.allocation = allocation
        self.shape = shape
        self.dtype = dtype
        self.stream = stream or 1

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (int(self.allocation), False),
            "version": 3,
            "strides": None,
            "stream": self.stream,
        }

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def reshape(self, shape: ArrayShape) -> DeviceArray:
        """The same memory in another shape of as many elements."""
        if np.prod(shape, dtype=np.int64) != np.prod(self.shape, dtype=np.int64):
            raise ValueError(f"an array of shape {self.shape} has no shape {tuple(shape)}")
        return DeviceArray(self.device, self.allocation, tuple(shape), self.dtype, self.stream)

    def item(self) -> Any:
        """The number in an array of one element."""
        return self.to_host().item()

    def to_host(self) -> np.ndarray:
        """A copy as a NumPy array."""
        array = np.empty(self.shape, self.dtype)
        if self.nbytes:
            with self.device:
                self.device.cuda.memcpy_dtoh(array, int(self.allocation))
        return array


@dataclass(frozen=True, slots=True)
class FastAccess:
    """The shortest ways to what each call needs of a library.

    `pointer(array)`.  `stream(number)`: a function that gives the handle of the current stream of a GPU.
    `maker(shape, kind, number)`: a function that allocates such an array on a GPU.  `clone(array)`: a copy.
    """

    pointer: Callable[[Any], int]
    stream: Callable[[int], Callable[[], int]]
    maker: Callable[[ArrayShape, str, int], Callable[[], Any]]
    clone: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Library:
    """Functions for arrays of a library.

    `empty(like, shape, kind, device)`: an uninitialised array of an element type (see
    `Description.kind`) on the GPU of `like`.  `stream(array)`: the handle of the library's current
    stream; 0 is the default one.  `contiguous(array)`: a contiguous copy of a strided array; None if the
    library makes none (see strided_copy.py).  `number(array)`: the number of its GPU, None if unknown.
    `fast`: for planned calls, of libraries whose allocators give freed memory to another stream only after the work of
    the stream that used it.
    """

    empty: Callable[[Any, ArrayShape, str, Device], Any]
    stream: Callable[[Any], int]
    contiguous: Callable[[Any], Any] | None = None
    number: Callable[[Any], int | None] = lambda array: None
    fast: FastAccess | None = None


def library_name(array: Any) -> str:
    return library_of_type(type(array))


def library_of(array: Any) -> Library:
    return _LIBRARIES.get(library_name(array), _OTHER)


def producer_stream(array: Any) -> int:
    """The handle of the current stream of the array's library; 0 is the default one."""
    handle = library_of(array).stream(array)
    return 0 if handle == 1 else handle


# --- torch


def _torch_empty(like: Any, shape: ArrayShape, kind: str, device: Device) -> Any:
    torch = sys.modules["torch"]
    dtype = getattr(torch, kind, None)
    if dtype is None:
        raise BackendError(f"torch {torch.__version__} has no type {kind}; use a newer one")
    return torch.empty(shape, dtype=dtype, device=like.device)


def _torch_stream(array: Any) -> int:
    return int(sys.modules["torch"].cuda.current_stream(array.device).cuda_stream)


def _torch_raw_stream(number: int) -> Callable[[], int]:
    torch = sys.modules["torch"]
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # 40 times as fast as the public way
    if raw is not None:
        return partial(raw, number)
    return lambda: int(torch.cuda.current_stream(number).cuda_stream)


def _torch_maker(shape: ArrayShape, kind: str, number: int) -> Callable[[], Any]:
    """Allocate, on a machine with one GPU, by the function that torch's compiled code calls, the fastest, which takes the
    current GPU.  Elsewhere `empty_like` takes half the time of `empty`; the template of a large array is one
    element, expanded."""
    torch = sys.modules["torch"]
    dtype, device = getattr(torch, kind), f"cuda:{number}"
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    empty = getattr(guards, "_empty_strided_cuda", None)
    if empty is not None and torch.cuda.device_count() == 1:
        strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
        return partial(empty, shape, strides, dtype)
    if prod(shape) * dtype.itemsize <= MAX_TEMPLATE_BYTES:
        return partial(torch.empty_like, torch.empty(shape, dtype=dtype, device=device))
    template = torch.empty((), dtype=dtype, device=device).expand(shape)
    return partial(torch.empty_like, template, memory_format=torch.contiguous_format)


# --- CuPy


def _cupy_stream(number: int) -> Callable[[], int]:
    current = sys.modules["cupy"].cuda.get_current_stream
    return lambda: int(current(number).ptr)


def _cupy_maker(shape: ArrayShape, kind: str, number: int) -> Callable[[], Any]:
    return partial(sys.modules["cupy"].empty, shape, _numpy_type(kind))


def _cupy_empty(like: Any, shape: ArrayShape, kind: str, device: Device) -> Any:
    return sys.modules["cupy"].empty(shape, dtype=_numpy_type(kind))


# --- PyCUDA, and arrays of other libraries


def _pycuda_empty(like: Any, shape: ArrayShape, kind: str, device: Device) -> Any:
    from pycuda import gpuarray

    return gpuarray.empty(shape, _numpy_type(kind), allocator=device.allocate)


def _own_empty(like: Any, shape: ArrayShape, kind: str, device: Device) -> Any:
    dtype = _numpy_type(kind)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return DeviceArray(device, device.allocate(size), tuple(shape), dtype, _interface_stream(like))


def _interface_stream(array: Any) -> int:
    interface = getattr(array, "__cuda_array_interface__", None) or {}
    return int(interface.get("stream") or 0)


def _numpy_type(kind: str) -> np.dtype[Any]:
    """The NumPy type of an element type; unsigned integers of its width for bf16 and f8, which NumPy lacks."""
    return np.dtype(STORED_AS.get(kind, kind))


_OTHER = Library(
    _own_empty,
    _interface_stream,
    number=lambda array: array.device.number if isinstance(array, DeviceArray) else None,
)

_LIBRARIES = {
    "torch": Library(
        _torch_empty,
        _torch_stream,
        contiguous=lambda array: array.contiguous(),
        number=lambda array: int(array.get_device()),
        fast=FastAccess(methodcaller("data_ptr"), _torch_raw_stream, _torch_maker, methodcaller("clone")),
    ),
    "cupy": Library(
        _cupy_empty,
        lambda array: int(sys.modules["cupy"].cuda.get_current_stream().ptr),
        contiguous=lambda array: sys.modules["cupy"].ascontiguousarray(array),
        number=lambda array: int(array.device.id),
        fast=FastAccess(attrgetter("data.ptr"), _cupy_stream, _cupy_maker, methodcaller("copy")),
    ),
    "pycuda": Library(_pycuda_empty, _interface_stream),
}
