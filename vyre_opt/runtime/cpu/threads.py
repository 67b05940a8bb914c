"""Workgroups over threads: as many as the work is worth, each taking the next stretch until none is left.

What a workgroup takes nobody knows before: where the bytes do not promise enough work for all threads,
the caller begins alone, and calls as many others as the time of its first workgroups asks for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from . import output_memory
from .jit import Loaded
from .pool_worker import COPIED_BYTES
from .thread_pool import SPIN_NS, Job, available, copy_code, crew, work_function

__all__ = ["Runs", "Work", "available", "copy", "copy_to", "share"]

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


LEARNED_RUNS = 64
"""Runs that are shared by what one alone took; then it is looked at again."""

_ended = 0.0
"""When the last call did."""


@dataclass(frozen=True, slots=True)
class Work:
    """What runs of a function have in common on any grid.

    `lanes`: invocations of a workgroup.  `room_bytes`: see lowering.host.  `at_once`: one call does the
    whole grid.  `draws`, `is_steady`: see `pace`.
    """

    loaded: Loaded
    lanes: int
    room_bytes: int
    at_once: bool
    draws: bool
    is_steady: bool


class Runs:
    """Runs of a function over one grid, one after the other: what each needs anew is addresses.

    `args`: see lowering.host; a run's addresses come into its first words.  `touched`: bytes of the
    largest buffer.  `workers`: threads at most.
    """

    def __init__(self, work: Work, args: array[int], workgroups: int, touched: int, workers: int) -> None:
        self.work, self.args = work, args
        self.workgroups, self.touched, self.workers = workgroups, touched, workers
        self.room_bytes = work.room_bytes * (workgroups if work.at_once else 1)
        self.threads = 1 if work.at_once else min(workers, workgroups)
        self.is_tried = False
        if work.draws and touched >= 2 * DRAWN_BYTES_PER_THREAD:
            # the first workgroup would do everything, and show nothing
            self.threads = min(self.threads, touched // DRAWN_BYTES_PER_THREAD)
        elif touched // BYTES_PER_THREAD < self.threads:
            self.is_tried = workgroups > 1 and not work.at_once
        self.jobs: dict[int, Job] = {}
        self.expected: float | None = None
        """Seconds of a run alone, where all take about as long."""
        self.left = 0

    def __call__(self, addresses: Iterable[int]) -> list[int] | None:
        """Run all workgroups; the fault record of the first that has any.

        Those before one at fault are run, those after it may not be.
        """
        global _ended
        args = self.args
        for place, address in enumerate(addresses):
            args[place] = address
        job = self._try() if self.is_tried else self._share(0, self.threads)
        _ended = perf_counter()
        return job.fault()

    @property
    def kept_bytes(self) -> int:
        """Of scratch memory."""
        return self.room_bytes * sum(self.jobs)

    def _try(self) -> Job:
        """Alone for what little time that takes, then with as many others as the rest is worth."""
        begun = perf_counter()
        short = SHORT_AWAKE if begun - _ended < SPIN_NS * 1e-9 else SHORT
        if self.expected is None or not self.left:
            job, done, seconds = self._begin_alone(short)
            if done == self.workgroups:
                self._learn(perf_counter() - begun)
                return job
            self._learn(seconds * self.workgroups / (self.workgroups - done))
        elif self.expected <= short:
            job = self._job(1)
            job.run(self.work.loaded, 0, self.workgroups)
            self._learn(perf_counter() - begun)
            return job
        else:
            done, seconds = 0, self.expected
            self.left -= 1
        return self._share(
            done, min(self.workers, self.workgroups - done, 1 + int(seconds / SECONDS_PER_THREAD))
        )

    def _learn(self, seconds: float) -> None:
        """One run that was held up must not stand for those to come."""
        if self.work.is_steady:
            self.expected = seconds if self.expected is None else min(seconds, 2 * self.expected)
            self.left = LEARNED_RUNS

    def _begin_alone(self, short: float) -> tuple[Job, int, float]:
        """Run workgroups in this thread, few first, for as long as the rest seems to take little time.

        How many are done, all after a fault, and the seconds that the rest may take.
        """
        job, loaded, workgroups = self._job(1), self.work.loaded, self.workgroups
        done, part = 0, max(1, min(workgroups // 64, FIRST_INVOCATIONS // self.work.lanes))
        while True:
            begun = perf_counter()
            job.run(loaded, done, done + part)
            done += part
            if done == workgroups or job.is_at_fault(0):
                return job, workgroups, 0.0
            left = (perf_counter() - begun - CALL) / part * (workgroups - done)
            if left > short:
                return job, done, left
            part = min(NEXT_PART * part, workgroups - done)

    def _share(self, first: int, threads: int) -> Job:
        """The workgroups from `first` on, in stretches."""
        job, workgroups = self._job(threads), self.workgroups
        if workgroups == 1 or self.work.at_once:
            job.run(self.work.loaded, first, workgroups)
            return job
        per_group = self.touched // workgroups
        largest = min(
            STRETCH_INVOCATIONS // self.work.lanes, STRETCH_BYTES // per_group if per_group else workgroups
        )
        job.begin(first, max(1, min((workgroups - first) // (threads * STRETCHES_PER_THREAD), largest)))
        share(job)
        return job

    def _job(self, threads: int) -> Job:
        """One is kept for this thread alone, and one of the latest number of several."""
        found = self.jobs.get(threads)
        if found is None:
            self.jobs = {1: self.jobs[1]} if 1 in self.jobs else {}
            address, rooms = self.work.loaded.address, self.room_bytes
            found = self.jobs[threads] = Job(address, self.args, self.workgroups, threads, rooms)
        return found


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
    made = output_memory.empty(given.size, given.dtype)
    copy_to(made, given, workers)
    return made


def copy_to(made: np.ndarray, given: np.ndarray, workers: int) -> None:
    """Copy the bytes of a contiguous array to another."""
    args = array("Q", [made.ctypes.data, given.ctypes.data, given.nbytes])
    threads = min(max(1, given.nbytes // BYTES_PER_THREAD), workers)
    job = Job(copy_code(), args, -(-given.nbytes // COPIED_BYTES), threads)
    job.begin(0, 1)
    share(job)
