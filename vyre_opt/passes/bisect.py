"""`--opt-bisect-limit`: executions of passes are numbered, and those beyond a limit are left out.

A script that searches for the limit at which an output turns wrong finds the execution that is to blame.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["BisectLimit"]


class BisectLimit:
    """Lets the first `limit` executions run, or all if it is negative, and reports each as a line of text."""

    def __init__(self, limit: int, report: Callable[[str], None]) -> None:
        self.limit = limit
        self.report = report
        self.executions = 0

    def may_run(self, name: str, where: str) -> bool:
        """Whether the next execution runs: that of pass `name` on `where`, the module or an item of it."""
        self.executions += 1
        runs = self.limit < 0 or self.executions <= self.limit
        verb = "running" if runs else "NOT running"
        self.report(f"BISECT: {verb} pass ({self.executions}) {name} on {where}\n")
        return runs
