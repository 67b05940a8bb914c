"""Workgroups over threads: as many as the work is worth, each taking the next stretch until none is left."""

from __future__ import annotations

from array import array
from time import perf_counter

import numpy as np

from . import blocks
from .crew import Job, available, copy_code, crew, work_function
from .crew_code import COPIED_BYTES
from .jit import Loaded

__all__ = ["available", "copy", "copy_to", "run", "share", "worth"]

INVOCATIONS_PER_THREAD = 1 << 13
BYTES_PER_THREAD = 1 << 17
"""Work that is worth a thread, some 10 to 20 us of it: what a thread costs that is awake."""

SHORT = 2e-4
"""Seconds in which one thread may finish what seemed little."""

STRETCHES_PER_THREAD = 8
STRETCH_INVOCATIONS = 1 << 16
STRETCH_BYTES = 1 << 23
"""At most so much in a stretch, which nothing interrupts."""

SLICE = 0.02
"""Seconds that the caller works before it looks for signals."""

AT_ONCE = 4
"""Stretches that the caller takes then; they grow with what is done, so more could take far longer."""

MIN_COPY_BYTES = 1 << 21


def run(
    loaded: Loaded,
    args: array[int],
    workgroups: int,
    lanes: int,
    touched: int,
    workers: int,
    room_bytes: int,
) -> list[int] | None:
    """Run all workgroups, of `lanes` invocations; the fault record of the first that has any.

    Those before one at fault are run, those after it may not be.  `touched`: bytes of the largest
    buffer.  `workers`: threads at most.  `args`, `room_bytes`: see lowering.host.
    """
    threads = min(worth(workgroups * lanes, touched), workgroups, workers)
    done = 0
    if threads == 1:
        job = Job(loaded.address, args, 0, workgroups, 1, 1, room_bytes)
        done = _alone(job, loaded, workgroups)
        if done == workgroups:
            return job.fault()
        threads = min(workers, workgroups - done)
    per_group = touched // workgroups
    largest = min(STRETCH_INVOCATIONS // lanes, STRETCH_BYTES // per_group if per_group else workgroups)
    size = max(1, min((workgroups - done) // (threads * STRETCHES_PER_THREAD), largest))
    job = Job(loaded.address, args, done, workgroups, size, threads, room_bytes)
    share(job)
    return job.fault()


def _alone(job: Job, loaded: Loaded, workgroups: int) -> int:
    """Run workgroups in this thread: all, or the first few if they take long.  How many; all, after a fault."""
    for done in range(min(2, workgroups)):  # what comes first may wait for memory
        begun = perf_counter()
        job.run(loaded, done, done + 1)
        if job.is_at_fault(0) or done + 1 == workgroups:
            return workgroups
        if (perf_counter() - begun) * workgroups <= SHORT:
            job.run(loaded, done + 1, workgroups)
            return workgroups
    return 2


def worth(invocations: int, touched: int) -> int:
    """How many threads work is worth."""
    return max(1, invocations // INVOCATIONS_PER_THREAD, touched // BYTES_PER_THREAD)


def share(job: Job) -> None:
    """Run a job with others.  When it returns or raises, none of them may touch it any more."""
    others, work, address = crew(), work_function(), job.address
    abandon = others.abandon
    try:
        if job.threads > 1:
            others.start(job, job.threads - 1)
        begun = perf_counter()
        while not work(address, 0, AT_ONCE):
            now = perf_counter()
            if now - begun > SLICE:
                job.shrink(SLICE / (now - begun))
            begun = now
        while job.threads > 1 and not others.finish(job):
            pass
    finally:
        abandon(address)  # one call of machine code, so that no second signal comes between


def copy(given: np.ndarray, workers: int) -> np.ndarray:
    """A copy of a flat array; a large one is made by several threads, which share its page faults."""
    if given.nbytes < MIN_COPY_BYTES:
        return given.copy()
    made = blocks.empty(given.size, given.dtype)
    copy_to(made, given, workers)
    return made


def copy_to(made: np.ndarray, given: np.ndarray, workers: int) -> None:
    """Copy the bytes of a contiguous array to another."""
    args = array("Q", [made.ctypes.data, given.ctypes.data, given.nbytes])
    threads = min(worth(0, given.nbytes), workers)
    share(Job(copy_code(), args, 0, -(-given.nbytes // COPIED_BYTES), 1, threads, 0))
