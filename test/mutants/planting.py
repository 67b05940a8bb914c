"""Plants mistakes in copies of the checkout and runs the tests that must notice them."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from .mutant import Mutant

__all__ = ["Outcome", "WorkingCopy", "outcomes"]

ROOT = Path(__file__).parents[2]
COPIED = ("vyre_opt", "grammar", "test", "examples", "pyproject.toml")
LIMIT_S = 240
"""A test that takes longer than any does meets a loop that does not end, or code that grew out of all bounds."""


class Outcome(Enum):
    """What became of a mistake.  The last two are errors: of the tests, or of the table's words."""

    NOTICED = "noticed"
    EQUIVALENT = "equivalent"
    MISSED = "MISSED"
    NOT_EQUIVALENT = "NOT EQUIVALENT"

    @property
    def is_error(self) -> bool:
        return self in (Outcome.MISSED, Outcome.NOT_EQUIVALENT)


class WorkingCopy:
    """A copy of the checkout in `folder`, with one mistake in it at most."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Files compiled here stay valid, as the copies keep their times of change; a mistake's file has another
        # time and is compiled in memory, so that none is left behind
        self.environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        for part in COPIED:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(ROOT / part, folder)
        self._start("-m", "compileall", "-q", "vyre_opt", "test").communicate()
        imported, _ = self._start("-c", "import vyre_opt; print(vyre_opt.__file__)").communicate()
        if not imported.startswith(str(folder)):
            raise SystemExit(f"the copy is not what runs, but {imported.strip()}")

    def check_tests(self, tests: Sequence[str]) -> None:
        """All tests pass as long as no mistake is there; else their failing would say nothing."""
        if self.fails(tests):
            raise SystemExit("a test fails without a mistake in the code")

    def outcome(self, mutant: Mutant) -> Outcome:
        """Plant the mistake, and run its test."""
        with self._planted(mutant):
            fails = self.fails([mutant.test])
        if mutant.equivalent:
            return Outcome.NOT_EQUIVALENT if fails else Outcome.EQUIVALENT
        return Outcome.NOTICED if fails else Outcome.MISSED

    def fails(self, tests: Sequence[str]) -> bool:
        """Whether a test fails, ends the process, or does not end.  A test that cannot be run is an error."""
        ran = self._start("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)
        try:
            printed, _ = ran.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(ran.pid, signal.SIGKILL)  # with the tools that the test runs
            ran.communicate()
            return True
        if ran.returncode > 1:
            raise SystemExit(f"{', '.join(tests)}: pytest ended with {ran.returncode}\n{printed}")
        return ran.returncode != 0  # negative where a signal ended it

    @contextmanager
    def _planted(self, mutant: Mutant) -> Iterator[None]:
        source = self.folder / mutant.path
        text, times = source.read_text(encoding="utf-8"), source.stat()
        if text.count(mutant.old) != 1:
            raise SystemExit(f"{mutant.path} has {mutant.old!r} {text.count(mutant.old)} times, not once")
        source.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            yield
        finally:
            source.write_text(text, encoding="utf-8")
            os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        """Python in the copy, in a process group of its own; stdout and stderr are one."""
        return subprocess.Popen(
            [sys.executable, *arguments], env=self.environment, cwd=self.folder, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


def outcomes(mutants: Sequence[Mutant], jobs: int) -> Iterator[tuple[Mutant, Outcome]]:
    """What becomes of each mistake, as it is known; `jobs` of them are planted side by side."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: queue.Queue[WorkingCopy] = queue.Queue()
        for number in range(min(jobs, len(mutants))):
            path = Path(folder, str(number))
            path.mkdir()
            copies.put(WorkingCopy(path))

        def in_some_copy(mutant: Mutant) -> tuple[Mutant, Outcome]:
            copy = copies.get()
            try:
                return mutant, copy.outcome(mutant)
            finally:
                copies.put(copy)

        first = copies.get()
        first.check_tests(list(dict.fromkeys(mutant.test for mutant in mutants)))
        copies.put(first)
        with ThreadPoolExecutor(copies.qsize()) as pool:
            try:
                for done in as_completed([pool.submit(in_some_copy, mutant) for mutant in mutants]):
                    yield done.result()
            finally:
                pool.shutdown(cancel_futures=True)
