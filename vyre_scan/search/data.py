"""Data of any kind as bytes, in main memory or on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from vyre_opt.execution.dispatcher import BadInputs
from vyre_opt.records import dataclass

from ..arrays import Array

__all__ = ["DeviceOctets", "octets_in_place", "octets_of"]


@dataclass(frozen=True, slots=True)
class DeviceOctets:
    """Bytes in the memory of GPU `number`: `count` from `pointer` on.  `owner`: the array whose memory it is."""

    pointer: int
    count: int
    number: int
    owner: Any

    def __len__(self) -> int:
        return self.count

    def to_host(self, first: int, end: int) -> Array:
        """A copy of the bytes from `first` up to `end`."""
        from vyre_opt.targets.cuda.device import device
        from vyre_opt.targets.cuda.driver import translated_errors

        octets = np.empty(end - first, np.uint8)
        if len(octets):
            with device(self.number) as gpu, translated_errors(f"copying {end - first} bytes from the GPU"):
                gpu.cuda.memcpy_dtoh(octets, self.pointer + first)
        return octets


def octets_of(data: Any) -> Array:
    """u8[n], in the place where they are if that is main memory: of bytes, memoryviews, mmaps and arrays of u8.

    A str counts as its UTF-8.  Arrays on a GPU are copied.  Raises BadInputs.
    """
    octets = octets_in_place(data)
    return octets.to_host(0, len(octets)) if isinstance(octets, DeviceOctets) else octets


def octets_in_place(data: Any) -> Array | DeviceOctets:
    """The bytes as of `octets_of`, but those of an array on a GPU stay there, once its library has written them."""
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    if type(data) is bytes:
        return np.frombuffer(data, np.uint8)
    if isinstance(data, (np.ndarray, bytes, bytearray, memoryview)):
        return _in_main_memory(data)
    from vyre_opt.targets.cuda.device_arrays import is_on_gpu

    return _on_gpu(data) if is_on_gpu(data) else _in_main_memory(data)


def _in_main_memory(data: Any) -> Array:
    array = data if isinstance(data, np.ndarray) else _as_array(data)
    _check_type(array.dtype.name)
    return np.ascontiguousarray(array).reshape(-1)


def _on_gpu(array: Any) -> DeviceOctets:
    from vyre_opt.targets.cuda.array_backend import gpu_arrays
    from vyre_opt.targets.cuda.device import device
    from vyre_opt.targets.cuda.device_arrays import describe, producer_stream
    from vyre_opt.targets.cuda.queues import queue_of

    info = describe(array, "data")
    _check_type(info.kind)
    if not info.contiguous:
        array = gpu_arrays(None, "data", array).take(array, "data").array
        info = describe(array, "data")
    octets = DeviceOctets(info.pointer, info.scalars, info.device or 0, array)
    with device(octets.number) as gpu:
        queue_of(gpu, producer_stream(array)).wait()
    return octets


def _check_type(kind: str) -> None:
    if kind != "uint8":
        raise BadInputs(f"data is bytes or an array of uint8, not of {kind}")


def _as_array(data: Any) -> Array:
    try:
        view = memoryview(data)
    except TypeError:
        if hasattr(data, "__array__"):  # torch's
            return np.asarray(data)
        kind = type(data).__name__
        raise BadInputs(
            f"data is bytes, or what has bytes, such as an array or a file's mmap, not {kind}"
        ) from None
    if view.format not in ("B", "b", "c"):
        return np.asarray(view)
    return np.frombuffer(view if view.c_contiguous else view.tobytes(), np.uint8)
