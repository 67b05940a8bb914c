"""Driver calls that PyCUDA lacks, through cuda-bindings: foreign streams and graphs."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..runtime.dispatcher import BackendError
from .driver import explain

__all__ = ["checked", "raw"]


@cache
def raw() -> Any:
    """The driver module of cuda-bindings.  Raises BackendError if it is not installed."""
    try:
        from cuda.bindings import driver
    except ImportError:
        raise BackendError(
            "graphs and other libraries' streams need cuda-bindings: pip install 'vyre-opt[cuda]'"
        ) from None
    return driver


def checked(result: tuple[Any, ...], doing: str) -> Any:
    """The value that a driver call returned.  Raises BackendError for an error code."""
    code, *values = result
    if int(code):
        driver = raw()
        _, text = driver.cuGetErrorString(code)
        words = text.decode() if isinstance(text, bytes) else str(code)
        raise BackendError(explain(words, doing))
    return values[0] if len(values) == 1 else tuple(values)
