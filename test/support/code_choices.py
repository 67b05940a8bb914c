"""Functions on arrays that no earlier test has called: which call gets code of its own depends on those before it."""

from __future__ import annotations

import pytest

from vyre_opt.driver import numeric_kernels
from vyre_opt.driver.planned_function import CodeChoice, PlannedFunction

__all__ = ["forget_calls"]


def forget_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each function choose its code as in a process that has just started."""
    for function in vars(numeric_kernels).values():
        if isinstance(function, PlannedFunction):
            monkeypatch.setattr(function, "_choice", CodeChoice())
