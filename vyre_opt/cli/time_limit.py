"""--timeout and Ctrl-C: exceptions that end what the tool does, wherever it is.

The main thread gets the alarm as it gets Ctrl-C: while others compile or run code for it, and between the ops of an
interpreter, and while a GPU is waited for.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

import click

from .output_channel import is_limited_child

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

__all__ = ["TimedOut", "end_alarms", "interrupt", "set_time_limit"]

MOST_SECONDS = 1e8
"""Alarms take no more than some decades."""


AGAIN_SECONDS = 0.5
"""Seconds from an exception to the next one: Python drops what is raised in a callback of its own, such as a
destructor or the end of an import's lock, prints a traceback of it, and goes on."""


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

    sys.unraisablehook = _show_dropped
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)


def interrupt(number: int, frame: FrameType | None) -> None:
    """The handler of Ctrl-C: raises KeyboardInterrupt, and again until `end_alarms`."""

    def again(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    sys.unraisablehook = _show_dropped
    if hasattr(signal, "setitimer") and not is_limited_child():  # whose alarm is the limit of compiling
        signal.signal(signal.SIGALRM, again)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS, AGAIN_SECONDS)
    raise KeyboardInterrupt


def _show_dropped(dropped: UnraisableHookArgs) -> None:
    """Show what was raised in a callback of Python's, unless it follows again."""
    if not isinstance(dropped.exc_value, (KeyboardInterrupt, TimedOut)):
        sys.__unraisablehook__(dropped)


def end_alarms() -> None:
    """Stop the alarms; call it first where their exceptions are handled."""
    if hasattr(signal, "setitimer") and not is_limited_child():
        signal.setitimer(signal.ITIMER_REAL, 0)
