"""The thread that calls LLVM.  All objects of llvmlite live there, and end there: llvmlite is not made for exceptions in between."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from ...worker import Worker

__all__ = ["LLVM", "on_llvm"]

P = ParamSpec("P")
T = TypeVar("T")

LLVM = Worker()


def on_llvm(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: LLVM's worker runs the function, which returns no object of llvmlite unless the worker itself calls it."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return LLVM.call(partial(function, *args, **kwargs))

    return call
