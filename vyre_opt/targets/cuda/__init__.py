"""The cuda target: programs as PTX on an NVIDIA GPU, through PyCUDA.

    dispatcher      the protocol that every target offers, and launches in place
    kernels         compiles programs, has them loaded, caches them
    loaded_kernel   kernels loaded by PyCUDA, and launched
    device          a GPU, its facts and its memory
    device_arrays   arrays that are on the GPU already
    libraries       the libraries that own such arrays
    array_backend   functions on arrays that are on the GPU
    transfers       NumPy arrays to the GPU and back
    graph           many launches recorded and submitted as one
    queues          streams, of PyCUDA and of other libraries

    loaded_plan     plans of launches, as one call of a launcher
    walk            plans with host reads, repeats, grid barriers
    host_arrays     plans for arrays in main memory
    steps           what a plan enqueues, by PyCUDA at first
    launcher        the same as one call from Python, for calls that repeat; its code: launcher_ir, launcher_code
    libcuda         the driver's own library, for what PyCUDA does not offer
    waiting         waits that a signal ends
    faults          records of faults, and the errors that they stand for

What loads and runs kernels imports nothing that compiles them, since packs are run by it.

Importing this needs neither driver nor PyCUDA; the first dispatch does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...worker import import_module

if TYPE_CHECKING:
    from .device import DeviceFacts
    from .device_arrays import DeviceArray
    from .dispatcher import CudaDispatcher
    from .graph import LaunchGraph
    from .timing import Timer

__all__ = ["CudaDispatcher", "DeviceArray", "DeviceFacts", "LaunchGraph", "Timer"]

_MODULES = {
    "CudaDispatcher": "dispatcher",
    "DeviceArray": "device_arrays",
    "DeviceFacts": "device",
    "LaunchGraph": "graph",
    "Timer": "timing",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
