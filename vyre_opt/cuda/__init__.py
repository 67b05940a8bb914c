"""The cuda target: programs as PTX on an NVIDIA GPU, through PyCUDA.

    dispatcher      the protocol that every target offers, and launches in place
    kernels         programs compiled, loaded and cached
    device          a GPU, its facts and its memory
    device_arrays   arrays that are on the GPU already
    libraries       whose they are, and how more are made
    place           calls whose arrays are there
    transfers       NumPy arrays to the GPU and back
    graph           many launches submitted as one

Importing this needs neither driver nor PyCUDA; the first dispatch does.
"""

from __future__ import annotations

from .device import DeviceFacts
from .device_arrays import DeviceArray
from .dispatcher import CudaDispatcher
from .graph import LaunchGraph
from .timing import Timer

__all__ = ["CudaDispatcher", "DeviceArray", "DeviceFacts", "LaunchGraph", "Timer"]
