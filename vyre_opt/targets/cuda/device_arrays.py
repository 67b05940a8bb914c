"""Arrays of any library that are on the GPU already: used without a copy; results are of the same library.

An array is read by `__cuda_array_interface__` (torch, CuPy, PyCUDA, Numba) or by DLPack.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...execution.array_backend import NOT_CONTIGUOUS
from ...execution.arrays import STORED_AS, storage_type
from ...execution.dispatcher import BadInputs
from ...ir.program import Buffer
from ...lowering.nvptx.abi import ALIGNMENT
from ...records import dataclass
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
    "new_array",
    "producer_stream",
    "take",
]


@dataclass(frozen=True, slots=True)
class View:
    """Memory on the GPU: `pointer`, `size` in bytes, `scalars`, and `owner`, which keeps it alive."""

    pointer: int
    size: int
    scalars: int
    owner: Any
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Description:
    """The properties of an array.

    `kind`: its element type as NumPy names it, or bfloat16, float8_e4m3fn, float8_e5m2.
    `device`: the number of its GPU, None if unknown.  `strides`: in bytes, of an array that is not contiguous;
    None also of one whose library copies such arrays itself.
    """

    pointer: int
    shape: tuple[int, ...]
    kind: str
    contiguous: bool
    device: int | None
    by_dlpack: bool = False
    strides: tuple[int, ...] | None = None

    @property
    def stored(self) -> str:
        """The name of the NumPy type that stores an element: unsigned integers for types that NumPy lacks."""
        return STORED_AS.get(self.kind, self.kind)

    @property
    def scalars(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def size(self) -> int:
        """Size of the elements, in bytes."""
        return self.scalars * np.dtype(self.stored).itemsize


def is_on_gpu(array: Any) -> bool:
    """Whether a value is an array in GPU memory."""
    if isinstance(array, View):
        return True
    if isinstance(array, (np.ndarray, bytes, bytearray, memoryview, str, list, tuple)):
        return False
    library = library_name(array)
    if library in ("torch", "pycuda"):
        return bool(getattr(array, "is_cuda", library == "pycuda"))
    if hasattr(array, "__cuda_array_interface__"):
        return True
    where = getattr(array, "__dlpack_device__", None)
    return where is not None and int(where()[0]) == dlpack.CUDA


def describe(array: Any, where: str) -> Description:
    """The properties of an array on the GPU.  Raises BadInputs, with a message that begins with `where`."""
    if isinstance(array, View):
        return Description(array.pointer, (array.scalars,), array.kind, True, None)
    if library_name(array) == "torch":
        return _by_torch(array, where)
    if library_name(array) == "pycuda" and not array.size:  # an empty one has no interface
        return Description(0, tuple(array.shape), array.dtype.name, True, None)
    if hasattr(array, "__cuda_array_interface__"):
        return _by_interface(array, where)
    return _by_dlpack(array, where)


def take(
    array: Any,
    buffer: Buffer,
    where: str,
    number: int,
) -> View:
    """The memory of a contiguous array for `buffer`, on GPU `number`.

    Raises BadInputs, with a message that begins with `where`.
    """
    if isinstance(array, View):
        return array
    stored, lanes = storage_type(buffer.dtype), buffer.dtype.lanes
    assert stored is not None
    info = describe(array, where)
    if info.device not in (None, number):
        raise BadInputs(f"{where}: the array is on GPU {info.device}, the dispatcher on GPU {number}")
    if not _holds(info, stored):
        raise BadInputs(f"{where}: {buffer.dtype} elements are {stored.name}, the array is {info.kind}")
    if not info.contiguous:
        raise BadInputs(f"{where}: the array {NOT_CONTIGUOUS}")
    shape, scalars = info.shape, info.scalars
    if lanes > 1 and (shape[-1] != lanes if len(shape) > 1 else scalars % lanes):
        raise BadInputs(
            f"{where}: shape {shape} does not divide into {buffer.dtype} elements; "
            f"pass shape (count, {lanes}) or a flat array of count * {lanes}"
        )
    if buffer.count is not None and scalars // lanes != buffer.count:
        raise BadInputs(f"{where}: {scalars // lanes} elements given, the program declares {buffer.count}")
    return View(info.pointer, scalars * stored.itemsize, scalars, array)


def is_aligned(view: View) -> bool:
    return view.pointer % ALIGNMENT == 0


def producer_stream(array: Any) -> int:
    """The handle of the current stream of the array's library; 0 is the default one."""
    return stream_of(array.owner if isinstance(array, View) else array)


def _holds(info: Description, stored: np.dtype[Any]) -> bool:
    if info.kind.startswith("void"):  # NumPy's name for types that it does not know
        return info.kind == f"void{8 * stored.itemsize}"
    if info.by_dlpack and stored == np.bool_:  # old versions of DLPack have no bool
        return info.kind in ("bool", "uint8")
    return info.stored == stored.name


# --- reading the properties of arrays


def _by_torch(array: Any, where: str) -> Description:
    layout = str(array.layout).removeprefix("torch.")
    if layout != "strided":
        raise BadInputs(f"{where}: the tensor is {layout}; pass a dense one")
    if array.is_neg():
        raise BadInputs(f"{where}: the tensor is negated when it is read; pass its resolve_neg()")
    kind = str(array.dtype).removeprefix("torch.")
    device = int(array.get_device())
    return Description(array.data_ptr(), tuple(array.shape), kind, array.is_contiguous(), device)


def _by_interface(array: Any, where: str) -> Description:
    interface = array.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise BadInputs(f"{where}: the array is masked; pass a plain one")
    shape = tuple(int(extent) for extent in interface["shape"])
    dtype = np.dtype(interface["typestr"])
    strides = interface.get("strides")
    contiguous = strides is None or _is_contiguous(shape, tuple(strides), dtype.itemsize)
    number = library_of(array).number(array)
    pointer = int(interface["data"][0] or 0)
    return Description(
        pointer, shape, dtype.name, contiguous, number, strides=None if contiguous else tuple(strides)
    )


def _by_dlpack(array: Any, where: str) -> Description:
    try:
        info = dlpack.view(array, 1)
    except (TypeError, BufferError, RuntimeError) as error:
        raise BadInputs(f"{where}: the array cannot be read by DLPack: {error}") from None
    size = np.dtype(STORED_AS.get(info.name, info.name)).itemsize
    contiguous = info.strides is None or _is_contiguous(info.shape, info.strides, size)
    strides = None if contiguous else info.strides
    return Description(info.pointer, info.shape, info.name, contiguous, info.device, True, strides)


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    if 0 in shape:
        return True
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        # the stride of an axis of extent 1 is never used, and may be anything
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True


# --- new arrays of the same library; the context must be current


def new_array(like: Any, shape: tuple[int, ...], kind: str, device: Device) -> tuple[Any, int]:
    """A new, uninitialised array of the library of `like`, and its pointer."""
    array = library_of(like).empty(like, shape, kind, device)
    return array, describe(array, "a new array").pointer
