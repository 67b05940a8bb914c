"""Driver calls that PyCUDA lacks, through cuda-bindings: cooperative launches, foreign streams, graphs."""

from __future__ import annotations

import ctypes
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
            "grid barriers, graphs and other libraries' streams need cuda-bindings: pip install 'vyre-opt[cuda]'"
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


def load_function(ptx: bytes, symbol: str) -> tuple[Any, Any]:
    """The module and a function of it; the context must be current."""
    driver = raw()
    module = checked(driver.cuModuleLoadData(ptx), f"loading {symbol}")
    return module, checked(driver.cuModuleGetFunction(module, symbol.encode()), f"finding {symbol}")


def allow_shared(function: Any, size: int, symbol: str) -> None:
    """Let a function use so many bytes of dynamic shared memory, which is limited to 48 KiB otherwise."""
    attribute = raw().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    checked(raw().cuFuncSetAttribute(function, attribute, size), f"setting up {symbol}")


def launch(
    function: Any,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared: int,
    stream: int,
    arguments: list[int],
    cooperative: bool,
    symbol: str,
) -> None:
    """Launch with 8-byte arguments on the stream of a handle."""
    driver = raw()
    params = (tuple(arguments), (ctypes.c_uint64,) * len(arguments))
    where = driver.CUstream(stream)
    if cooperative:
        result = driver.cuLaunchCooperativeKernel(function, *grid, *block, shared, where, params)
    else:
        result = driver.cuLaunchKernel(function, *grid, *block, shared, where, params, 0)
    checked(result, f"launching {symbol}")


def resident_workgroups(function: Any, lanes: int, shared: int, symbol: str) -> int:
    """How many workgroups one multiprocessor holds at once."""
    result = raw().cuOccupancyMaxActiveBlocksPerMultiprocessor(function, lanes, shared)
    return int(checked(result, f"asking for the occupancy of {symbol}"))
