"""Copies between NumPy arrays and the GPU, through pinned memory where that is faster.

For pageable memory the driver fills a pinned buffer with one CPU core, several times slower than the
GPU reads it.  So a large array is cut into pieces: a few threads copy pieces to pinned memory while
earlier ones are transferred.  Results arrive in pinned memory, which the returned array then owns.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from .device import Device
from .driver import translated_errors
from .waiting import wait_until

__all__ = ["Staging", "from_device", "to_device"]

PIECE_BYTES = 4 << 20
PIECES = 16
THREADS = min(8, os.cpu_count() or 1)
LEAST_STAGED_BYTES = 16 << 20
"""Smaller arrays are left to the driver, whose own copy is as fast."""

LEAST_PINNED_BYTES = 1 << 20
MOST_PINNED_BYTES = 256 << 20
"""Larger results are pageable, since pinned memory cannot be used by other processes."""


def to_device(device: Device, pointer: int, source: np.ndarray, stream: Any) -> None:
    """Copy a contiguous array to `pointer`; the caller may change the array once this returns."""
    if not source.size:
        return
    raw = source.reshape(-1).view(np.uint8)
    with translated_errors(f"copying {raw.nbytes} bytes to the GPU"):
        if raw.nbytes < LEAST_STAGED_BYTES:
            device.cuda.memcpy_htod(pointer, raw)
            return
        Staging(device, -(-raw.nbytes // PIECE_BYTES)).copy(pointer, raw, stream)
        wait_until(stream.is_done)


class Staging:
    """A ring of pinned pieces for copies from pageable memory: threads fill pieces while earlier ones are on their way.

    `pieces`: as many as it will copy, if they are few.  The device's context must be current at every call.
    """

    def __init__(self, device: Device, pieces: int = PIECES) -> None:
        cuda = device.cuda
        self._device = device
        self._pieces = [
            device.pinned.allocate((PIECE_BYTES,), np.uint8) for _ in range(max(2, min(PIECES, pieces)))
        ]
        self._sent = [cuda.Event(cuda.event_flags.DISABLE_TIMING) for _ in self._pieces]
        self._next = 0

    def copy(self, pointer: int, raw: np.ndarray, stream: Any) -> None:
        """Enqueue a copy of bytes to `pointer`; the caller may change them once this returns."""
        pending: deque[tuple[int, int, Future[None]]] = deque()
        for start in range(0, raw.nbytes, PIECE_BYTES):
            if len(pending) == len(self._pieces) // 2:  # the other half stays in transfer
                self._send(pointer, raw, *pending.popleft(), stream)
            slot, self._next = self._next, (self._next + 1) % len(self._pieces)
            wait_until(self._sent[slot].query)
            part = raw[start : start + PIECE_BYTES]
            pending.append((start, slot, _threads().submit(np.copyto, self._pieces[slot][: len(part)], part)))
        while pending:
            self._send(pointer, raw, *pending.popleft(), stream)

    def _send(
        self, pointer: int, raw: np.ndarray, start: int, slot: int, filled: Future[None], stream: Any
    ) -> None:
        filled.result()
        size = min(PIECE_BYTES, raw.nbytes - start)
        self._device.cuda.memcpy_htod_async(pointer + start, self._pieces[slot][:size], stream)
        self._sent[slot].record(stream)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "vyre-transfer")


def from_device(
    device: Device, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], stream: Any
) -> np.ndarray:
    """A new array that will hold the bytes at `pointer` once `stream` has come so far.

    To copy to memory that is not pinned waits for the stream, in the driver: wait for the stream before.
    """
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    pinned = LEAST_PINNED_BYTES <= size <= MOST_PINNED_BYTES
    array: np.ndarray = device.pinned.allocate(shape, dtype) if pinned else np.empty(shape, dtype)
    if size:
        with translated_errors(f"copying {size} bytes from the GPU"):
            device.cuda.memcpy_dtoh_async(array, pointer, stream)
    return array
