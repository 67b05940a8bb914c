"""Calls of LLVM and of drivers that may take long, made so that signals are handled meanwhile.

Python handles signals in the main thread only, and not while that is in a library, which nothing can stop.  So there
another thread makes the call; if a signal ends the wait, the call goes on, and its result is dropped.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from typing import TypeVar

__all__ = ["interruptible"]

T = TypeVar("T")

WAIT_SECONDS = 0.1
"""How long at once the main thread waits: on Windows it handles no signal before the end."""


def interruptible(call: Callable[[], T], on_abandon: Callable[[], object] | None = None) -> T:
    """`call()`; what it raises, and KeyboardInterrupt.

    `on_abandon`: is called where the call goes on alone; by default the process is to end without LLVM's destructors.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="vyre-call", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the system's limit: go on without, and hear signals late
        return call()
    try:
        while thread.is_alive():
            thread.join(WAIT_SECONDS)
    except BaseException:
        (on_abandon or _exit_without_destructors)()
        raise
    if errors:
        raise errors[0]
    return results[0]


@cache
def _exit_without_destructors() -> None:
    """Have the process end, when it does, without the destructors of LLVM: they would fail beside a call that goes on.

    Of glibc: `on_exit` calls a function with the exit code, before the destructors of libraries that are loaded.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):
        libc.on_exit(libc._exit, None)
