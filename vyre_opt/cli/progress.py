"""A bar on the terminal while something runs long.

A dispatch does not say how far it is, so the bar moves and the seconds count.  It
appears after a second, on stderr, only where that is a terminal, and is wiped after.
"""

from __future__ import annotations

import sys
from threading import Event, Thread
from time import perf_counter

from .errors import write_stderr

__all__ = ["Progress"]

DELAY = 1.0
PERIOD = 0.1
WIDTH, RUNNER = 24, 6
WIPE = "\r\x1b[K"


class Progress:
    """`with Progress("@scale on ref"): ...`"""

    def __init__(self, label: str, delay: float = DELAY) -> None:
        self.label = label
        self.delay = delay
        self.done = Event()
        self.thread: Thread | None = None

    def __enter__(self) -> Progress:
        if sys.stderr is not None and sys.stderr.isatty():
            self.thread = Thread(target=self._show, daemon=True)
            self.thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.done.set()
        if self.thread is not None:
            self.thread.join()

    def _show(self) -> None:
        started = perf_counter()
        if self.done.wait(self.delay):
            return
        step = 0
        while not self.done.wait(PERIOD):
            write_stderr(f"\r{self.label} [{bar(step)}] {perf_counter() - started:.1f} s")
            step += 1
        write_stderr(WIPE)


def bar(step: int) -> str:
    """A runner that goes to and fro."""
    room = WIDTH - RUNNER
    place = step % (2 * room)
    left = place if place <= room else 2 * room - place
    return " " * left + "=" * RUNNER + " " * (room - left)
