"""Threads that make calls which no exception of a signal may end in the middle: imports, LLVM, waits for a driver.

Python runs the handlers of signals in the main thread, between any two of its instructions; what they raise there may leave a lock
taken, or have memory freed twice.  No handler runs in other threads:

    the caller                                    the worker's thread
    call(f): a job into the queue    ------->     f(), unless the job was abandoned before it began
    waits; an exception ends that    <-------     its result, which is dropped where nobody waits any more
    the last reference to an object  ------->     drops what it had owned for the object

What the caller does itself is done by functions written in C, one at a time: between them an exception finds nothing half done.
"""

from __future__ import annotations

import atexit
import importlib
import os
import threading  # whichever thread imports it first is its main thread
from _queue import Empty, SimpleQueue  # `queue` imports a heap for its other queues
from _thread import RLock, allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Generic, TypeVar
from weakref import ref

__all__ = ["Worker", "find_module", "import_module", "interruptible"]

T = TypeVar("T")

WAIT_SECONDS = 0.1
"""Seconds that a caller waits at once: on Windows the main thread handles no signal before the end."""


class _Job(Generic[T]):
    """A call that another thread makes."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.function = function
        self.results: list[T] = []
        self.error: BaseException | None = None
        self.is_abandoned = False
        self.running = allocate_lock()
        """Taken until it is done.  No event: an exception within its methods would leave their lock taken."""
        self.running.acquire()

    def run(self) -> None:
        try:
            if not self.is_abandoned:
                self.results.append(self.function())
        except BaseException as error:
            self.error = _without_locals(error)
        self.running.release()

    def wait(self) -> T:
        """The result, or what the call raises."""
        while not self.running.acquire(timeout=WAIT_SECONDS):
            pass
        if self.error is not None:
            raise self.error
        return self.results[0]


class Worker:
    """One thread, started when it is first needed, that makes calls one after the other."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Job[Any] | ref[object]] = SimpleQueue()
        self._parents_queues: list[SimpleQueue[_Job[Any] | ref[object]]] = []
        self._threads: list[int] = []
        self._owned: dict[int, tuple[ref[object], object]] = {}
        """Owned objects by the id of the reference in them."""
        self._busy = RLock()
        """Taken while a job runs: a child that another thread forks finds none half done."""
        self._is_busy = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._busy.acquire,
                after_in_parent=self._busy.release,
                after_in_child=self._forget_threads,
            )
        atexit.register(self._end)

    def call(self, function: Callable[[], T]) -> T:
        """`function()` and what it raises.  An exception that ends the wait cancels a call that has not begun.

        What is returned must not need this thread for its end; see `own`.
        """
        if get_ident() in self._threads:
            return function()
        if not self._threads:  # an exception here makes a second thread, whose jobs wait for the first one's
            try:
                self._threads.append(start_new_thread(self._serve, ()))
            except RuntimeError:  # the system has none left: exceptions of signals do reach the call then
                with self._busy:
                    return function()
        job = _Job(function)
        try:
            self._queue.put(job)
            return job.wait()
        except BaseException:
            job.is_abandoned = True
            raise

    def own(self, owner: object, resource: object) -> None:
        """Keep a resource until nobody has its owner any more, and drop it in this thread, in which this is called."""
        reference = ref(owner, self._queue.put)  # no Python is run for it, in which an exception could come
        self._owned[id(reference)] = reference, resource

    def _serve(self) -> None:
        while True:
            item = self._queue.get()
            with self._busy:
                self._is_busy = True
                if isinstance(item, _Job):
                    item.run()
                else:
                    self._owned.pop(id(item), None)
                for queue in self._parents_queues:
                    self._drop_released(queue)
                self._is_busy = False
            del item  # and what a job returned

    def _drop_released(self, queue: SimpleQueue[_Job[Any] | ref[object]]) -> None:
        try:
            while True:
                self._owned.pop(id(queue.get_nowait()), None)
        except Empty:
            pass

    def _forget_threads(self) -> None:
        """Forget the parent's threads in a forked child: they do not run here, and nobody waits for their jobs.

        Its queue is another one, since a thread of the parent's may have waited at the old one, where references to objects of
        the parent's time are still put.
        """
        self._threads.clear()
        self._is_busy = False
        self._parents_queues.append(self._queue)
        self._queue = SimpleQueue()
        self._busy.release()

    def _end(self) -> None:
        """Have the process end without the destructors of libraries if a job is left: they would fail beside it.

        Of glibc: `on_exit` calls a function with the exit code, before those destructors.
        """
        if self._is_busy and os.name == "posix":
            from ctypes import CDLL

            libc = CDLL(None)
            if hasattr(libc, "on_exit"):
                libc.on_exit(libc._exit, None)


_IMPORTS = Worker()


def import_module(name: str) -> ModuleType:
    """A module by its whole name; an exception of a signal does not end its import."""
    return _IMPORTS.call(partial(importlib.import_module, name))


def find_module(name: str) -> ModuleSpec | None:
    """Find a module that need not be imported; an exception of a signal does not end the search."""
    return _IMPORTS.call(partial(_find, name))


def _find(name: str) -> ModuleSpec | None:
    import importlib.util

    return importlib.util.find_spec(name)


def interruptible(function: Callable[[], T]) -> T:
    """`function()` and what it raises.  In the main thread another one makes the call, and goes on where an exception ends the wait."""
    if get_ident() != threading.main_thread().ident:
        return function()
    job = _Job(function)
    try:
        start_new_thread(job.run, ())
    except RuntimeError:  # the system has none left
        return function()
    return job.wait()


def _without_locals(error: BaseException) -> BaseException:
    """An error whose tracebacks hold no object of the calls that it ended, which would end with it in another thread."""
    from traceback import clear_frames

    pending, seen = [error], list[BaseException]()
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.append(each)
        clear_frames(each.__traceback__)
        pending += [other for other in (each.__cause__, each.__context__) if other is not None]
    return error
