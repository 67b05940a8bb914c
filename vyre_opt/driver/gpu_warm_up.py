"""Creates the GPU's context in a thread, while Python imports the other modules of a run.

The driver needs 0.2 s to start and to create a context, without holding Python's lock; importing
NumPy takes as long.  It is the primary context, which all libraries of the process share, so that
it is there when one of them asks for it.
"""

from __future__ import annotations

import ctypes
import sys
from threading import Thread

__all__ = ["begin"]


def begin(number: int = 0) -> Thread:
    """Start the driver and open GPU `number` in a thread of its own.

    An error is not reported: it occurs again where the GPU is first needed, and is reported there.
    """
    thread = Thread(target=_open, args=(number,), name="vyre-gpu-warm-up")
    thread.start()
    return thread


def _open(number: int) -> None:
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), number) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
