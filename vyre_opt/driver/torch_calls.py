"""Calls of kernels with torch tensors that autograd or a tracer has to see: they go through torch.ops.vyre.

Such a tensor requires a gradient while torch records them, or is one without data of a tracer.  Under torch.compile
the tracer replaces the functions on arrays (see `traced_as`), so that nothing is asked where nothing is traced.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..runtime.array_backend import is_torch
from ..runtime.dispatcher import BadInputs, DispatcherLike
from ..runtime.signatures import has_own_dispatch

__all__ = [
    "is_recorded",
    "record",
    "traced_as",
    "traced_base64_decode",
    "traced_prefix_scan",
    "traced_softmax",
    "traced_tt_chain",
    "traced_tt_embedding",
]

DIFFERENTIABLE = ("softmax", "prefix_scan", "tt_chain", "tt_embedding")
Function = TypeVar("Function", bound=Callable[..., Any])


def is_recorded(array: Any) -> bool:
    """Whether autograd or a tracer of torch follows what is computed of an array."""
    if not is_torch(array):
        return False
    torch = sys.modules["torch"]
    return has_own_dispatch(type(array)) or bool(array.requires_grad and torch.is_grad_enabled())


def record(
    name: str, arrays: Sequence[Any], dispatcher: DispatcherLike | None, out: Any, *options: Any
) -> Any:
    """The kernel `name` as an operator of torch.  Raises BadInputs for one without a gradient, and for options."""
    if name not in DIFFERENTIABLE and name != "base64_decode":
        listed = ", ".join(f"torch.ops.vyre.{each}" for each in DIFFERENTIABLE)
        raise BadInputs(
            f"{name} has no gradient and is no operator of torch: pass x.detach() for a tensor x that requires one, or use {listed}"
        )
    if dispatcher is not None or out is not None or any(option is not None for option in options):
        raise BadInputs(
            f"{name} with a gradient is torch.ops.vyre.{name}, which has no dispatcher=, dtype= and out=: "
            "leave them out, or pass x.detach() for a tensor x that requires a gradient"
        )
    from ..torch.ops import OPERATORS

    return OPERATORS[name](*arrays)


def traced_as(replacement: Callable[..., Any]) -> Callable[[Function], Function]:
    """Decorates a function that torch.compile is to trace as another.

    By the attribute with which torch's own wrappers say what they wrap: a question whether a graph is being traced
    would cost every call time, and it would take an import of torch.
    """

    def decorate(function: Function) -> Function:
        function.__dict__["_torchdynamo_inline"] = replacement
        return function

    return decorate


def traced_softmax(x: Any, *, dtype: Any = None, dispatcher: Any = None, out: Any = None) -> Any:
    return record("softmax", (x,), dispatcher, out, dtype)


def traced_prefix_scan(x: Any, *, dispatcher: Any = None, out: Any = None) -> Any:
    return record("prefix_scan", (x,), dispatcher, out)


def traced_tt_chain(acc: Any, cores: Sequence[Any], *, dispatcher: Any = None, out: Any = None) -> Any:
    return record("tt_chain", (acc, *cores), dispatcher, out)


def traced_tt_embedding(
    cores: Sequence[Any], indices: Any, *, dtype: Any = None, dispatcher: Any = None
) -> Any:
    return record("tt_embedding", (indices, *cores), dispatcher, None, dtype)


def traced_base64_decode(text: Any, *, dispatcher: Any = None) -> Any:
    return record("base64_decode", (text,), dispatcher, None)
