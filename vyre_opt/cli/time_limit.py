"""--timeout: an alarm that ends what the tool does, wherever it is.

The main thread gets the alarm as it gets Ctrl-C: while others compile or run code for it, and between the ops of an
interpreter.  Only a GPU at work is waited for.
"""

from __future__ import annotations

import signal
from types import FrameType

import click

__all__ = ["TimedOut", "set_time_limit"]


class TimedOut(BaseException):
    """No Exception: what reports bugs, or goes on after them, must let it through."""


def set_time_limit(seconds: float) -> None:
    """Have TimedOut raised in the main thread after so many seconds.  Raises UsageError where there are no alarms."""
    if not hasattr(signal, "setitimer"):
        raise click.UsageError("--timeout needs alarms, which this system lacks")

    def end(number: int, frame: FrameType | None) -> None:
        raise TimedOut(f"not done after {seconds:g} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
