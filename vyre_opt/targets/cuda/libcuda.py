"""Calls of the driver that PyCUDA does not offer, through the driver's own library.

    graphs                       recorded from a stream, and made of nodes by the compiled launcher
    handles of functions         which graphs and the compiled launcher take
    streams of other libraries   launches, copies and clearing on them: PyCUDA takes its own streams only
    cooperative launches
    questions                    occupancy, whether a stream is done or being recorded, whether memory is pinned

Everything else goes through PyCUDA: modules are loaded and kernels launched in kernels.py and queues.py.
A stream, a function, a graph is a handle here, an int.  The context must be current.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache

from ...execution.dispatcher import BackendError
from ...ir.program import Dim3
from .driver import explain

__all__ = [
    "KernelParams",
    "check",
    "clear",
    "copy",
    "drop_executable",
    "drop_graph",
    "error_text",
    "function_of",
    "instantiate",
    "is_capturing",
    "is_done",
    "is_pinned",
    "launch",
    "launch_graph",
    "library",
    "recording",
    "resident_workgroups",
]

_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED."""

_MEMORY_TYPE, _HOST = 2, 1
"""CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_MEMORYTYPE_HOST."""

_NOT_READY = 600
"""CUDA_ERROR_NOT_READY."""

_LAUNCH = (c_void_p, *[c_uint] * 7, c_void_p, c_void_p)
_ARGUMENTS: dict[str, tuple[type, ...]] = {
    "cuGetErrorString": (c_int, c_void_p),
    "cuLaunchKernel": (*_LAUNCH, c_void_p),
    "cuLaunchCooperativeKernel": _LAUNCH,
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemsetD8Async": (c_uint64, ctypes.c_ubyte, c_size_t, c_void_p),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (c_void_p, c_void_p, c_int, c_size_t),
    "cuPointerGetAttribute": (c_void_p, c_int, c_uint64),
    "cuStreamIsCapturing": (c_void_p, c_void_p),
    "cuStreamQuery": (c_void_p,),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, c_void_p),
    "cuGraphGetNodes": (c_void_p, c_void_p, c_void_p),
    "cuGraphKernelNodeGetParams": (c_void_p, c_void_p),
    "cuGraphCreate": (c_void_p, c_uint),
    "cuGraphAddKernelNode": (c_void_p, c_void_p, c_void_p, c_size_t, c_void_p),
    "cuGraphInstantiateWithFlags": (c_void_p, c_void_p, c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
}
"""The types of the arguments of what is called from Python."""


@cache
def library() -> ctypes.CDLL:
    """The loaded library; a driver that PyCUDA has started has one."""
    driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    for name, types in _ARGUMENTS.items():
        getattr(driver, name).argtypes = types
    return driver


def error_text(code: int, doing: str) -> str:
    """An error code of the driver as a sentence with advice."""
    words = ctypes.c_char_p()
    library().cuGetErrorString(code, byref(words))
    return explain((words.value or b"error %d" % code).decode(), doing)


def check(code: int, doing: str) -> None:
    """Raises BackendError for an error code."""
    if code:
        raise BackendError(error_text(code, doing))


# --- launches, copies


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
    """Launch with 8-byte arguments.  Raises BackendError."""
    words = (c_uint64 * len(arguments))(*arguments)
    base = ctypes.addressof(words)
    params = (c_void_p * len(arguments))(*range(base, base + 8 * len(arguments), 8))
    sizes = [*grid, *workgroup, shared_bytes]
    call = library().cuLaunchCooperativeKernel if is_cooperative else library().cuLaunchKernel
    extra = [] if is_cooperative else [None]
    check(call(function, *sizes, stream, params, *extra), f"launching {symbol}")


def copy(target: int, source: int, size: int, stream: int) -> None:
    """Copy from device memory to device memory.  Raises BackendError."""
    check(library().cuMemcpyDtoDAsync_v2(target, source, size, stream), f"copying {size} bytes")


def clear(target: int, size: int, stream: int) -> None:
    """Set bytes of device memory to 0.  Raises BackendError."""
    check(library().cuMemsetD8Async(target, 0, size, stream), f"clearing {size} bytes")


# --- graphs


class KernelParams(ctypes.Structure):
    """A kernel of a graph: CUDA_KERNEL_NODE_PARAMS_v1.

    `sizes`: grid x y z, workgroup x y z, dynamic shared bytes.  `arguments`: the address of the addresses of its
    arguments.
    """

    _fields_ = [
        ("function", c_void_p),
        ("sizes", c_uint * 7),
        ("arguments", c_void_p),
        ("extra", c_void_p),
    ]


@contextmanager
def recording(stream: int) -> Iterator[c_void_p]:
    """Record the body's submissions to a stream as a graph instead of running them; it is complete, and the caller's, at the end.

    Raises BackendError.
    """
    graph = c_void_p()
    check(library().cuStreamBeginCapture_v2(stream, _RELAXED), "starting to record a graph")
    try:
        yield graph
    except BaseException:
        # else the stream would stay in capture mode, and every later use of it fail
        library().cuStreamEndCapture(stream, byref(graph))
        raise
    check(library().cuStreamEndCapture(stream, byref(graph)), "recording a graph")


def instantiate(graph: c_void_p) -> int:
    """The handle of what launches a graph, as the graph is now.  Raises BackendError."""
    executable = c_void_p()
    check(library().cuGraphInstantiateWithFlags(byref(executable), graph, 0), "instantiating a graph")
    return executable.value or 0


def function_of(graph: c_void_p) -> int:
    """The handle of the function that a graph of one kernel launches.  Raises BackendError."""
    node, count, params = c_void_p(), c_size_t(1), KernelParams()
    check(library().cuGraphGetNodes(graph, byref(node), byref(count)), "reading a graph")
    check(library().cuGraphKernelNodeGetParams(node, byref(params)), "reading a kernel of a graph")
    return params.function or 0


def launch_graph(executable: int, stream: int) -> None:
    """Raises BackendError."""
    check(library().cuGraphLaunch(executable, stream), "replaying a graph")


def drop_graph(graph: c_void_p) -> None:
    """Free what `recording` gave."""
    library().cuGraphDestroy(graph)


def drop_executable(executable: int) -> None:
    """Free what `instantiate` gave; launches of it that were submitted still run to their end."""
    library().cuGraphExecDestroy(executable)


# --- questions


def resident_workgroups(function: int, lanes: int, shared_bytes: int, symbol: str) -> int:
    """Number of workgroups of so many lanes that one multiprocessor holds at once.  Raises BackendError."""
    count = c_int()
    occupancy = library().cuOccupancyMaxActiveBlocksPerMultiprocessor
    result = occupancy(byref(count), function, lanes, shared_bytes)
    check(result, f"asking for the occupancy of {symbol}")
    return count.value


def is_capturing(stream: int) -> bool:
    """Whether work on a stream is recorded into a graph."""
    status = c_int()
    result = library().cuStreamIsCapturing(stream, byref(status))
    return not result and bool(status.value)


def is_done(stream: int) -> bool:
    """Whether all work on a stream is done.  Raises BackendError."""
    code = library().cuStreamQuery(stream)
    if code == _NOT_READY:
        return False
    check(code, "waiting for the GPU")
    return True


def is_pinned(pointer: int) -> bool:
    """Whether an address of main memory is in pinned memory, which a GPU copies from by itself."""
    kind = c_uint()
    code = library().cuPointerGetAttribute(byref(kind), _MEMORY_TYPE, pointer)
    return not code and kind.value == _HOST  # memory that CUDA does not know is an error
