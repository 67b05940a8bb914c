"""Arrays that are on the GPU already, whoever made them: taken without a copy, given back in kind.

An array is known by `__cuda_array_interface__` (torch, CuPy, PyCUDA, Numba) or by DLPack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.program import Buffer
from ..ir.types import DataType
from ..lowering.nvptx.abi import ALIGNMENT
from ..runtime.arrays import storage_type
from ..runtime.dispatcher import BadInputs
from . import dlpack
from .device import Device
from .libraries import DeviceArray, library_name, library_of
from .libraries import producer_stream as stream_of

__all__ = [
    "Description",
    "DeviceArray",
    "View",
    "describe",
    "is_aligned",
    "is_on_gpu",
    "made",
    "made_like",
    "producer_stream",
    "room_like",
    "take",
]


@dataclass(frozen=True, slots=True)
class View:
    """Memory on the GPU: `pointer`, `size` in bytes, `scalars`, and `owner`, which keeps it alive.

    As an argument it is storage that its maker gives up: a program that writes does so in place,
    and it comes back itself.  `kind` is then its element type.
    """

    pointer: int
    size: int
    scalars: int
    owner: Any
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Description:
    """What an array says of itself.

    `kind`: its element type as NumPy names it, or bfloat16, float8_e4m3fn, float8_e5m2.
    `device`: the number of its GPU, None if it does not say.
    """

    pointer: int
    shape: tuple[int, ...]
    kind: str
    contiguous: bool
    device: int | None
    by_dlpack: bool = False

    @property
    def stored(self) -> str:
        """NumPy's name of what holds an element: bits for types that NumPy does not have."""
        return {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}.get(
            self.kind, self.kind
        )

    @property
    def scalars(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


def is_on_gpu(given: Any) -> bool:
    """Whether `given` is an array in GPU memory."""
    if isinstance(given, View):
        return True
    if isinstance(given, (np.ndarray, bytes, bytearray, memoryview, str, list, tuple)):
        return False
    library = library_name(given)
    if library in ("torch", "pycuda"):
        return bool(getattr(given, "is_cuda", library == "pycuda"))
    if hasattr(given, "__cuda_array_interface__"):
        return True
    where = getattr(given, "__dlpack_device__", None)
    return where is not None and int(where()[0]) == dlpack.CUDA


def describe(given: Any, where: str) -> Description:
    """What an array on the GPU says of itself.  Raises BadInputs, beginning with `where`."""
    if isinstance(given, View):
        return Description(given.pointer, (given.scalars,), given.kind, True, None)
    if library_name(given) == "torch":
        return _by_torch(given, where)
    if library_name(given) == "pycuda" and not given.size:  # which has no interface then
        return Description(0, tuple(given.shape), given.dtype.name, True, None)
    if hasattr(given, "__cuda_array_interface__"):
        return _by_interface(given, where)
    return _by_dlpack(given, where)


def take(given: Any, buffer: Buffer, where: str, number: int) -> View:
    """The memory of an array that is bound to `buffer`.  Raises BadInputs, beginning with `where`."""
    if isinstance(given, View):
        return given
    stored, lanes = storage_type(buffer.dtype), buffer.dtype.lanes
    assert stored is not None
    seen = describe(given, where)
    if seen.device not in (None, number):
        raise BadInputs(f"{where}: the array is on GPU {seen.device}, the dispatcher on GPU {number}")
    if not _holds(seen, stored):
        raise BadInputs(f"{where}: {buffer.dtype} elements are {stored.name}, the array is {seen.kind}")
    if not seen.contiguous:
        raise BadInputs(f"{where}: the array is not contiguous; pass a contiguous copy")
    shape, scalars = seen.shape, seen.scalars
    if lanes > 1 and (shape[-1] != lanes if len(shape) > 1 else scalars % lanes):
        raise BadInputs(
            f"{where}: shape {shape} does not divide into {buffer.dtype} elements; "
            f"pass shape (count, {lanes}) or a flat array of count * {lanes}"
        )
    if buffer.count is not None and scalars // lanes != buffer.count:
        raise BadInputs(f"{where}: {scalars // lanes} elements given, the program declares {buffer.count}")
    return View(seen.pointer, scalars * stored.itemsize, scalars, given)


def is_aligned(view: View) -> bool:
    return view.pointer % ALIGNMENT == 0


def producer_stream(given: Any) -> int:
    """The handle of the stream on which the array's library works now; 0 is the default one."""
    return stream_of(given.owner if isinstance(given, View) else given)


def _holds(seen: Description, stored: np.dtype[Any]) -> bool:
    if seen.kind.startswith("void"):  # what NumPy calls a type that it does not know
        return seen.kind == f"void{8 * stored.itemsize}"
    if seen.by_dlpack and stored == np.bool_:  # which old versions of DLPack have no code for
        return seen.kind in ("bool", "uint8")
    return seen.stored == stored.name


# --- how arrays describe themselves


def _by_torch(given: Any, where: str) -> Description:
    layout = str(given.layout).removeprefix("torch.")
    if layout != "strided":
        raise BadInputs(f"{where}: the tensor is {layout}; pass a dense one")
    if given.is_neg():
        raise BadInputs(f"{where}: the tensor is negated when it is read; pass its resolve_neg()")
    kind = str(given.dtype).removeprefix("torch.")
    device = int(given.get_device())
    return Description(given.data_ptr(), tuple(given.shape), kind, given.is_contiguous(), device)


def _by_interface(given: Any, where: str) -> Description:
    interface = given.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise BadInputs(f"{where}: the array is masked; pass a plain one")
    shape = tuple(int(extent) for extent in interface["shape"])
    dtype = np.dtype(interface["typestr"])
    strides = interface.get("strides")
    contiguous = strides is None or _is_contiguous(shape, tuple(strides), dtype.itemsize)
    number = library_of(given).number(given)
    return Description(int(interface["data"][0] or 0), shape, dtype.name, contiguous, number)


def _by_dlpack(given: Any, where: str) -> Description:
    try:
        seen = dlpack.view(given, 1)
    except (TypeError, BufferError, RuntimeError) as refused:
        raise BadInputs(f"{where}: the array cannot be read by DLPack: {refused}") from None
    contiguous = seen.strides is None or _is_contiguous(seen.shape, seen.strides, 1)
    return Description(seen.pointer, seen.shape, seen.name, contiguous, seen.device, by_dlpack=True)


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    if 0 in shape:
        return True
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True


# --- arrays of the same kind; the context must be current


def made(like: Any, shape: tuple[int, ...], kind: str, device: Device) -> tuple[Any, int]:
    """A new array of the library of `like` that holds anything, and its pointer."""
    array = library_of(like).empty(like, shape, kind, device)
    return array, describe(array, "a new array").pointer


def made_like(given: Any, buffer: Buffer, device: Device) -> tuple[Any, int]:
    """A new array of the library, type and shape of `given`, and its pointer."""
    seen = describe(given, f"@{buffer.name}")
    return made(given, seen.shape, seen.kind, device)


_TORCH_TYPES = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}


def room_like(leader: Any, held: DataType, buffer: Buffer, count: int, device: Device) -> tuple[Any, int]:
    """A new array of `count` elements for `buffer`, of the library of `leader`, and its pointer.

    It is of the type of `leader`, an array of `held`, if it is to hold the same.
    """
    stored, lanes = storage_type(buffer.dtype), buffer.dtype.lanes
    assert stored is not None
    kind = stored.name
    if isinstance(leader, View):
        leader = leader.owner
    elif buffer.dtype.element is held.element:
        kind = describe(leader, f"@{buffer.name}").kind
    elif library_name(leader) == "torch":
        kind = _TORCH_TYPES.get(buffer.dtype.element.name, kind)
    return made(leader, (count, lanes) if lanes > 1 else (count,), kind, device)
