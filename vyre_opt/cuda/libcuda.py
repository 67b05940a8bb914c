"""The driver's own library, for what PyCUDA keeps to itself: functions of modules, by their handles."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache

from ..ir.program import Dim3
from ..runtime.dispatcher import BackendError
from .driver import explain

__all__ = [
    "allow_shared",
    "check",
    "current_context",
    "error_text",
    "function_of",
    "is_capturing",
    "is_done",
    "is_pinned",
    "launch",
    "library",
    "load_module",
    "prefer_shared",
    "resident_workgroups",
]

_OPTIMIZATION_LEVEL = 7
"""CU_JIT_OPTIMIZATION_LEVEL"""

_MEMORY_TYPE, _HOST = 2, 1
"""CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_MEMORYTYPE_HOST"""

_NOT_READY = 600
"""CUDA_ERROR_NOT_READY"""

_MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"""

_PREFERRED_CARVEOUT = 9
"""CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT"""

_NON_PORTABLE_CLUSTER = 14
"""CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED"""


@cache
def library() -> ctypes.CDLL:
    """The loaded library; a driver that PyCUDA has started has one."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def error_text(code: int, doing: str) -> str:
    """An error code of the driver as a sentence with advice."""
    words = ctypes.c_char_p()
    library().cuGetErrorString(code, ctypes.byref(words))
    return explain((words.value or b"error %d" % code).decode(), doing)


def load_module(code: bytes, level: int | None, names: str) -> int:
    """The handle of a module; the context must be current.

    `code`: PTX that ends in a zero byte.  `level`: of the driver's optimisation, 0 to 4; None for its default.
    `names`: of the programs, for messages.  Raises BackendError.
    """
    module = ctypes.c_void_p()
    options = (ctypes.c_int * 1)(_OPTIMIZATION_LEVEL)
    values = (ctypes.c_void_p * 1)(level)
    count = 0 if level is None else 1
    result = library().cuModuleLoadDataEx(ctypes.byref(module), code, count, options, values)
    check(result, f"loading {names}")
    return module.value or 0


def function_of(module: int, symbol: str) -> int:
    """The handle of a function of a module.  Raises BackendError."""
    function = ctypes.c_void_p()
    result = library().cuModuleGetFunction(ctypes.byref(function), ctypes.c_void_p(module), symbol.encode())
    check(result, f"finding {symbol}")
    return function.value or 0


def allow_shared(function: int, size: int, symbol: str) -> None:
    """Let a function use so many bytes of dynamic shared memory, which is limited to 48 KiB otherwise."""
    result = library().cuFuncSetAttribute(ctypes.c_void_p(function), _MAX_DYNAMIC_SHARED, size)
    check(result, f"setting up {symbol}")


def prefer_shared(function: int, percent: int, symbol: str) -> None:
    """Ask that so much of a multiprocessor's L1 cache is shared memory where a function runs; a GPU need not comply."""
    result = library().cuFuncSetAttribute(ctypes.c_void_p(function), _PREFERRED_CARVEOUT, percent)
    check(result, f"setting up {symbol}")


def allow_wide_cluster(function: int, symbol: str) -> None:
    """Let the workgroups of a function form a cluster of more than 8, which not all GPUs take.  Raises BackendError."""
    result = library().cuFuncSetAttribute(ctypes.c_void_p(function), _NON_PORTABLE_CLUSTER, 1)
    check(result, f"setting up {symbol}")


def launch(
    function: int,
    grid: Dim3,
    workgroup: Dim3,
    shared_bytes: int,
    stream: int,
    arguments: Sequence[int],
    is_cooperative: bool,
    symbol: str,
) -> None:
    """Launch with 8-byte arguments on the stream of a handle; the context must be current.  Raises BackendError."""
    words = (ctypes.c_uint64 * len(arguments))(*arguments)
    base = ctypes.addressof(words)
    params = (ctypes.c_void_p * len(arguments))(*(base + 8 * place for place in range(len(arguments))))
    sizes = [*grid, *workgroup, shared_bytes]
    call = library().cuLaunchCooperativeKernel if is_cooperative else library().cuLaunchKernel
    extra = [] if is_cooperative else [None]
    result = call(ctypes.c_void_p(function), *sizes, ctypes.c_void_p(stream), params, *extra)
    check(result, f"launching {symbol}")


def resident_workgroups(function: int, lanes: int, shared_bytes: int, symbol: str) -> int:
    """How many workgroups of so many lanes one multiprocessor holds at once.  Raises BackendError."""
    count = ctypes.c_int()
    size = ctypes.c_size_t(shared_bytes)
    occupancy = library().cuOccupancyMaxActiveBlocksPerMultiprocessor
    result = occupancy(ctypes.byref(count), ctypes.c_void_p(function), lanes, size)
    check(result, f"asking for the occupancy of {symbol}")
    return count.value


def is_capturing(stream: int) -> bool:
    """Whether work on the stream of a handle is recorded into a graph; the context must be current."""
    status = ctypes.c_int()
    result = library().cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(status))
    return not result and bool(status.value)


def is_done(stream: int) -> bool:
    """Whether all work on the stream of a handle is done; the context must be current.  Raises BackendError."""
    code = library().cuStreamQuery(ctypes.c_void_p(stream))
    if code == _NOT_READY:
        return False
    check(code, "waiting for the GPU")
    return True


def is_pinned(pointer: int) -> bool:
    """Whether an address of main memory is in pinned memory, which a GPU copies from by itself; a context must be current."""
    kind = ctypes.c_uint()
    code = library().cuPointerGetAttribute(ctypes.byref(kind), _MEMORY_TYPE, ctypes.c_uint64(pointer))
    return not code and kind.value == _HOST  # memory that CUDA does not know is an error


def current_context() -> int:
    """The handle of the current context, 0 for none."""
    context = ctypes.c_void_p()
    library().cuCtxGetCurrent(ctypes.byref(context))
    return context.value or 0


def check(code: int, doing: str) -> None:
    """Raises BackendError for an error code."""
    if code:
        raise BackendError(error_text(code, doing))
