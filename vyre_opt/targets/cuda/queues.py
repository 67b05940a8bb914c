"""Queues of GPU work: streams of PyCUDA, and streams that belong to other libraries.

PyCUDA launches on streams that it made, and on the default one.  For a stream that
torch or CuPy made, only its handle is known; the driver's own library takes that.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from . import libcuda
from .device import Device
from .driver import translated_errors
from .waiting import wait_until

__all__ = ["ForeignQueue", "PyCudaQueue", "Queue", "queue_of"]

DEFAULT_STREAMS = (0, 1)
"""Handles that stand for the legacy default stream."""


class Queue(Protocol):
    """The context must be current at every call.  Sizes are in bytes."""

    handle: int

    def copy(self, target: int, source: int, size: int) -> None:
        """Device to device."""

    def zero(self, target: int, size: int) -> None:
        """Set all bytes to 0."""

    def wait(self) -> None:
        """Wait until all work enqueued so far is done.  A signal ends the wait."""


class PyCudaQueue:
    """A PyCUDA stream; None is the default one."""

    def __init__(self, device: Device, stream: Any) -> None:
        self.device = device
        self.stream = stream
        self.handle = 0 if stream is None else int(stream.handle)

    def copy(self, target: int, source: int, size: int) -> None:
        with translated_errors(f"copying {size} bytes"):
            self.device.cuda.memcpy_dtod_async(target, source, size, self.stream)

    def zero(self, target: int, size: int) -> None:
        with translated_errors(f"clearing {size} bytes"):
            self.device.cuda.memset_d8_async(target, 0, size, self.stream)

    def wait(self) -> None:
        with translated_errors("waiting for the GPU"):
            wait_until(partial(libcuda.is_done, 0) if self.stream is None else self.stream.is_done)


class ForeignQueue:
    """A stream that another library made, by its handle."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def copy(self, target: int, source: int, size: int) -> None:
        libcuda.copy(target, source, size, self.handle)

    def zero(self, target: int, size: int) -> None:
        libcuda.clear(target, size, self.handle)

    def wait(self) -> None:
        wait_until(partial(libcuda.is_done, self.handle))


def queue_of(device: Device, stream: Any) -> Queue:
    """The queue of a PyCUDA stream, of another library's stream object, of a handle, or the default one.

    An object may have the handle as `handle` (PyCUDA), `cuda_stream` (torch) or `ptr` (CuPy).
    """
    if stream is None:
        return PyCudaQueue(device, None)
    if isinstance(stream, device.cuda.Stream):
        return PyCudaQueue(device, stream)
    for name in ("cuda_stream", "ptr", "handle"):
        stream = getattr(stream, name, stream)
    handle = int(stream)
    if handle == int(device.stream.handle):
        return PyCudaQueue(device, device.stream)
    return PyCudaQueue(device, None) if handle in DEFAULT_STREAMS else ForeignQueue(handle)
