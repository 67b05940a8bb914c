"""Workgroups over threads: as many as the work is worth, each taking the next stretch until none is left.

What a workgroup takes nobody knows before: where the bytes do not promise enough work for all threads,
the caller begins alone, and calls as many others as the time of its first workgroups asks for.
"""

from __future__ import annotations

from array import array
from time import perf_counter

import numpy as np

from . import blocks
from .crew import SPIN_NS, Job, available, copy_code, crew, work_function
from .crew_work import COPIED_BYTES
from .jit import Loaded

__all__ = ["available", "copy", "copy_to", "run", "share"]

BYTES_PER_THREAD, DRAWN_BYTES_PER_THREAD = 1 << 18, 1 << 17
SECONDS_PER_THREAD = 1.5e-5
"""Work that is worth a thread: several times what one costs that is awake."""

SHORT, SHORT_AWAKE = 1e-4, 4e-5
"""Seconds of work that are left to one thread: the others may be asleep, and would come too late for it.
Less is left to it soon after a call: they are awake, or it pays to wake them for the calls to come."""

CALL = 1e-6
"""Seconds of a call in any case."""

FIRST_INVOCATIONS, NEXT_PART = 1 << 12, 8
"""One thread tries so many, a 64th of all at most, then NEXT_PART times as many, and so on."""

STRETCHES_PER_THREAD = 8
STRETCH_INVOCATIONS = 1 << 16
STRETCH_BYTES = 1 << 23
"""At most so much in a stretch, which nothing interrupts."""

SLICE = 0.02
"""Seconds that the caller works before it looks for signals."""

AT_ONCE = 4
"""Stretches that the caller takes then; they grow with what is done, so more could take far longer."""

MIN_COPY_BYTES = 1 << 21


_ended = 0.0
"""When the last call did."""


def run(
    loaded: Loaded,
    args: array[int],
    workgroups: int,
    lanes: int,
    touched: int,
    workers: int,
    room_bytes: int,
    draws: bool,
) -> list[int] | None:
    """Run all workgroups, of `lanes` invocations; the fault record of the first that has any.

    Those before one at fault are run, those after it may not be.  `touched`: bytes of the largest
    buffer.  `workers`: threads at most.  `args`, `room_bytes`: see lowering.host.  `draws`: a workgroup
    may go on until nothing is left for the others.
    """
    global _ended
    done, threads = 0, min(workers, workgroups)
    if draws and touched >= 2 * DRAWN_BYTES_PER_THREAD:  # the first would do everything, and show nothing
        threads = min(threads, touched // DRAWN_BYTES_PER_THREAD)
    elif touched // BYTES_PER_THREAD < threads:
        job = Job(loaded.address, args, 0, workgroups, 1, 1, room_bytes)
        first = max(1, min(workgroups // 64, FIRST_INVOCATIONS // lanes))
        done, seconds = _alone(job, loaded, first, workgroups)
        if done == workgroups:
            _ended = perf_counter()
            return job.fault()
        threads = min(workers, workgroups - done, 1 + int(seconds / SECONDS_PER_THREAD))
    per_group = touched // workgroups
    largest = min(STRETCH_INVOCATIONS // lanes, STRETCH_BYTES // per_group if per_group else workgroups)
    size = max(1, min((workgroups - done) // (threads * STRETCHES_PER_THREAD), largest))
    job = Job(loaded.address, args, done, workgroups, size, threads, room_bytes)
    share(job)
    _ended = perf_counter()
    return job.fault()


def _alone(job: Job, loaded: Loaded, part: int, workgroups: int) -> tuple[int, float]:
    """Run workgroups in this thread, `part` first, for as long as the others seem to take little time.

    How many are done, all after a fault, and the seconds that the others may take.
    """
    done, short = 0, SHORT
    while True:
        begun = perf_counter()
        if not done and begun - _ended < SPIN_NS * 1e-9:
            short = SHORT_AWAKE
        job.run(loaded, done, done + part)
        done += part
        if done == workgroups or job.is_at_fault(0):
            return workgroups, 0.0
        left = (perf_counter() - begun - CALL) / part * (workgroups - done)
        if left > short:
            return done, left
        part = min(NEXT_PART * part, workgroups - done)


def share(job: Job) -> None:
    """Run a job with others.  When it returns or raises, none of them may touch it any more."""
    others, work, address = crew(), work_function(), job.address
    abandon, is_left = others.abandon, False
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
        is_left = True  # a signal before this costs a call that finds nothing to do
    finally:
        if not is_left:
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
    threads = min(max(1, given.nbytes // BYTES_PER_THREAD), workers)
    share(Job(copy_code(), args, 0, -(-given.nbytes // COPIED_BYTES), 1, threads, 0))
