"""Placement of a call: in main memory or on a GPU, by its arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from ..execution.array_backend import ArrayBackend, HostArrays, is_torch
from ..execution.dispatcher import BadInputs, DispatcherLike, shared_dispatcher
from ..execution.environment import chosen_target, default_target
from ..execution.signatures import is_transformed, library_of_type

__all__ = ["any_on_gpu", "array_backend_of", "target_of_arrays"]

_host_backends: dict[str, HostArrays] = {}


def array_backend_of(dispatcher: DispatcherLike | None, arrays: Mapping[str, Any]) -> ArrayBackend:
    """The backend for the `arrays` of a call, by name.

    `dispatcher`: if None, cuda for arrays on a GPU, and for others what `chosen_target` says.  Raises BadInputs for arrays
    that are not all on one side, or not where the dispatcher takes them.
    """
    if not any(map(_may_be_on_gpu, arrays.values())):
        return _host_arrays(chosen_target(dispatcher))
    from ..targets.cuda.array_backend import gpu_arrays
    from ..targets.cuda.device_arrays import is_on_gpu

    for name, array in arrays.items():
        if is_torch(array) and is_transformed(array):
            raise BadInputs(
                f"{name} has no memory under torch.vmap or another transform of torch.func, and this call needs it: "
                "call it outside of the transform, or register what is called as an operator (vyre_opt.torch.register)"
            )
    is_gpu_array = {name: is_on_gpu(array) for name, array in arrays.items()}
    gpu_names = [name for name, on_gpu in is_gpu_array.items() if on_gpu]
    host_names = [name for name, on_gpu in is_gpu_array.items() if not on_gpu]
    if not gpu_names:
        return _host_arrays(chosen_target(dispatcher))
    if host_names:
        raise BadInputs(f"{host_names[0]} is not on the GPU, {gpu_names[0]} is; pass all arrays on one side")
    if dispatcher is None:
        chosen_target(None, arrays_on_gpu=True)  # warns of what is not checked there
    return gpu_arrays(dispatcher, gpu_names[0], arrays[gpu_names[0]])


def _host_arrays(target_or_name: DispatcherLike) -> HostArrays:
    """The backend for main memory; cached for dispatchers that are given by name."""
    if not isinstance(target_or_name, str):
        return HostArrays(shared_dispatcher(target_or_name))
    dispatcher = shared_dispatcher(target_or_name)
    backend = _host_backends.get(target_or_name)
    if backend is None or backend.dispatcher is not dispatcher:
        backend = _host_backends[target_or_name] = HostArrays(dispatcher)
    return backend


def _may_be_on_gpu(array: Any) -> bool:
    """False for what is certainly in main memory, so that the modules of the GPU are not imported for it."""
    return not isinstance(array, (np.ndarray, bytes, bytearray, memoryview, str, list, tuple, int, float))


def target_of_arrays(arrays: Sequence[Any]) -> str:
    """The name of the target of a call on arrays that names none."""
    return "cuda" if any_on_gpu(arrays) else default_target()


def any_on_gpu(arrays: Sequence[Any]) -> bool:
    return any(_IS_ON_GPU[type(array)](array) for array in arrays)


class _IsOnGpu(dict[type, Callable[[Any], bool]]):
    """Functions by the type of an array; torch's is the shortest way, as `__cuda_array_interface__` takes microseconds there."""

    def __missing__(self, cls: type) -> Callable[[Any], bool]:
        library = library_of_type(cls)
        if library == "torch":
            look: Callable[[Any], bool] = attrgetter("is_cuda")
        elif library in ("numpy", "builtins"):
            look = _is_never
        else:
            from ..targets.cuda.device_arrays import is_on_gpu as look
        return self.setdefault(cls, look)


def _is_never(array: Any) -> bool:
    return False


_IS_ON_GPU = _IsOnGpu()
