"""The CUDA driver through PyCUDA, loaded when it is first needed; its errors become sentences with advice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

from ...execution.dispatcher import BackendError, UnavailableTarget

__all__ = ["FORKED", "explain", "load", "translated", "translated_errors"]

INSTALL = f"pip install '{__name__.partition('.')[0].replace('_', '-')}[cuda]' (PyCUDA is built at install, against a CUDA toolkit)"

# Parts of the driver's messages for errors after which the context of the process is unusable
_FATAL = (
    "illegal memory access",
    "illegal address",
    "misaligned address",
    "illegal instruction",
    "unspecified launch failure",
    "launch failed",
    "hardware stack error",
    "invalid program counter",
    "invalid address space",
    "device-side assert",
    "launch timed out",
)


FORKED = "initialization error"
"""Message of the driver in the child of a process that has used it."""


@cache
def load() -> ModuleType:
    """PyCUDA's driver module, initialised.  Raises UnavailableTarget with what is missing."""
    try:
        import pycuda.driver as cuda
    except ModuleNotFoundError as missing:
        raise UnavailableTarget(
            f"the cuda target needs the package {(missing.name or 'pycuda').partition('.')[0]}: {INSTALL}; "
            "the cpu target needs neither"
        ) from None
    except ImportError as broken:
        raise UnavailableTarget(
            f"PyCUDA does not load: {broken}; if it is libcuda that is missing, install the NVIDIA driver; "
            "if PyCUDA was built for another toolkit, install it again"
        ) from None
    try:
        cuda.init()
        count = cuda.Device.count()
    except cuda.Error as error:
        raise UnavailableTarget(
            f"the CUDA driver does not start: {error}; see whether nvidia-smi shows a GPU, or use the cpu target"
        ) from None
    if not count:
        raise UnavailableTarget(
            "the CUDA driver finds no GPU; see nvidia-smi, CUDA_VISIBLE_DEVICES, or use the cpu target"
        )
    module: ModuleType = cuda
    return module


@contextmanager
def translated_errors(doing: str) -> Iterator[None]:
    """Turn errors of the driver into BackendErrors, which say what was going on (`doing`) and what to do."""
    try:
        yield
    except load().Error as error:
        raise translated(error, doing) from error


def translated(error: Exception, doing: str) -> BackendError:
    """The BackendError that an error of PyCUDA becomes."""
    cuda: Any = load()
    if isinstance(error, cuda.MemoryError):
        return BackendError(f"out of GPU memory while {doing}: {_memory_advice(cuda)}")
    return BackendError(explain(str(error), doing))


def explain(message: str, doing: str) -> str:
    """A driver's message as a sentence with advice."""
    lower = message.lower()
    if "unsupported" in lower and ("ptx" in lower or "toolchain" in lower):
        return (
            f"the driver does not take this PTX version while {doing}: {message}; "
            "ask for an older one (ptx_version=), or update the driver"
        )
    if any(part in lower for part in _FATAL):
        return (
            f"a kernel broke the CUDA context while {doing}: {message}; no GPU work of this process can go on, "
            "so start a new one; with bounds='trap', or under compute-sanitizer, the access to blame is found"
        )
    if FORKED in lower:
        return (
            f"the CUDA driver is not initialised while {doing}: the process was forked after it had used a GPU, which "
            "does not go over to the child; start new processes instead (multiprocessing's method is spawn)"
        )
    if "too large" in lower and "cooperative" in lower:
        return f"the grid is too large for a grid barrier while {doing}: {message}; use fewer workgroups"
    return f"CUDA failed while {doing}: {message}"


def _memory_advice(cuda: Any) -> str:
    try:
        free, total = cuda.mem_get_info()
    except cuda.Error:
        return "use smaller arrays, or free others"
    mib = 1 << 20
    return f"{free // mib} MiB of {total // mib} MiB are free; use smaller arrays, or free others"
