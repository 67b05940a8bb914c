"""Signature of an array as a key of calls: its type, shape, layout and place, but not its contents.

Calls whose arrays have equal signatures need the same checks, code and memory, so they share a plan.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

__all__ = [
    "SIGNATURES",
    "exact",
    "guard_of",
    "has_own_dispatch",
    "is_transformed",
    "library_of_type",
    "signature_of",
]

_LAYOUT = 0x501
"""NumPy's bits of `flags.num` for C-contiguous, aligned and writeable: faster to read than the flags by name."""


def library_of_type(cls: type) -> str:
    """The library that an array type belongs to: that of the first of its bases that is not the user's own."""
    for base in cls.__mro__:
        name = (base.__module__ or "").partition(".")[0]  # ctypes makes types of no module
        if name in _LIBRARIES:
            return name
    return (cls.__module__ or "").partition(".")[0]


def has_own_dispatch(cls: type) -> bool:
    """Whether operators of torch mean something else for such tensors: those of tracers, which have no data."""
    dispatch = getattr(cls, "__torch_dispatch__", None)
    return dispatch is not None and dispatch != sys.modules["torch"].Tensor.__torch_dispatch__


def _of_numpy(array: Any) -> Hashable:
    return array.dtype, array.shape, array.flags.num & _LAYOUT


def is_transformed(tensor: Any) -> bool:
    """Whether a tensor is a wrapper that a transform of torch.func follows, as torch.vmap; it has no memory."""
    core = sys.modules["torch"]._C
    return bool(
        core._are_functorch_transforms_active() and core._functorch.is_functorch_wrapped_tensor(tensor)
    )


def _of_torch(tensor: Any) -> Hashable:
    if is_transformed(tensor):
        raise TypeError("a tensor that a transform follows has no signature")
    # a negated view has its own sign bit beside the memory; a sparse tensor raises, and has no signature
    gradient = tensor.requires_grad and ("recorded" if sys.modules["torch"].is_grad_enabled() else "not now")
    return (
        tensor.dtype,
        tensor.shape,
        tensor.get_device(),
        tensor.is_contiguous(),
        tensor.is_neg(),
        gradient,
    )


def _of_cupy(array: Any) -> Hashable:
    return array.dtype, array.shape, array.device.id, array.flags.c_contiguous


_BY_LIBRARY: dict[str, Callable[[Any], Hashable]] = {
    "numpy": _of_numpy,
    "torch": _of_torch,
    "cupy": _of_cupy,
}

_LIBRARIES = (*_BY_LIBRARY, "pycuda")


class _Signatures(dict[type, Callable[[Any], Hashable]]):
    """Signature functions by the type of an array; a KeyError for types whose arrays have none."""

    def __missing__(self, cls: type) -> Callable[[Any], Hashable]:
        # numpy.ma, numpy.matrix and NumPy's scalars are no plain arrays
        is_plain = cls is np.ndarray or not issubclass(cls, (np.ndarray, np.generic))
        function = _BY_LIBRARY.get(library_of_type(cls)) if is_plain else None
        if function is None or has_own_dispatch(cls):
            raise KeyError(cls)
        self[cls] = function
        return function


SIGNATURES = _Signatures()
"""`SIGNATURES[type(array)](array)`: the signature of an array."""


def exact(value: Any) -> tuple[Any, ...]:
    """A number or numbers as a key: with the types, since 3.0 and True equal an int, and are refused."""
    return (type(value), *map(exact, value)) if isinstance(value, tuple) else (type(value), value)


def signature_of(array: Any) -> Hashable:
    """The signature of an array; None for what has none."""
    try:
        return SIGNATURES[type(array)](array)
    except (KeyError, TypeError, RuntimeError, AttributeError):
        return None


def guard_of(arrays: Sequence[Any]) -> Callable[..., bool] | None:
    """A function that tells whether other arrays have the signatures of these, in a tenth of the time that signatures take.

    None where there is none: it is for tensors, by what torch's compiler checks its own code with.
    """
    torch: Any = sys.modules.get("torch")
    core = getattr(torch, "_C", None)
    make = getattr(getattr(getattr(core, "_dynamo", None), "guards", None), "TensorGuards", None)
    if make is None or not arrays:
        return None
    # a tensor whose gradient is recorded has another signature where torch records none
    if any(type(array) is not torch.Tensor or array.requires_grad for array in arrays):
        return None
    try:
        check = make(*arrays, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    except (RuntimeError, TypeError, ValueError):
        return None
    is_neg = torch.Tensor.is_neg  # of which a guard does not tell
    count = len(arrays)  # a guard raises where there are more or fewer

    def is_like(*others: Any) -> bool:
        return len(others) == count and check(*others) and not any(map(is_neg, others))

    return is_like if is_like(*arrays) else None
