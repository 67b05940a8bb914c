"""Workgroups over threads: each takes the next stretch of them, until none is left or one is at fault."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

__all__ = ["available", "copy", "run"]

MIN_INVOCATIONS = 1 << 14
"""A dispatch of fewer runs in the caller's thread; waking another takes some 20 us."""

STRETCHES_PER_THREAD = 8
MIN_COPY_BYTES = 1 << 21

Stretch = Callable[[int, int, int], bool]
"""(first workgroup, last, not included, number of the thread) -> whether to go on."""


def available() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=4)
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    """Kept for the process; a forked child has no threads and makes its own."""
    return ThreadPoolExecutor(workers, thread_name_prefix="vyre-cpu")


def run(workgroups: int, invocations: int, threads: int, stretch: Stretch) -> None:
    """Run all stretches.  Those before one at fault are run, those after it may not be."""
    threads = min(threads, workgroups)
    if threads == 1 or invocations < MIN_INVOCATIONS:
        stretch(0, workgroups, 0)
        return
    size = max(1, workgroups // (threads * STRETCHES_PER_THREAD))
    waiting = iter(range(0, workgroups, size))

    def work(thread: int) -> None:
        for first in waiting:  # one `next` is atomic
            if not stretch(first, min(first + size, workgroups), thread):
                return

    pool = _pool(threads - 1, os.getpid())
    others = [pool.submit(work, thread) for thread in range(1, threads)]
    work(0)
    for other in others:
        other.result()


def copy(array: np.ndarray, threads: int) -> np.ndarray:
    """A copy of a flat array; a large one is made by all threads, which shares its page faults."""
    if array.nbytes < MIN_COPY_BYTES or threads == 1:
        return array.copy()
    made = np.empty_like(array)
    size = -(-len(array) // threads)
    parts = [slice(start, start + size) for start in range(0, len(array), size)]
    pool = _pool(threads - 1, os.getpid())
    others = [pool.submit(np.copyto, made[part], array[part]) for part in parts[1:]]
    np.copyto(made[parts[0]], array[parts[0]])
    for other in others:
        other.result()
    return made
