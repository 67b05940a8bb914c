"""--timeout and Ctrl-C: exceptions that end what the tool does, wherever it is.

The main thread gets the alarm as it gets Ctrl-C: while others compile or run code for it, and between the ops of an
interpreter, and while a GPU is waited for.
"""

from __future__ import annotations

import signal
from types import FrameType

import click

from .delivery import is_limited_child

__all__ = ["TimedOut", "end_alarms", "interrupt", "set_time_limit"]

MOST_SECONDS = 1e8
"""Alarms take no more than some decades."""


AGAIN_SECONDS = 0.5
"""How long after an exception the next one follows: Python drops what is raised in a callback of its own, such as a
destructor or the end of an import's lock, and goes on."""


class TimedOut(BaseException):
    """No Exception: what reports bugs, or goes on after them, must let it through."""


def set_time_limit(seconds: float) -> None:
    """Have TimedOut raised in the main thread after so many seconds.

    Raises ValueError for a number out of range, UsageError where there are no alarms.
    """
    if not 0 < seconds <= MOST_SECONDS:
        raise ValueError(f"{seconds:g} is not above 0 and at most {MOST_SECONDS:.0e}")
    if is_limited_child():  # its parent has the alarm
        return
    if not hasattr(signal, "setitimer"):
        raise click.UsageError("--timeout needs alarms, which this system lacks")

    def end(number: int, frame: FrameType | None) -> None:
        raise TimedOut(f"not done after {seconds:g} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)


def interrupt(number: int, frame: FrameType | None) -> None:
    """The handler of Ctrl-C: raises KeyboardInterrupt, and again until `end_alarms`."""

    def again(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if hasattr(signal, "setitimer") and not is_limited_child():  # whose alarm is the limit of compiling
        signal.signal(signal.SIGALRM, again)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS, AGAIN_SECONDS)
    raise KeyboardInterrupt


def end_alarms() -> None:
    """To be called first where what they raise is handled."""
    if hasattr(signal, "setitimer") and not is_limited_child():
        signal.setitimer(signal.ITIMER_REAL, 0)
