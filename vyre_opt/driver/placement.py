"""Where the arrays of a call are, and so where it runs: in main memory, or on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..runtime.array_backend import ArrayBackend, HostArrays
from ..runtime.dispatcher import BadInputs, DispatcherLike, shared_dispatcher

__all__ = ["array_backend_of"]

_host_backends: dict[str, HostArrays] = {}


def array_backend_of(dispatcher: DispatcherLike | None, given: Mapping[str, Any]) -> ArrayBackend:
    """The place of the arrays in `given`, by name: None lets it choose the dispatcher, cpu in main memory.

    Raises BadInputs for arrays that are not all on one side, or not where the dispatcher wants them.
    """
    if not any(map(_may_be_on_gpu, given.values())):
        return _host_arrays(dispatcher or "cpu")
    from ..cuda.array_backend import gpu_arrays
    from ..cuda.device_arrays import is_on_gpu

    where = {name: is_on_gpu(array) for name, array in given.items()}
    there = [name for name, on_gpu in where.items() if on_gpu]
    here = [name for name, on_gpu in where.items() if not on_gpu]
    if not there:
        return _host_arrays(dispatcher or "cpu")
    if here:
        raise BadInputs(f"{here[0]} is not on the GPU, {there[0]} is; pass all arrays on one side")
    return gpu_arrays(dispatcher, there[0], given[there[0]])


def _host_arrays(given: DispatcherLike) -> HostArrays:
    """One is kept for each dispatcher that is kept."""
    dispatcher = shared_dispatcher(given)
    found = _host_backends.get(dispatcher.name)
    if found is None or found.dispatcher is not dispatcher:
        found = HostArrays(dispatcher)
        if isinstance(given, str):
            _host_backends[dispatcher.name] = found
    return found


def _may_be_on_gpu(given: Any) -> bool:
    """False for what surely is in main memory, so that nothing of the GPU is loaded for it."""
    return not isinstance(given, (np.ndarray, bytes, bytearray, memoryview, str, list, tuple, int, float))
