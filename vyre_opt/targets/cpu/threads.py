"""Runs a program's workgroups on as many threads as they are worth, each taking chunks until none is left.

How long a workgroup takes is not known before it runs.  Where the buffers are too small to promise
enough work for all threads, the caller begins alone, and from the time of its first workgroups decides
how many others to call.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterable
from time import perf_counter

import numpy as np

from ...execution import output_memory
from ...records import dataclass
from .linking import LoadedFunction
from .thread_pool import SPIN_NS, Job, memory_code, thread_pool, work_function
from .thread_pool_ir import GROUP_BYTES

__all__ = [
    "GridRunner",
    "WorkgroupCode",
    "clear",
    "clear_bytes",
    "clear_job",
    "clear_new",
    "copy",
    "copy_bytes",
    "copy_to",
    "end_call",
    "share",
]

BYTES_PER_THREAD, TICKET_BYTES_PER_THREAD = 1 << 18, 1 << 17
SECONDS_PER_THREAD = 1.5e-5
"""The work for which another thread is started, in bytes of the largest buffer or in seconds.

Several times what it costs to call a thread that is awake.
"""

SURE_BYTES_PER_THREAD = 1 << 19
"""Bytes of the largest buffer for each thread, from which on a run is taken to be worth all threads without being measured.

Adding two numbers for each f32 of so many bytes takes about ALONE_SECONDS_AWAKE.
"""

ALONE_SECONDS, ALONE_SECONDS_AWAKE = 1e-4, SECONDS_PER_THREAD
"""Seconds of work that the caller does alone, since threads that sleep would wake too late to help.

The second holds shortly after another call: then the threads are still awake, or are worth waking for the
calls that are likely to follow.
"""

CALL_SECONDS = 1e-6
"""Seconds that a call of machine code takes, whatever it does."""

TELLING_SECONDS = 1e-5
"""Least seconds of a measured call that tells of others: on a slow or busy CPU a call of nothing takes as
long as some workgroups."""

FIRST_INVOCATIONS, TRIAL_GROWTH = 1 << 12, 8
"""The caller measures itself on FIRST_INVOCATIONS (or a 64th of all, if that is less), then on TRIAL_GROWTH
times as many, and so on."""

CHUNKS_PER_THREAD = 8
CHUNK_INVOCATIONS = 1 << 16
CHUNK_BYTES = 1 << 23
"""The most in a chunk, which runs to its end whatever happens."""

SIGNAL_SECONDS = 0.02
"""The longest that the caller should stay in machine code, since Python handles no signals meanwhile."""

CALLER_CHUNKS, CALLER_GROWTH = 4, 8
"""Chunks that the caller of a long job runs in a call of machine code at first, and how many times as many in the next one while calls are short.

Chunks grow as a job goes on, so more could take far longer; a return to Python costs as much as a small one.
"""

MIN_SHARED_BYTES = 1 << 21
"""Memory from which on several threads copy or clear it."""

LONG_SECONDS = 5e-3
"""The time of a workgroup, or of a small run, from which on the caller rather waits for others that do it."""

REMEMBERED_RUNS = 64
"""The most runs that are divided among threads by a measured time, before that time is measured again.

Twice as many each time, from 1 on: the first run of all may take long since nothing is in a cache yet.
"""

_last_call = 0.0
"""Time at the end of the last call."""


@dataclass(frozen=True, slots=True)
class WorkgroupCode:
    """A program's function, and what holds for its runs on any grid.

    `lanes`: invocations of a workgroup.  `scratch_bytes`: see lowering.host.  `whole_grid`: one call runs
    the whole grid.  `has_ticket_loop`, `has_fixed_trip_counts`, `is_bounded`, `may_wait`: see `loop_analysis`.
    """

    loaded: LoadedFunction
    lanes: int
    scratch_bytes: int
    whole_grid: bool
    has_ticket_loop: bool
    has_fixed_trip_counts: bool
    is_bounded: bool
    may_wait: bool


class GridRunner:
    """Runs a function over one grid again and again; only the addresses of the buffers change.

    `args`: see lowering.host; a run's addresses go into its first words.  `touched`: bytes of the
    largest buffer.  `workers`: the most threads, the caller among them.
    """

    def __init__(
        self, code: WorkgroupCode, args: array[int], workgroups: int, touched: int, workers: int
    ) -> None:
        self.code, self.args = code, args
        self.workgroups, self.touched, self.workers = workgroups, touched, workers
        self.scratch_bytes = code.scratch_bytes * (workgroups if code.whole_grid else 1)
        group_bytes = touched // max(1, workgroups)
        self.largest_chunk = min(
            CHUNK_INVOCATIONS // code.lanes, CHUNK_BYTES // group_bytes if group_bytes else workgroups
        )
        self.threads = 1 if code.whole_grid else min(workers, workgroups)
        self.begins_alone = False
        if code.has_ticket_loop and touched >= 2 * TICKET_BYTES_PER_THREAD:
            # the first workgroup would take all tickets, so its time would say nothing of the others'
            self.threads = min(self.threads, touched // TICKET_BYTES_PER_THREAD)
        else:
            # that of one thread too, since a run that is known to be short is cheaper to start
            self.begins_alone = touched // SURE_BYTES_PER_THREAD < max(2, self.threads)
        self.jobs: dict[int, Job] = {}
        self.kept_bytes = 0
        """Scratch memory of the jobs."""
        self.expected: float | None = None
        """The seconds of a run in one thread, where all runs take about as long."""
        self.trusted_runs, self.runs_left = 1, 0
        """Runs until `expected` is measured again, from when it is measured and from now on."""
        self.workers_only = not code.is_bounded and thread_pool().breaks_off
        """Whether the caller runs no code itself, but waits for others: code may run for long, and while the caller
        runs it, Python handles no signals."""

    def __call__(self, addresses: Iterable[int]) -> list[int] | None:
        """`run` on buffers at these addresses."""
        args = self.args
        for index, address in enumerate(addresses):
            args[index] = address
        return self.run()

    def run(self) -> list[int] | None:
        """Run all workgroups; the fault record of the first one at fault, if any is.

        All workgroups before that one have run; those after it may not have.
        """
        if not self.workgroups:
            return None
        job = self._run_measured() if self.begins_alone else self._share(0, self.threads)
        end_call()
        return job.fault()

    @property
    def is_short(self) -> bool:
        """Whether a run is expected to be worth no other thread, whenever it comes."""
        return not self.workers_only and self.expected is not None and self.expected <= ALONE_SECONDS_AWAKE

    @property
    def job_alone(self) -> Job:
        """The job of a run in the caller's thread."""
        return self._job(1)

    def _run_measured(self) -> Job:
        """Run in this thread alone while that takes little time, then with as many as the rest is worth."""
        begun = perf_counter()
        alone = ALONE_SECONDS_AWAKE if begun - _last_call < SPIN_NS * 1e-9 else ALONE_SECONDS
        if self.expected is None or not self.runs_left:
            job, done, seconds = self._begin_alone(alone)
            left = self.workgroups - done
            self._remember(seconds * self.workgroups / left if left else perf_counter() - begun)
            self.trusted_runs = min(2 * self.trusted_runs, REMEMBERED_RUNS)
            if not left:
                return job
        elif self.expected <= alone:
            job = self._job(1)
            job.run(self.code.loaded, 0, self.workgroups)
            self.trusted_runs = 1
            self._remember(perf_counter() - begun)
            return job
        else:
            done, seconds = 0, self.expected
            self.runs_left -= 1
        return self._share(
            done, min(self.workers, self.workgroups - done, 1 + int(seconds / SECONDS_PER_THREAD))
        )

    def _remember(self, seconds: float) -> None:
        """Expect the next runs to take `seconds`, at most twice what was expected: this one may have been preempted."""
        if self.code.has_fixed_trip_counts:
            self.workers_only = self.workers_only and seconds > LONG_SECONDS
            self.expected = seconds if self.expected is None else min(seconds, 2 * self.expected)
            self.runs_left = self.trusted_runs

    def _begin_alone(self, alone: float) -> tuple[Job, int, float]:
        """Run workgroups in this thread, few first, while the rest is expected to take `alone` seconds or less.

        Returns the job, how many workgroups are done (all after a fault), and the seconds that the
        rest is expected to take.
        """
        job, workgroups = self._job(2 if self.workers_only else 1), self.workgroups
        done, part = 0, max(1, min(workgroups // 64, FIRST_INVOCATIONS // self.code.lanes))
        if self.code.whole_grid:
            part = workgroups
        while True:
            begun = perf_counter()
            is_measured = self._run_part(job, done, done + part)
            done += part
            if done == workgroups or job.is_at_fault:
                return job, workgroups, 0.0
            seconds = job.seconds if is_measured else perf_counter() - begun
            rest = (seconds - CALL_SECONDS) / part * (workgroups - done)
            if rest > alone and seconds > TELLING_SECONDS:
                return job, done, rest
            part = min(TRIAL_GROWTH * part, workgroups - done)

    def _run_part(self, job: Job, first: int, last: int) -> bool:
        """Run some workgroups in one thread; whether `job.seconds` says how long that took."""
        if self.workers_only:
            job.begin_chunk(first, last)
            if share_among_workers(job, 1):
                return True
        job.run(self.code.loaded, first, last)
        return False

    def _share(self, first: int, threads: int) -> Job:
        """Run the workgroups from `first` on, in chunks."""
        workgroups = self.workgroups
        if workgroups == 1 or self.code.whole_grid:
            job = self._job(2 if self.workers_only else 1)
            if self._run_part(job, first, workgroups) and self.code.has_fixed_trip_counts:
                self.workers_only = job.seconds > LONG_SECONDS
            return job
        job = self._job(threads + self.workers_only)
        # about CHUNKS_PER_THREAD chunks for each thread, smaller ones where those would hold up a signal
        chunk = max(1, min((workgroups - first) // (threads * CHUNKS_PER_THREAD), self.largest_chunk))
        if self.workers_only:
            job.begin(first, chunk, workers_only=True)
            begun = perf_counter()
            if share_among_workers(job, threads):
                # the next time the caller takes its part, if that is not too long
                if self.code.has_fixed_trip_counts:
                    self.workers_only = (perf_counter() - begun) * threads > LONG_SECONDS * (
                        workgroups - first
                    )
                return job
        least = chunk if self.code.is_bounded else 1
        job.begin(first, chunk, least=least, in_order=self.code.may_wait)
        share(job)
        return job

    def _job(self, threads: int) -> Job:
        """The job for so many threads.  Only that for one and the latest for several are kept."""
        job = self.jobs.get(threads)
        if job is None:
            self.jobs = {1: self.jobs[1]} if 1 in self.jobs else {}
            address, scratch = self.code.loaded.address, self.scratch_bytes
            job = self.jobs[threads] = Job(address, self.args, self.workgroups, threads, scratch)
            self.kept_bytes = scratch * sum(self.jobs)
        return job


def end_call() -> float:
    """Note the end of a call that runs workgroups; returns the time, as `perf_counter` has it."""
    global _last_call
    _last_call = perf_counter()
    return _last_call


def share(job: Job) -> None:
    """Run a job with others.  When it returns or raises, no other thread may touch the job any more."""
    pool, work, address = thread_pool(), work_function(), job.address
    abandon, is_finished = pool.abandon, False
    try:
        if not pool.share(job):
            begun, chunks = perf_counter(), CALLER_CHUNKS
            while not work(address, 0, chunks):
                now = perf_counter()
                if now - begun > SIGNAL_SECONDS:
                    job.shrink(SIGNAL_SECONDS / (now - begun))
                if now - begun < SIGNAL_SECONDS / CALLER_GROWTH**2:
                    chunks *= CALLER_GROWTH
                begun = now
            while not pool.finish(job):
                pass
        is_finished = True  # a signal before this only costs a call of `abandon` that finds nothing to do
    finally:
        if not is_finished:
            abandon(address)  # one call of machine code, so that no second signal comes between


def share_among_workers(job: Job, workers: int) -> bool:
    """Have others run a job, and wait for them; False, and nothing has run, if no other thread is free.

    A signal is handled while they run.  When it returns or raises, no thread may touch the job any more.
    """
    pool, is_finished = thread_pool(), False
    abandon, address = pool.abandon, job.address
    try:
        if not pool.start(job, workers):
            return False
        while not pool.await_first(job):
            pass
        while not pool.finish(job):
            pass
        is_finished = True
        return True
    finally:
        if not is_finished:
            abandon(address)


def copy(source: np.ndarray, workers: int) -> np.ndarray:
    """A copy of a flat array; a large one is made by several threads, which share its page faults."""
    if source.nbytes < MIN_SHARED_BYTES:
        return source.copy()
    target = output_memory.empty(source.size, source.dtype)
    copy_to(target, source, workers)
    return target


def copy_to(target: np.ndarray, source: np.ndarray, workers: int) -> None:
    """Copy the bytes of a contiguous array to another."""
    copy_bytes(target.ctypes.data, source.ctypes.data, source.nbytes, workers)


def copy_bytes(target: int, source: int, size: int, workers: int) -> None:
    """Copy bytes between two addresses, by as many threads as they are worth."""
    if size < MIN_SHARED_BYTES:
        ctypes.memmove(target, source, size)
    else:
        _share_memory("vyre_copy", [target, source, size], size, workers)


def clear(target: np.ndarray, workers: int) -> None:
    """Set the bytes of a contiguous array to 0."""
    clear_bytes(output_memory.address(target), target.nbytes, workers)


def clear_new(target: np.ndarray, workers: int) -> None:
    """`clear` for an array as `output_memory.empty` gives it."""
    if target.nbytes <= output_memory.MAX_KEPT_BYTES:
        clear(target, workers)


def clear_bytes(target: int, size: int, workers: int) -> None:
    """Set bytes to 0, by as many threads as they are worth."""
    if size < MIN_SHARED_BYTES:
        ctypes.memset(target, 0, size)
    else:
        _share_memory("vyre_clear", [target, size], size, workers)


def _share_memory(symbol: str, args: list[int], size: int, workers: int) -> None:
    threads = min(max(1, size // BYTES_PER_THREAD), workers)
    job = _memory_job(symbol, args, size, threads)
    job.begin(0, 1, in_order=False)
    share(job)


def clear_job(target: np.ndarray) -> Job:
    """A job of one thread that sets the bytes of a contiguous array to 0, as long as the array lives."""
    return _memory_job("vyre_clear", [output_memory.address(target), target.nbytes], target.nbytes, 1)


def _memory_job(symbol: str, args: list[int], size: int, threads: int) -> Job:
    return Job(memory_code(symbol), array("Q", args), -(-size // GROUP_BYTES), threads)
