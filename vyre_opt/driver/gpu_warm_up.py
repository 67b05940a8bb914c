"""The GPU's context, made while Python still imports what else a run needs.

The driver takes a fifth of a second to start and to make a context, and none of it is
Python's; importing NumPy takes as long.  The context is the one that every library of
the process shares, so whoever asks for it later finds it there.
"""

from __future__ import annotations

import ctypes
import sys
from threading import Thread

__all__ = ["begin"]


def begin(number: int = 0) -> Thread:
    """Start the driver and open GPU `number` in a thread of its own, which the process outlives.

    What fails is not reported: it fails again where the GPU is first needed, and is reported there.
    """
    thread = Thread(target=_open, args=(number,), name="vyre-head-start")
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
