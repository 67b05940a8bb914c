"""Waiting for a GPU in turns, so that a signal ends the wait: Python handles none while it is in the driver.

What a GPU has begun cannot be stopped by the process.  A process that has given up waiting ends without it if it is
still at work then (see `Device`), which stops the GPU's work for it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from time import perf_counter, sleep
from typing import NoReturn

from ...worker import interruptible

__all__ = ["exit_now", "has_given_up", "is_at_work", "wait_in_thread", "wait_until"]

SPIN_SECONDS = 1e-3
"""Seconds that the processor is kept busy asking; a longer wait may end a nap late."""

NAP_SECONDS = 1e-4

_given_up: list[Callable[[], bool]] = []
"""Waits that a signal or another exception has ended: each tells whether its work is over."""


def has_given_up() -> bool:
    """Whether a wait was ended before what it waited for."""
    return bool(_given_up)


def is_at_work() -> bool:
    """Whether the GPU still does what a wait was given up for; its context must be current."""
    return not all(map(_is_over, _given_up))


def _is_over(is_done: Callable[[], bool]) -> bool:
    try:
        return is_done()
    except Exception:  # by a driver whose context is broken: nothing runs in it
        return True


def wait_until(is_done: Callable[[], bool]) -> None:
    """Ask until it is done; what asking raises is raised."""
    begun = perf_counter()
    try:
        while not is_done():
            if perf_counter() - begun > SPIN_SECONDS:
                sleep(NAP_SECONDS)
    except BaseException:
        _given_up.append(is_done)
        raise


def wait_in_thread(call: Callable[[], None]) -> None:
    """`call()` and what it raises, for a wait that offers nothing to ask."""
    over = threading.Event()

    def run() -> None:
        try:
            call()
        finally:
            over.set()

    try:
        interruptible(run)
    finally:
        if not over.is_set():
            _given_up.append(over.is_set)


def exit_now(code: int) -> NoReturn:
    """End the process without the GPU: to free its memory would wait for it, and so would the driver at an exit."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
