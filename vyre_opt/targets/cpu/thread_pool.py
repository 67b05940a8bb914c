"""The threads that share a dispatch with its caller.

On Linux a thread stays in machine code from job to job (see `thread_pool_ir`), so that neither waking
it nor its work takes Python's lock.  Elsewhere the threads of an executor make one call for each job.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import threading
import time
from array import array
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...execution import output_memory
from ...execution.processors import MAX_THREADS, available
from ...linker import library
from ...lowering.host.abi import FAULT_WORDS, STOP_WORD, YIELD_WORD
from ...worker import import_module
from .linking import LoadedFunction
from .thread_pool_ir import (
    ARGS,
    CODE,
    END,
    END_OF,
    FIRST_OF,
    LEAST,
    MAX_CHUNK,
    MEMBERS,
    NEXT,
    PARTS,
    RANGE_WORDS,
    RANGES,
    RECORD_WORDS,
    RECORDS,
    SCRATCH,
    SLOT_BYTES,
    SPENT,
    SPREAD,
    STOP,
    STRIDE,
    WORKERS_ONLY,
    YIELD,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = [
    "FOREVER",
    "Job",
    "ThreadPool",
    "memory_code",
    "run_function",
    "thread_pool",
    "work_function",
]

SPIN_NS = 200_000
"""Time that an idle thread spins before it sleeps: that of some calls, so that calls that follow one
another find it awake.  Waking it takes 50 us and more."""

QUICK_NS = 5_000_000
"""Time that a caller runs chunks in the first call of machine code, and waits for workers in it."""

WAIT_NS = 50_000_000
"""Time that a caller waits for the workers before it lets Python handle signals."""

FOREVER = (1 << 63) - 1
SCRATCH_ALIGN = 64
_BYTE = np.dtype(np.uint8)
_WORK_SYMBOLS: tuple[str, ...] = ("vyre_work", "vyre_run", "vyre_copy", "vyre_clear")
_LINUX_SYMBOLS = (
    "vyre_init_slot",
    "vyre_quit_slot",
    "vyre_worker",
    "vyre_start",
    "vyre_finish",
    "vyre_share",
    "vyre_first",
    "vyre_abandon",
    "vyre_install",
)


@lru_cache(maxsize=1)
def _yield_address() -> int:
    """The address of the system's function that yields the CPU to other threads."""
    if sys.platform == "win32":
        function = ctypes.WinDLL("kernel32").SwitchToThread
    else:
        function = ctypes.CDLL(None).sched_yield
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address
    return address


class Job:
    """A range of workgroups that up to `threads` threads share; it may run many times, after `begin` each time.

    `code`: the address of the program's function.  `args` and `scratch_bytes`: the arguments and the
    scratch memory that it takes, a thread (see lowering.host).  `words`: see `thread_pool_ir`.
    `records`: the index in `words` of the fault records, RECORD_WORDS words for each thread.
    """

    def __init__(
        self, code: int, args: array[int], workgroups: int, threads: int = 1, scratch_bytes: int = 0
    ) -> None:
        self.records = records = MEMBERS + threads
        self.ranges = ranges = records + threads * RECORD_WORDS
        # never resized, so that `address` stays what it is
        self.words = words = array("Q", bytes(8 * (ranges + threads * RANGE_WORDS)))
        self.address = address = words.buffer_info()[0]
        self.args = args
        self.threads = threads
        self._begun: object = None
        """Arguments of the last `begin`, for which it leaves the words of `_at_begin`: most runs are like the one before."""
        self._at_begin = words[:0], words[:0]
        self.workgroups = workgroups
        words[END], words[RANGES] = workgroups, address + 8 * ranges
        words[CODE], words[ARGS], words[YIELD] = code, args.buffer_info()[0], _yield_address()
        words[RECORDS] = address + 8 * records
        words[records + STOP_WORD] = address + 8 * STOP
        words[records + YIELD_WORD] = words[YIELD]
        if scratch_bytes:
            stride = -(-scratch_bytes // SCRATCH_ALIGN) * SCRATCH_ALIGN
            # not cleared: every workgroup after a thread's first finds what the one before it left, anyway
            self.scratch = output_memory.empty(threads * stride + SCRATCH_ALIGN, _BYTE)
            start = output_memory.address(self.scratch)
            words[SCRATCH], words[STRIDE] = start + -start % SCRATCH_ALIGN, stride

    def begin(
        self, first: int, max_chunk: int, workers_only: bool = False, least: int = 1, in_order: bool = True
    ) -> None:
        """Prepare a run from workgroup `first` on, in chunks of `least` up to `max_chunk`; no thread is in the job now.

        `workers_only`: the caller takes no chunk.  `in_order`: no chunk is taken before those ahead of it; else the caller
        takes part, and each thread begins with a part of its own.
        """
        words, key = self.words, (first, max_chunk, workers_only, least, in_order)
        if key == self._begun:
            words[: STOP + 1], words[self.ranges :] = self._at_begin
            return
        parts, end = 1 if in_order else self.threads, self.workgroups
        words[MAX_CHUNK], words[STOP], words[PARTS] = max_chunk, 0, parts
        words[LEAST], words[END], words[WORKERS_ONLY] = least, end, workers_only
        words[SPREAD] = 2 * self.threads // parts
        for part in range(parts):
            at, begun = self.ranges + part * RANGE_WORDS, first + (end - first) * part // parts
            words[at + NEXT] = words[at + FIRST_OF] = begun
            words[at + END_OF] = first + (end - first) * (part + 1) // parts
        self._begun, self._at_begin = key, (words[: STOP + 1], words[self.ranges :])

    def begin_chunk(self, first: int, last: int) -> None:
        """Prepare a run of the workgroups from `first` to `last` - 1 as one chunk, of which the caller does no part."""
        self.begin(first, last - first, workers_only=True, least=last - first)
        self.words[END] = self.words[self.ranges + END_OF] = last

    def run(self, loaded: LoadedFunction, first: int, last: int) -> None:
        """Run the workgroups from `first` to `last` - 1 in this thread, as number 0 of the job."""
        words = self.words
        loaded.call(words[ARGS], first, last, words[SCRATCH], words[RECORDS])

    @property
    def seconds(self) -> float:
        """Time that a worker was in the last run."""
        return self.words[SPENT] * 1e-9

    def shrink(self, factor: float) -> None:
        """Make the chunks that are still to be taken smaller; other threads may be taking some."""
        # the size that vyre_work would take next; it starts small and grows with what is done
        words, ranges = self.words, range(self.ranges, len(self.words), RANGE_WORDS)
        taken = max(words[at + NEXT] - words[at + FIRST_OF] for at in ranges)
        current = min(words[MAX_CHUNK], taken // words[SPREAD])
        words[MAX_CHUNK] = max(1, int(current * factor))

    @property
    def is_at_fault(self) -> bool:
        # the first word of a record is its kind, 0 for none
        return any(self.words[self.records : self.ranges : RECORD_WORDS])

    def fault(self) -> list[int] | None:
        """The record of the first workgroup at fault, if any is."""
        if not self.is_at_fault:
            return None
        records = [
            self.words[at : at + len(FAULT_WORDS)].tolist()
            for at in range(self.records, self.ranges, RECORD_WORDS)
            if self.words[at]
        ]
        return min(records, key=itemgetter(FAULT_WORDS.index("workgroup")))


class ThreadPool(Protocol):
    """The threads that run a job beside its caller.

    `breaks_off`: whether `abandon` ends code that would run on for ever, so that callers may wait for it.
    """

    breaks_off: bool

    def start(self, job: Job, workers: int) -> int:
        """Let up to `workers` threads take chunks of the job, fewer than `job.threads`; gives how many."""

    def share(self, job: Job) -> bool:
        """Start a job with all its threads, run chunks as its caller, and finish it; False if some of that is left to do
        after QUICK_NS, or when a signal comes."""

    def await_first(self, job: Job) -> bool:
        """Wait until a worker finds no more chunks of a job that the caller does no part of; see `finish`."""

    def finish(self, job: Job) -> bool:
        """Wait until all workers have left the job, once the caller itself finds no more chunks.

        False if some have not after WAIT_NS, or when a signal comes.
        """

    def abandon(self, address: int, /) -> object:
        """Stop the job at an address, unless it is finished; return once no worker may touch it."""


_pools: dict[int, ThreadPool] = {}
"""Process id -> its pool."""


def thread_pool() -> ThreadPool:
    """The pool of this process; a forked child has none of its parent's threads."""
    process = os.getpid()
    pool = _pools.get(process)
    if pool is None:
        pool = _SemaphorePool(process) if sys.platform == "linux" else _ExecutorPool()
        pool = _pools.setdefault(process, pool)  # another thread may have been faster
    return pool


# --- machine code


_libraries: list[Any] = []
_LOCK = threading.Lock()


def use_code(object_file: bytes) -> None:
    """Take the pool's machine code from an object file, where this process has none yet; see `thread_pool_code`.  Raises LinkError."""
    with _LOCK:
        if not _libraries:
            _libraries.append(library.link(object_file, _symbols()))


def _library() -> Any:
    """The pool's machine code: addresses by symbol.  It is never unloaded, since threads are running in it."""
    with _LOCK:
        if not _libraries:
            import_module(f"{__package__}.thread_pool_code")
            from .thread_pool_code import linked

            _libraries.append(linked(_symbols()))
        return _libraries[0]


def _symbols() -> tuple[str, ...]:
    return (*_WORK_SYMBOLS, *_LINUX_SYMBOLS) if sys.platform == "linux" else _WORK_SYMBOLS


def _function(symbol: str, parameters: int) -> Callable[..., int]:
    """A function of 64-bit words; Python's lock is free while it runs."""
    signature = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * parameters)
    function: Callable[..., int] = signature(_library()[symbol])
    return function


@lru_cache(maxsize=1)
def work_function() -> Callable[[int, int, int], int]:
    """vyre_work: (address of a job, number of the thread, chunks) -> 1 if none is left, 0 if it ran so many."""
    return _function("vyre_work", 3)


@lru_cache(maxsize=1)
def run_function() -> Callable[[int, int], int]:
    """vyre_run: (address of the addresses of jobs, their number) -> the index of the first at fault, or their number."""
    return _function("vyre_run", 2)


def memory_code(symbol: str) -> int:
    """The address of vyre_copy or vyre_clear, for a `Job`; for their arguments see `worker_ir`."""
    address: int = _library()[symbol]
    return address


# --- threads


@lru_cache(maxsize=1)
def _install_signal() -> bool:
    """Choose a real-time signal that nobody handles, to break code off; False if there is none."""
    install = _function("vyre_install", 1)
    disposition = ctypes.pythonapi.PyOS_getsig
    disposition.restype = ctypes.c_void_p
    for number in range(signal.SIGRTMAX - 1, signal.SIGRTMIN, -1):
        if not disposition(number):  # SIG_DFL
            return install(number) == 0
    return False


class _SemaphorePool:
    """Threads that wait in `vyre_worker`, created when they are first needed.

    `slots`: the address of the first of MAX_THREADS slots; thread k waits at slot k.
    """

    abandon: Callable[[int], object]

    def __init__(self, process: int) -> None:
        memory = np.zeros(MAX_THREADS * SLOT_BYTES + SLOT_BYTES, np.uint8)
        # never freed: a thread may look at its slot for as long as the process lives
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
        start: int = memory.ctypes.data
        self.slots = start + -start % SLOT_BYTES
        self.process = process
        self.threads: list[threading.Thread] = []
        self.lock = threading.Lock()
        self.abandon = _function("vyre_abandon", 1)
        self._start = _function("vyre_start", 4)
        self._first = _function("vyre_first", 2)
        self._finish = _function("vyre_finish", 2)
        self._share = _function("vyre_share", 5)
        self.breaks_off = _install_signal()
        atexit.register(self._quit)

    def start(self, job: Job, workers: int) -> int:
        return self._start(job.address, self.slots, self._available(workers), workers)

    def share(self, job: Job) -> bool:
        workers = job.threads - 1
        return bool(self._share(job.address, self.slots, self._available(workers), workers, QUICK_NS))

    def _available(self, workers: int) -> int:
        """The number of threads, once there are as many as are wanted, if the system allows."""
        if len(self.threads) < workers:
            self._grow(min(workers, MAX_THREADS))
        return len(self.threads)

    def await_first(self, job: Job) -> bool:
        return bool(self._first(job.address, WAIT_NS))

    def finish(self, job: Job) -> bool:
        return bool(self._finish(job.address, WAIT_NS))

    def _grow(self, count: int) -> None:
        """Create threads until there are `count`, or as many as the system allows."""
        init_slot, worker = _function("vyre_init_slot", 1), _function("vyre_worker", 2)
        cpus = available()
        with self.lock:
            while len(self.threads) < count:
                number = len(self.threads)
                slot = self.slots + number * SLOT_BYTES
                # the caller has a CPU of its own; a thread that spins lets others have its one whenever they want it
                spin = SPIN_NS if number < cpus - 1 else 0
                thread = threading.Thread(
                    target=worker, args=(slot, spin), name=f"vyre-cpu-{number}", daemon=True
                )
                try:
                    if init_slot(slot):
                        raise OSError("no semaphore")
                    thread.start()
                except (OSError, RuntimeError):  # the system's limit: go on with fewer
                    return
                self.threads.append(thread)

    def _quit(self) -> None:
        """End the threads before the interpreter ends; wait 0.2 s at most for those that are in a job."""
        if os.getpid() != self.process:  # a forked child: the threads are its parent's
            return
        quit_slot = _function("vyre_quit_slot", 1)
        with self.lock:
            for number in range(len(self.threads)):
                quit_slot(self.slots + number * SLOT_BYTES)
            deadline = time.monotonic() + 0.2
            for thread in self.threads:
                thread.join(max(0.0, deadline - time.monotonic()))


class _ExecutorPool:
    """The threads of an executor, for systems without semaphores that machine code can wait for."""

    breaks_off = False

    def __init__(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self.executor = ThreadPoolExecutor(available() - 1 or 1, thread_name_prefix="vyre-cpu")
        self.running: dict[int, tuple[Job, list[Future[int]]]] = {}
        """Address of a job -> the job, and the calls of its workers."""

    def await_first(self, job: Job) -> bool:
        return self.finish(job)

    def start(self, job: Job, workers: int) -> int:
        futures: list[Future[int]] = []
        # before the first is submitted: `abandon` must know of all that may run, whenever a signal comes
        self.running[job.address] = (job, futures)
        numbers = range(1, workers + 1)
        futures.extend(self.executor.submit(work_function(), job.address, n, FOREVER) for n in numbers)
        return len(futures)

    def share(self, job: Job) -> bool:
        self.start(job, job.threads - 1)
        return False

    def finish(self, job: Job) -> bool:
        """Workers that have not begun are cancelled: they would find no chunk."""
        _, futures = self.running[job.address]
        for future in futures:
            future.cancel()
        from concurrent.futures import wait

        if wait(futures, WAIT_NS * 1e-9).not_done:
            return False
        del self.running[job.address]
        return True

    def abandon(self, address: int) -> None:
        job, _ = self.running.get(address, (None, None))
        while job is not None:
            try:
                job.words[STOP] = 1
                while not self.finish(job):
                    pass
                return
            except KeyboardInterrupt:  # a second one must not keep it from waiting
                pass
