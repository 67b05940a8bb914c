"""Memory of large results, taken again when nobody has it any more.

The system gives fresh pages one fault at a time, and takes them back when a large array goes: a
program that writes its result as fast as memory takes it spends most of its time there.  So the
memory of a large array that is gone is kept for the next one of about its size.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["address", "empty"]

MIN_BYTES = 1 << 20
"""Below, the C library's own heap does as well, and at less cost."""

MAX_KEPT_BYTES = 1 << 28
MAX_KEPT = 32
"""What is kept without an owner, at most."""

_GRAIN = 1 << 16

_address_of, _start_of = ctypes.addressof, ctypes.c_char.from_buffer

_kept: dict[int, np.ndarray] = {}
"""By address, oldest first.  A lease may end anywhere, in another thread or amid these functions, so
they rely on single operations of a dict, and on no lock."""


class _Lease:
    """What an array and all its views keep alive; at its end the memory may be taken again."""

    __slots__ = ("__array_interface__", "address", "memory")

    def __init__(self, memory: np.ndarray, count: int, dtype: np.dtype[Any]) -> None:
        self.memory = memory
        self.address: int = memory.ctypes.data
        place = (self.address, False)
        self.__array_interface__ = {"version": 3, "shape": (count,), "typestr": dtype.str, "data": place}

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():
            _keep(self.address, self.memory)


def empty(count: int, dtype: np.dtype[Any]) -> np.ndarray:
    """A flat array that holds anything; raises as `np.empty` does."""
    wanted = count * dtype.itemsize
    if wanted < MIN_BYTES:
        return np.empty(count, dtype)
    size = -(-wanted // _GRAIN) * _GRAIN
    memory = _taken(size)
    if memory is None:
        try:
            memory = np.empty(size, np.uint8)
        except MemoryError:  # what is kept may be what is missing
            _kept.clear()
            memory = np.empty(size, np.uint8)
    return np.asarray(_Lease(memory, count, dtype))


def address(array: Any) -> int:
    """`array.ctypes.data`, which takes three times as long, of a flat array that may be written."""
    try:
        return _address_of(_start_of(array))
    except (TypeError, ValueError):  # it may not, or is empty
        return int(array.ctypes.data)


def _taken(size: int) -> np.ndarray | None:
    """Kept memory of that size, the latest first: it may still be in a cache."""
    for address in reversed(tuple(_kept)):
        memory = _kept.get(address)
        if memory is not None and len(memory) == size and _kept.pop(address, None) is not None:
            return memory
    return None


def _keep(address: int, memory: np.ndarray) -> None:
    """Keep memory; the oldest goes where that is too much."""
    _kept[address] = memory
    addresses = tuple(_kept)
    total = sum(len(found) for address in addresses if (found := _kept.get(address)) is not None)
    for number, oldest in enumerate(addresses):
        if total <= MAX_KEPT_BYTES and len(addresses) - number <= MAX_KEPT:
            return
        dropped = _kept.pop(oldest, None)
        total -= 0 if dropped is None else len(dropped)
