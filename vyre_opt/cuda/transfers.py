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

__all__ = ["from_device", "to_device"]

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
        _staged(device, pointer, raw, stream)


def _staged(device: Device, pointer: int, raw: np.ndarray, stream: Any) -> None:
    """Copy by way of a ring of pinned pieces; each is filled again once the copy from it is done."""
    cuda = device.cuda
    starts = range(0, raw.nbytes, PIECE_BYTES)
    pieces = [device.pinned.allocate((PIECE_BYTES,), np.uint8) for _ in starts[:PIECES]]
    sent = [cuda.Event(cuda.event_flags.DISABLE_TIMING) for _ in pieces]

    def fill(number: int) -> Future[None]:
        start = starts[number]
        part = raw[start : start + PIECE_BYTES]
        return _threads().submit(np.copyto, pieces[number % PIECES][: len(part)], part)

    filling = deque(fill(number) for number in range(len(pieces)))
    for number, start in enumerate(starts):
        filling.popleft().result()
        slot = number % PIECES
        size = min(PIECE_BYTES, raw.nbytes - start)
        cuda.memcpy_htod_async(pointer + start, pieces[slot][:size], stream)
        sent[slot].record(stream)
        later = number + PIECES // 2  # half of the ring stays in transfer
        if later >= PIECES and later < len(starts):
            # the last transfer out of this piece must be over before it is filled again
            wait_until(sent[later % PIECES].query)
            filling.append(fill(later))
    wait_until(stream.is_done)


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
