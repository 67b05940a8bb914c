"""What pickle and copy keep of functions of kernels, kernels and pipelines: where their name is.

A copy is the object itself, since the constants of its closure are read once; another process translates its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["reduced"]


def reduced(function: Callable[..., Any], original: Any, **options: Any) -> Any:
    """See `object.__reduce__`.  `original`: what `options` was called on, with `options`, if it was."""
    return function.__qualname__ if original is None else (_with_options, (original, options))


def _with_options(original: Any, options: dict[str, Any]) -> Any:
    return original.options(**options)
