"""Fuzzing for some time: batches of all targets in turn, each in a process; then what failed, confirmed and small."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from .corpus import CORPUS, write_case
from .minimise import smallest
from .target import Target
from .worker import CASE_SECONDS, Batch, Failure, Result, result_of, start

__all__ = ["Session", "Totals", "run_cases", "record"]

STUCK_SECONDS = 60.0
"""A process that is so much later than its batch allows is ended."""
REDUCE_SECONDS = 40.0
MIN_SLICE = 8.0


@dataclass(slots=True)
class Totals:
    """Of one target: batches, cases, seconds at work, and the rest as in Result."""

    batches: int = 0
    seconds: float = 0.0
    result: Result = field(default_factory=Result)

    def add(self, result: Result, seconds: float) -> None:
        mine = self.result
        self.seconds += seconds
        mine.cases += result.cases
        mine.accepted += result.accepted
        mine.shapes = max(mine.shapes, result.shapes)
        mine.slowest = max(mine.slowest, result.slowest)
        mine.peak = max(mine.peak, result.peak)
        mine.failures += result.failures


@dataclass(slots=True)
class _Running:
    target: Target
    process: Any
    folder: Path
    began: float
    end: float


class Session:
    """`seconds` or `cases` of each target end it, whichever comes first."""

    def __init__(
        self,
        targets: Sequence[Target],
        seed: int,
        seconds: float,
        cases: int | None,
        jobs: int,
        first: int = 0,
    ) -> None:
        self.targets = list(targets)
        self.seed = seed
        self.cases = cases
        self.jobs = jobs
        self.totals = {target.name: Totals(batches=first) for target in targets}
        self._started = {target.name: 0 for target in targets}
        self._end = time.monotonic() + seconds
        self._slice = max(MIN_SLICE, seconds * jobs / len(self.targets))

    def run(self, folder: Path, progress: Callable[[Session], None] = lambda session: None) -> None:
        """Run batches until the time or the cases are used up.  `folder`: an empty one to work in."""
        running: list[_Running] = []
        number = 0
        while True:
            while len(running) < self.jobs and (target := self._next(running)) is not None:
                number += 1
                running.append(self._start(target, folder / str(number)))
            if not running:
                return
            wait([r.process.sentinel for r in running], timeout=1.0)
            for one in list(running):
                if one.process.exitcode is None and time.monotonic() > one.end + STUCK_SECONDS:
                    one.process.kill()
                    one.process.join()
                if one.process.exitcode is not None:
                    running.remove(one)
                    self._collect(one)
                    progress(self)

    def _next(self, running: Sequence[_Running]) -> Target | None:
        """The target that has had the least time, if there is time or cases for another batch."""
        if time.monotonic() >= self._end:
            return None
        left = [t for t in self.targets if self.cases is None or self._started[t.name] < self.cases]
        now = time.monotonic()

        def spent(target: Target) -> float:
            at_work = sum(now - r.began + 1 for r in running if r.target is target)
            return self.totals[target.name].seconds + at_work

        return min(left, key=spent, default=None)

    def _start(self, target: Target, folder: Path) -> _Running:
        folder.mkdir()
        totals, now = self.totals[target.name], time.monotonic()
        cases = target.batch
        if self.cases is not None:
            cases = min(cases, self.cases - self._started[target.name])
        seconds = min(self._slice, self._end - now)
        batch = Batch(target, self.seed, totals.batches, cases, seconds)
        totals.batches += 1
        self._started[target.name] += cases
        return _Running(target, start(batch, folder), folder, now, now + seconds)

    def _collect(self, one: _Running) -> None:
        result = result_of(one.folder, one.process.exitcode)
        self.totals[one.target.name].add(result, time.monotonic() - one.began)

    def failures(self) -> list[tuple[Target, Failure]]:
        """One of each kind, the shortest."""
        chosen: dict[tuple[str, str], tuple[Target, Failure]] = {}
        for target in self.targets:
            for failure in self.totals[target.name].result.failures:
                key = (target.name, failure.kind)
                if key not in chosen or len(failure.case) < len(chosen[key][1].case):
                    chosen[key] = (target, failure)
        return list(chosen.values())

    def summary(self) -> str:
        rows = [
            f"{'target':10} {'cases':>8} {'a minute':>9} {'accepted':>9} {'answers':>8}"
            f" {'slowest':>8} {'memory':>9} {'kinds':>6}"
        ]
        for target in self.targets:
            totals = self.totals[target.name]
            r = totals.result
            rate = 60 * r.cases / totals.seconds if totals.seconds else 0.0
            kinds = len({f.kind for f in r.failures})
            rows.append(
                f"{target.name:10} {r.cases:8} {rate:9.0f} {r.accepted:9} {r.shapes:8}"
                f" {r.slowest:6.2f} s {r.peak:5.0f} MiB {kinds:6}"
            )
        return "\n".join(rows)


def run_cases(target: Target, cases: Sequence[bytes]) -> list[Failure]:
    """The failures of some cases, run one after the other in a process of their own, up to one that ends it."""
    with tempfile.TemporaryDirectory(prefix="vyre-opt-fuzz-") as folder:
        process = start(Batch(target, explicit=tuple(cases)), Path(folder))
        process.join(STUCK_SECONDS + CASE_SECONDS * len(cases))
        if process.exitcode is None:
            process.kill()
            process.join()
        return result_of(Path(folder), process.exitcode).failures


def record(target: Target, failure: Failure, corpus: Path = CORPUS) -> Path | None:
    """Make a case small and write it to the corpus; None if it does not fail again by itself."""
    # where a case is when its time is up, is not always the same function
    wanted = failure.kind.partition(" in ")[0] if failure.kind.startswith("too long") else failure.kind

    def fails(case: bytes) -> bool:
        return any(again.kind.startswith(wanted) for again in run_cases(target, [case]))

    if not fails(failure.case):
        return None
    return write_case(target, failure.kind, smallest(target, failure.case, fails, REDUCE_SECONDS), corpus)
