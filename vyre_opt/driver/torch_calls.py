"""Calls of kernels with torch tensors that autograd, a tracer or a transform has to see: they go through torch.ops.vyre.

Such a tensor requires a gradient while torch records them, or is one without data of a tracer or of a transform as
torch.vmap, under which kernels that are no operators run, too.  Under torch.compile
the tracer replaces the functions on arrays (see `traced_as`), so that nothing is asked where nothing is traced.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..execution.array_backend import is_torch
from ..execution.dispatcher import BadInputs, DispatcherLike
from ..execution.signatures import has_own_dispatch, is_transformed

__all__ = ["is_recorded", "record", "traced_as"]

Function = TypeVar("Function", bound=Callable[..., Any])


def is_recorded(array: Any) -> bool:
    """Whether autograd, a tracer or a transform of torch follows what is computed of an array."""
    return is_torch(array) and (
        has_own_dispatch(type(array)) or is_transformed(array) or _needs_gradient(array)
    )


def _needs_gradient(tensor: Any) -> bool:
    return bool(tensor.requires_grad and sys.modules["torch"].is_grad_enabled())


def _is_only_transformed(arrays: Sequence[Any]) -> bool:
    tensors = [array for array in arrays if is_torch(array)]
    return any(map(is_transformed, tensors)) and not any(map(_needs_gradient, tensors))


def record(
    name: str,
    call: Callable[..., Any] | None,
    arrays: Sequence[Any],
    dispatcher: DispatcherLike | None,
    out: Any,
    *options: Any,
) -> Any:
    """The kernel `name` as an operator of torch, or `call(*arrays)` under transforms where no gradient is asked for.

    Raises BadInputs for one without a gradient, and for options.
    """
    has_options = dispatcher is not None or out is not None or any(option is not None for option in options)
    from ..torch.ops import OPERATORS

    if call is not None and (has_options or name not in OPERATORS) and _is_only_transformed(arrays):
        if out is not None:
            raise BadInputs(f"{name} under torch.vmap makes its result: leave out= out")
        from ..torch.batching import call_under_transforms

        return call_under_transforms(call, arrays)
    if name not in OPERATORS:
        listed = ", ".join(f"torch.ops.vyre.{each}" for each, op in OPERATORS.items() if op.kernel.keeps)
        raise BadInputs(
            f"{name} has no gradient and is no operator of torch: pass x.detach() for a tensor x that requires one, or use {listed}"
        )
    if has_options:
        raise BadInputs(
            f"{name} with a gradient is torch.ops.vyre.{name}, which has no dispatcher=, dtype= and out=: "
            "leave them out, or pass x.detach() for a tensor x that requires a gradient"
        )
    return OPERATORS[name](*arrays)


def traced_as(name: str) -> Callable[[Function], Function]:
    """Decorates a function that torch.compile is to trace as the operator `name`.

    By the attribute with which torch's own wrappers say what they wrap: a question whether a graph is being traced
    would cost every call time, and it would take an import of torch.
    """

    def decorate(function: Function) -> Function:
        code = function.__code__
        positional = code.co_varnames[: code.co_argcount]

        def traced(
            *arguments: Any, dispatcher: Any = None, out: Any = None, dtype: Any = None, **named: Any
        ) -> Any:
            given = [*arguments, *[named.pop(name) for name in positional[len(arguments) :] if name in named]]
            if named or len(given) != len(positional):
                raise TypeError(f"{name}({', '.join(positional)}) gets {len(given)} arrays, and {[*named]}")
            arrays: list[Any] = []
            for argument in given:
                arrays += argument if isinstance(argument, (list, tuple)) else [argument]
            return record(name, None, arrays, dispatcher, out, dtype)

        function.__dict__["_torchdynamo_inline"] = traced
        return function

    return decorate
