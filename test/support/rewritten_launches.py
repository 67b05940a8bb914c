"""What launches become before a GPU runs them, also where they are small, and where it would not pay."""

from __future__ import annotations

from typing import Any

import pytest

from vyre_opt.driver.launch_rewrites import LaunchRewrites
from vyre_opt.execution.plans.steps import LaunchStep
from vyre_opt.scheduling import launch_forms

__all__ = ["rewritten_launches"]


def rewritten_launches(monkeypatch: pytest.MonkeyPatch, **limits: int) -> list[LaunchStep]:
    """A list that gets each launch as it is rewritten.  `limits`: of `launch_forms`, in place of its own."""
    for name, value in {"INVOCATIONS": 0, **limits}.items():
        monkeypatch.setattr(launch_forms, name, value)
    monkeypatch.setattr(launch_forms, "access_axes", lambda program: {})
    steps: list[LaunchStep] = []
    last = LaunchRewrites._counting

    def watched(*args: Any) -> LaunchStep:
        steps.append(last(*args))
        return steps[-1]

    monkeypatch.setattr(LaunchRewrites, "_counting", watched)
    return steps
