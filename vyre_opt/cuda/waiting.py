"""Waiting for a GPU in turns, so that a signal ends the wait: Python handles none while it is in the driver.

What a GPU has begun cannot be stopped by the process.  A process that has given up waiting ends without it (see
`Device`), which stops the GPU's work for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter, sleep

__all__ = ["has_given_up", "wait_in_thread", "wait_until"]

SPIN_SECONDS = 1e-3
"""How long the processor is kept busy asking; what takes longer may end a nap late."""

NAP_SECONDS = 1e-4
TURN_SECONDS = 0.1

_gave_up = threading.Event()


def has_given_up() -> bool:
    """Whether a wait was ended by a signal, or by anything else."""
    return _gave_up.is_set()


def wait_until(is_done: Callable[[], bool]) -> None:
    """Ask until it is done; what asking raises is raised."""
    begun = perf_counter()
    try:
        while not is_done():
            if perf_counter() - begun > SPIN_SECONDS:
                sleep(NAP_SECONDS)
    except BaseException:
        _gave_up.set()
        raise


def wait_in_thread(call: Callable[[], None]) -> None:
    """`call()` and what it raises, for a wait that offers nothing to ask: another thread makes it for the main one."""
    if threading.current_thread() is not threading.main_thread():
        call()
        return
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="vyre-gpu-wait", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(TURN_SECONDS)
    except BaseException:
        _gave_up.set()
        raise
    if errors:
        raise errors[0]
