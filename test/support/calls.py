"""Work as a number of function calls, for tests of linear growth: a busy machine does not change it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["count_calls"]


def count_calls(work: Callable[[], Any]) -> int:
    """Function calls, of Python and of C, that `work` makes in this thread."""
    count = 0

    def hook(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(hook)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
