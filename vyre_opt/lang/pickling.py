"""What pickle and copy keep of functions of kernels, kernels and pipelines: where their name is.

A copy is the object itself, since the constants of its closure are read once; another process translates its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["reduced"]


def reduced(function: Callable[..., Any], original: Any, generic: Any, **options: Any) -> Any:
    """See `object.__reduce__`.  `original`: what `options` was called on, with `options`, if it was; `generic`: what `at` was called
    on, and the types."""
    if original is not None:
        return _with_options, (original, options)
    return function.__qualname__ if generic is None else (_at_types, generic)


def _with_options(original: Any, options: dict[str, Any]) -> Any:
    return original.options(**options)


def _at_types(generic: Any, types: tuple[Any, ...]) -> Any:
    return generic.at(*types)
