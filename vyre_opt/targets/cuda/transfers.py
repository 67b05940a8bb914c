"""Copies between NumPy arrays and the GPU, through pinned memory where that is faster.

For pageable memory the driver fills a pinned buffer with one CPU core, several times slower than the
GPU reads it.  So a large array is cut into pieces, which all cores copy to pinned memory while earlier ones
are transferred.  Results arrive in pinned memory, which the returned array then owns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .device import Device
from .driver import translated_errors
from .host_copy import copy_bytes
from .waiting import wait_until

__all__ = ["Staging", "copy_back", "from_device", "to_device"]

PIECE_BYTES = 16 << 20
PIECES = 4
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
    """A ring of pinned pieces for copies from pageable memory: one is filled by all threads of the CPU while others are on
    their way.

    `pieces`: as many as it will copy, if they are few.  The device's context must be current at every call.
    """

    def __init__(self, device: Device, pieces: int = PIECES) -> None:
        cuda, count = device.cuda, min(PIECES, pieces)
        self._device = device
        self._pieces = [device.pinned.allocate((PIECE_BYTES,), np.uint8) for _ in range(count)]
        self._sent = [cuda.Event(cuda.event_flags.DISABLE_TIMING) for _ in self._pieces]
        self._next = 0

    def copy(self, pointer: int, raw: np.ndarray, stream: Any) -> None:
        """Enqueue a copy of bytes to `pointer`; the caller may change them once this returns."""
        for start in range(0, raw.nbytes, PIECE_BYTES):
            part = raw[start : start + PIECE_BYTES]
            piece, sent = self._pieces[self._next][: len(part)], self._sent[self._next]
            self._next = (self._next + 1) % len(self._pieces)
            wait_until(sent.query)  # what was in the piece before is on the GPU
            copy_bytes(part, piece)
            self._device.cuda.memcpy_htod_async(pointer + start, piece, stream)
            sent.record(stream)


def copy_back(device: Device, pairs: Sequence[tuple[int, np.ndarray]], stream: Any) -> None:
    """Copy the bytes at pointers to arrays, once `stream` has come so far; waits for that."""
    wait_until(stream.is_done)
    for pointer, target in pairs:
        if not target.nbytes:
            continue
        with translated_errors(f"copying {target.nbytes} bytes from the GPU"):
            if target.nbytes < LEAST_PINNED_BYTES:
                device.cuda.memcpy_dtoh(target, pointer)
                continue
            pinned = device.pinned.allocate((min(target.nbytes, PIECE_BYTES),), np.uint8)
            raw = target.view(np.uint8)
            for start in range(0, raw.nbytes, PIECE_BYTES):
                part = raw[start : start + PIECE_BYTES]
                device.cuda.memcpy_dtoh_async(pinned[: len(part)], pointer + start, stream)
                wait_until(stream.is_done)
                copy_bytes(pinned[: len(part)], part)


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
