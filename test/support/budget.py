"""The time that the plain run takes, `PLAIN_RUN`, and the files that take much of it.

A file of tests that takes more than ten seconds is listed at the end of a run of all tests.  In CI the run fails if no reason
for it stands in `REASONS`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

__all__ = ["PLAIN_RUN", "REASONS", "Budget", "is_whole_run"]

PLAIN_RUN = "two to four minutes on two cores"
"""What README.md, CONTRIBUTING.md and the Makefile say of it."""

LIMIT_S = 10.0
"""What a file may take, of the 300 seconds that all of them together take on the machine of CI."""
SHARE = 1 / 30
"""The same as a share of the run, for machines that are slower, or busy."""

REASONS: dict[str, str] = {
    "test/docs/test_documents.py": "every command of every document is run",
    "test/docs/test_type_checkers.py": "mypy reads the whole package, where it has not yet",
    "test/test_lit.py": "lit runs all of its files at once",
}
"""Why a file takes longer, by its path from the root."""


def is_whole_run(config: pytest.Config) -> bool:
    """Whether nobody chose tests, by paths, -k or -m: a part of them says nothing of the time of all."""
    chosen = config.args_source is pytest.Config.ArgsSource.ARGS
    return not (chosen or config.option.keyword or config.option.markexpr)


@dataclass(eq=False)  # plugins are told apart, not compared
class Budget:
    """A plugin that adds up the times of each file's tests, on all workers of a run."""

    reasons: Mapping[str, str] = field(default_factory=lambda: REASONS)
    is_strict: bool = field(default_factory=lambda: "CI" in os.environ)
    seconds: Counter[str] = field(default_factory=Counter)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.location[0]] += report.duration  # type: ignore[assignment]  # a Counter's values add up

    def long_files(self) -> list[tuple[str, float]]:
        """Files over the limit and their seconds, the longest first."""
        limit = max(LIMIT_S, self.seconds.total() * SHARE)
        return [(path, seconds) for path, seconds in self.seconds.most_common() if seconds > limit]

    def unexplained(self) -> list[str]:
        return [path for path, _ in self.long_files() if path not in self.reasons]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.is_strict and session.exitstatus == pytest.ExitCode.OK and self.unexplained():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for path, seconds in self.long_files():
            reason = self.reasons.get(path, f"no reason stands in {__name__}.REASONS")
            terminalreporter.write_line(f"LONG: {path} took {seconds:.0f} s: {reason}", yellow=True)
