"""A free list for the memory of large results.

Fresh pages of the system cost a page fault each, and `free` gives those of a large array back: a program
that only writes its result would spend most of its time there.  So the memory of a large array that
was dropped is kept for the next array of about its size.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

__all__ = ["address", "empty"]

MIN_BYTES = 1 << 18
"""Smaller arrays are left to the C library, whose heap keeps their memory itself."""

MAX_KEPT_BYTES = 1 << 28
MAX_KEPT = 32
"""The most bytes and blocks on the free list."""

_GRAIN = 1 << 16
"""Sizes are multiples of this, so that arrays of about the same size fit the same blocks."""

_address_of, _start_of = ctypes.addressof, ctypes.c_char.from_buffer

_free: dict[int, np.ndarray] = {}
"""Address -> free block, oldest first.

An array may be dropped at any point, in another thread or amid these functions; so they take no lock, on which
a thread could deadlock with itself, and use single operations of a dict instead.
"""


class _Lease:
    """The base of an array and all its views; when the last of them is dropped, it frees the memory."""

    __slots__ = ("__array_interface__", "address", "memory")

    def __init__(self, memory: np.ndarray, count: int, dtype: np.dtype[Any]) -> None:
        self.memory = memory
        self.address: int = memory.ctypes.data
        data = (self.address, False)
        self.__array_interface__ = {"version": 3, "shape": (count,), "typestr": dtype.str, "data": data}

    # a default argument, since globals may be gone by the time the interpreter ends
    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # Ctrl-C may have ended __init__ at its first line; then the block belongs to no array and is not kept
        address = getattr(self, "address", None)
        if address is not None and not is_finalizing():
            _release(address, self.memory)


def empty(count: int, dtype: np.dtype[Any]) -> np.ndarray:
    """An uninitialised flat array; one of more than MAX_KEPT_BYTES has zeros.  Raises what `np.empty` does."""
    needed = count * dtype.itemsize
    if needed < MIN_BYTES:
        return np.empty(count, dtype)
    if needed > MAX_KEPT_BYTES:  # never on the free list; zero pages that nobody touches cost nothing
        return _allocated(partial(np.zeros, count, dtype))
    size = -(-needed // _GRAIN) * _GRAIN
    memory = _reuse(size)
    if memory is None:
        memory = _allocated(partial(np.empty, size, np.uint8))
    return np.asarray(_Lease(memory, count, dtype))


def address(array: Any) -> int:
    """The address of a flat array: `array.ctypes.data`, which takes three times as long."""
    try:
        return _address_of(_start_of(array))
    except (
        TypeError,
        ValueError,
    ):  # ctypes takes no array that is empty or read-only, and of a memoryview nothing
        return int(np.asarray(array).ctypes.data)


def _allocated(allocate: Callable[[], np.ndarray]) -> np.ndarray:
    try:
        return allocate()
    except MemoryError:  # the free list may hold what is missing
        _free.clear()
        return allocate()


def _reuse(size: int) -> np.ndarray | None:
    """A free block of that size, the latest first: it may still be in a CPU cache."""
    for address in reversed(tuple(_free)):
        memory = _free.get(address)
        # only who pops a block owns it: another thread may have taken it since the look
        if memory is not None and len(memory) == size and _free.pop(address, None) is not None:
            return memory
    return None


def _release(address: int, memory: np.ndarray) -> None:
    """Put a block on the free list, and drop its oldest blocks while it is too long."""
    _free[address] = memory
    addresses = tuple(_free)
    total = sum(len(block) for address in addresses if (block := _free.get(address)) is not None)
    for number, oldest in enumerate(addresses):
        if total <= MAX_KEPT_BYTES and len(addresses) - number <= MAX_KEPT:
            return
        dropped = _free.pop(oldest, None)
        total -= 0 if dropped is None else len(dropped)
