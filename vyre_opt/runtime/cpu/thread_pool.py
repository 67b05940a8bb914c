"""The threads that share a dispatch with its caller.

Where there are POSIX semaphores (Linux) a thread stays in machine code from job to job, so that
neither waking it nor its work takes Python's lock; see crew_work, crew_wait and crew_share.
Elsewhere an executor's threads make one call a job.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
from array import array
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from ...lowering.host.abi import FAULT_WORDS, STOP_WORD, YIELD_WORD
from ..cache.store import default_store
from . import jit, object_cache, output_memory
from .pool_layout import (
    ARGS,
    CODE,
    END,
    MEMBERS,
    NEXT,
    RECORD_WORDS,
    RECORDS,
    ROOMS,
    SEAT_BYTES,
    SIZE,
    SPREAD,
    STOP,
    STRIDE,
    YIELD,
)
from .pool_submit import sharing_text
from .pool_wait import waiting_text
from .pool_worker import working_text

__all__ = ["FOREVER", "ThreadPool", "Job", "available", "copy_code", "crew", "work_function"]

MAX_SEATS = 1024
SPIN_NS = 200_000
"""How long a thread without work looks for some before it sleeps: some calls' time, so that one call after
the other finds it awake; waking it takes 50 us and more."""

WAIT_NS = 50_000_000
"""How long a caller waits for the others before it looks for signals."""

FOREVER = (1 << 63) - 1
_ALIGN = 64
_BYTE = np.dtype(np.uint8)
WORKING: tuple[str, ...] = ("vyre_work", "vyre_copy")
WAITING = ("vyre_seat", "vyre_quit", "vyre_worker", "vyre_start", "vyre_finish", "vyre_abandon")


def available() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=1)
def _yield_address() -> int:
    """Of the system's function with which a thread lets others run."""
    if sys.platform == "win32":
        found = ctypes.WinDLL("kernel32").SwitchToThread
    else:
        found = ctypes.CDLL(None).sched_yield
    address = ctypes.cast(found, ctypes.c_void_p).value
    assert address
    return address


class Job:
    """Workgroups up to `workgroups`, for up to `threads` threads; `begin` says from which on, each time anew.

    `code`: the address of its function; `args` and `room_bytes`: what that takes (see lowering.host).
    `records`: a fault record of RECORD_WORDS words for each thread.
    """

    def __init__(
        self, code: int, args: array[int], workgroups: int, threads: int = 1, room_bytes: int = 0
    ) -> None:
        self.records = records = MEMBERS + threads
        self.words = words = array("Q", bytes(8 * (records + threads * RECORD_WORDS)))
        self.address = address = words.buffer_info()[0]
        self.args = args
        self.threads = threads
        words[END], words[SPREAD] = workgroups, 2 * threads
        words[CODE], words[ARGS], words[YIELD] = code, args.buffer_info()[0], _yield_address()
        words[RECORDS] = address + 8 * records
        words[records + STOP_WORD] = address + 8 * STOP
        words[records + YIELD_WORD] = words[YIELD]
        if room_bytes:
            stride = -(-room_bytes // _ALIGN) * _ALIGN
            # what is in it means nothing, as it does for every workgroup after a thread's first
            self.rooms = output_memory.empty(threads * stride + _ALIGN, _BYTE)
            start = output_memory.address(self.rooms)
            words[ROOMS], words[STRIDE] = start + -start % _ALIGN, stride

    def begin(self, first: int, size: int) -> None:
        """Threads are to take stretches of up to `size` workgroups, from `first` on; none has one now."""
        words = self.words
        words[NEXT], words[SIZE], words[STOP] = first, size, 0

    def run(self, loaded: jit.Loaded, first: int, last: int) -> None:
        """Run workgroups in this thread, as number 0."""
        words = self.words
        loaded.call(words[ARGS], first, last, words[ROOMS], words[RECORDS])

    def shrink(self, part: float) -> None:
        """Stretches of a part of what they are now at most, while threads take them."""
        now = min(self.words[SIZE], self.words[NEXT] // self.words[SPREAD])
        self.words[SIZE] = max(1, int(now * part))

    def is_at_fault(self, thread: int) -> bool:
        return self.words[self.records + thread * RECORD_WORDS] != 0

    def fault(self) -> list[int] | None:
        """The record of the first workgroup at fault."""
        if not any(self.words[self.records :: RECORD_WORDS]):
            return None
        found = [
            self.words[at : at + len(FAULT_WORDS)].tolist()
            for at in range(self.records, len(self.words), RECORD_WORDS)
            if self.words[at]
        ]
        return min(found, key=itemgetter(FAULT_WORDS.index("workgroup")))


class ThreadPool(Protocol):
    """What runs jobs beside their caller."""

    def start(self, job: Job, wanted: int) -> None:
        """Up to `wanted` others, fewer than the job's threads, begin to take stretches."""

    def finish(self, job: Job) -> bool:
        """After the caller's own part: whether all others have left; False after a while, or a signal."""

    def abandon(self, address: int, /) -> Any:
        """Stop the job at an address, if it is not finished; return once no other thread may touch it."""


_crews: dict[int, ThreadPool] = {}


def crew() -> ThreadPool:
    """This process's threads; a forked child has none of its parent's."""
    process = os.getpid()
    found = _crews.get(process)
    if found is None:
        made: ThreadPool = _Waiting(process) if sys.platform == "linux" else _Executor()
        found = _crews.setdefault(process, made)
    return found


# --- machine code


_libraries: list[Any] = []
_LOCK = threading.Lock()


def _library() -> Any:
    """Addresses by name.  There is one, for good: threads are in its code."""
    with _LOCK:
        if not _libraries:
            host = jit.Host.this(1)
            text, names = working_text(host.triple, host.layout), WORKING
            if sys.platform == "linux":
                text, names = text + waiting_text(host.triple) + sharing_text(), (*WORKING, *WAITING)
            _libraries.append(jit.link(object_cache.object_of(text, host, default_store()), *names))
        return _libraries[0]


def _function(name: str, parameters: int) -> Callable[..., int]:
    """A function of 64-bit words; Python's lock is free while it runs."""
    found: Callable[..., int] = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * parameters)(
        _library()[name]
    )
    return found


@lru_cache(maxsize=1)
def work_function() -> Callable[[int, int, int], int]:
    """(address of a job, number of the thread, stretches) -> whether nothing is left; else so many are done."""
    return _function("vyre_work", 3)


def copy_code() -> int:
    """The address of a program's function that copies; its arguments are to, from, and bytes."""
    address: int = _library()["vyre_copy"]
    return address


# --- threads


class _Waiting:
    """Threads that wait in `vyre_worker`, made when they are first wanted."""

    abandon: Callable[[int], Any]

    def __init__(self, process: int) -> None:
        room = np.zeros(MAX_SEATS * SEAT_BYTES + SEAT_BYTES, np.uint8)
        # a thread may look at its seat for as long as the process lives
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(room))
        start: int = room.ctypes.data
        self.seats = start + -start % SEAT_BYTES
        self.process = process
        self.threads: list[threading.Thread] = []
        self.lock = threading.Lock()
        self.abandon = _function("vyre_abandon", 1)
        self._start = _function("vyre_start", 4)
        self._finish = _function("vyre_finish", 2)
        atexit.register(self._leave)

    def start(self, job: Job, wanted: int) -> None:
        if len(self.threads) < wanted:
            self._grow(min(wanted, MAX_SEATS))
        self._start(job.address, self.seats, len(self.threads), wanted)

    def finish(self, job: Job) -> bool:
        return bool(self._finish(job.address, WAIT_NS))

    def _grow(self, wanted: int) -> None:
        make, worker = _function("vyre_seat", 1), _function("vyre_worker", 2)
        cpus = available()
        with self.lock:
            while len(self.threads) < wanted:
                number = len(self.threads)
                seat = self.seats + number * SEAT_BYTES
                # looking for work in vain is for a CPU that nobody else needs
                spin = SPIN_NS if cpus > 2 and number < cpus - 1 else 0
                thread = threading.Thread(
                    target=worker, args=(seat, spin), name=f"vyre-cpu-{number}", daemon=True
                )
                try:
                    if make(seat):
                        raise OSError("no semaphore")
                    thread.start()
                except (OSError, RuntimeError):  # the system has no more of them: go on with fewer
                    return
                self.threads.append(thread)

    def _leave(self) -> None:
        """End the threads before the interpreter does; one with work is not waited for."""
        if os.getpid() != self.process:
            return
        leave = _function("vyre_quit", 1)
        with self.lock:
            for number in range(len(self.threads)):
                leave(self.seats + number * SEAT_BYTES)
            latest = time.monotonic() + 0.2
            for thread in self.threads:
                thread.join(max(0.0, latest - time.monotonic()))


class _Executor:
    """Threads of an executor, for systems without semaphores that machine code can wait for."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(available() - 1 or 1, thread_name_prefix="vyre-cpu")
        self.out: dict[int, tuple[Job, list[Future[int]]]] = {}

    def start(self, job: Job, wanted: int) -> None:
        futures: list[Future[int]] = []
        self.out[job.address] = (job, futures)
        numbers = range(1, wanted + 1)
        futures.extend(self.pool.submit(work_function(), job.address, n, FOREVER) for n in numbers)

    def finish(self, job: Job) -> bool:
        """One that has not begun finds nothing left."""
        _, futures = self.out[job.address]
        for future in futures:
            future.cancel()
        if wait(futures, WAIT_NS * 1e-9).not_done:
            return False
        del self.out[job.address]
        return True

    def abandon(self, address: int) -> None:
        job, _ = self.out.get(address, (None, None))
        while job is not None:
            try:
                job.words[STOP] = 1
                while not self.finish(job):
                    pass
                return
            except KeyboardInterrupt:  # again: it must wait all the same
                pass
