"""Work as a number of function calls, for tests of linear growth: a busy machine does not change it."""

from __future__ import annotations

from collections.abc import Callable
from cProfile import Profile
from typing import Any

__all__ = ["count_calls"]


def count_calls(work: Callable[[], Any]) -> int:
    """Function calls, of Python and of C, that `work` makes in this thread."""
    profile = Profile()
    profile.enable()
    try:
        work()
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())
