"""Slow tests: functions that the plain run leaves out for their time, by the table test/slow_tests.txt, and cases of a table beyond
its first (see `quick`).

`pytest --slow` runs them, and CI a fixed share.  `make slow-tests` measures all tests and writes the table again: it is
data, so that no mark in the code goes stale when a test becomes faster.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from .budget import REASONS

__all__ = ["SLOW_S", "TABLE", "SlowTests", "is_slow", "read_table"]

TABLE = Path(__file__).parents[1] / "slow_tests.txt"
SLOW_S = 0.5
"""Seconds that a test of the plain run may take on one of two busy cores."""


def function_of(nodeid: str) -> str:
    """The name of a test without its parameters."""
    return nodeid.partition("[")[0]


def read_table(path: Path = TABLE) -> dict[str, float]:
    """Seconds of the slowest case of each slow test, by the name of its function."""
    rows = (line.split() for line in path.read_text(encoding="utf-8").splitlines() if line[0] != "#")
    return {name: float(seconds) for seconds, name in rows}


@cache
def slow_functions() -> frozenset[str]:
    """Names of the functions in the table, read once."""
    return frozenset(read_table())


def is_slow(item: pytest.Item) -> bool:
    """Whether the plain run leaves a test out.  Tests that need a GPU stay: there is no time to save on other machines."""
    is_listed = function_of(item.nodeid) in slow_functions() or item.get_closest_marker("slow") is not None
    return is_listed and item.get_closest_marker("gpu") is None


@dataclass(eq=False)  # plugins are told apart, not compared
class SlowTests:
    """A plugin that writes the table at the end of a run.  Functions that did not run keep their rows."""

    path: Path = TABLE
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            name = function_of(report.nodeid)
            self.seconds[name] = max(self.seconds[name], report.duration)

    def rows(self) -> dict[str, float]:
        measured = {**read_table(self.path), **self.seconds}
        return {
            name: seconds
            for name, seconds in sorted(measured.items())
            if seconds >= SLOW_S and name.partition("::")[0] not in REASONS
        }

    def pytest_sessionfinish(self) -> None:
        lines = [f"{seconds:5.1f} {name}\n" for name, seconds in self.rows().items()]
        head = "# Seconds of the slowest case of each test that the plain run leaves out; written by `make slow-tests`.\n"
        self.path.write_text(head + "".join(lines), encoding="utf-8")
