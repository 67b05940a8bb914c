"""Programs of many seeds, and the table of pairs: how many programs had each, and what passes did of them.

A tally is a JSON file, to which each finished batch is added, so that a campaign that was ended goes on where it was.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from vyre_opt import dispatcher
from vyre_opt.execution.dispatcher import Dispatcher

from ..differential import OPTIONS
from .composition import Composed, compose
from .running import Outcome, check, is_refusal
from .table import EFFECTS, FEATURES, PAIRS
from .table import excluded as excluded_by

__all__ = ["BATCH", "COLUMNS", "ENOUGH", "Tally", "add", "run_batch", "run_campaign"]

BATCH = 200
"""Programs of one task."""

ENOUGH = 50
"""Programs that a pass changed, of each pair; a pair with fewer is a hole."""

MAX_FAILURES = 200
COLUMNS = ("programs", *EFFECTS)
_NUMBERS = {pair: number for number, pair in enumerate(PAIRS)}


@dataclass(slots=True)
class Tally:
    """What came of programs on one target.  `batches`: the first seed and the length of those that are done.

    `features`, `by_feature`: programs by feature, and by feature and effect.  `pairs`: for each column a count of each of
    PAIRS.  `refused`: programs of which a check refused what a pass had made, though that was right; `differ`: all others
    with `failures`, which are seed, after which passes, what.
    """

    target: str
    programs: int = 0
    runs: int = 0
    seconds: float = 0.0
    date: str = ""
    batches: list[tuple[int, int]] = field(default_factory=list)
    effects: dict[str, int] = field(default_factory=dict)
    pairs: dict[str, list[int]] = field(default_factory=lambda: {name: [0] * len(PAIRS) for name in COLUMNS})
    features: dict[str, int] = field(default_factory=dict)
    by_feature: dict[str, int] = field(default_factory=dict)
    differ: int = 0
    refused: int = 0
    failures: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.programs += other.programs
        self.runs += other.runs
        self.seconds += other.seconds
        self.differ += other.differ
        self.refused += other.refused
        self.batches += other.batches
        for mine, others in (
            (self.effects, other.effects),
            (self.features, other.features),
            (self.by_feature, other.by_feature),
        ):
            for name, count in others.items():
                mine[name] = mine.get(name, 0) + count
        for name, counts in other.pairs.items():
            self.pairs[name] = [a + b for a, b in zip(self.pairs[name], counts, strict=True)]
        self.failures = [*self.failures, *other.failures][:MAX_FAILURES]

    def holes(self, column: str = "changed", enough: int = ENOUGH) -> list[tuple[str, str, int]]:
        """The pairs of which too few programs are in a column, and how many are."""
        counts = self.pairs[column]
        return [(a, b, counts[number]) for (a, b), number in _NUMBERS.items() if counts[number] < enough]

    def json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        excluded = {pair: why for pair in combinations(FEATURES, 2) if (why := excluded_by(*pair))}
        of = [list(FEATURES), list(COLUMNS)]
        return values | {"of": of, "excluded": list(excluded), "reasons": list(excluded.values())}

    @staticmethod
    def read(path: Path, target: str) -> Tally:
        """The tally of a target in a file; an empty one if there is none, or one of another table of features."""
        values = json.loads(path.read_text(encoding="utf-8")).get(target) if path.exists() else None
        if values is None or values["of"] != [list(FEATURES), list(COLUMNS)]:
            return Tally(target)
        for name in ("batches", "failures"):
            values[name] = [tuple(each) for each in values[name]]
        return Tally(**{name: values[name] for name in Tally.__slots__})

    def write(self, path: Path) -> None:
        """Put it beside the tallies of other targets in a file."""
        values = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        values[self.target] = self.json()
        beside = path.with_suffix(".new")
        lines = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in sorted(values.items())]
        beside.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        os.replace(beside, path)

    def summary(self) -> str:
        effects = ", ".join(f"{self.effects.get(name, 0)} {name}" for name in EFFECTS if name != "together")
        lines = [
            f"{self.programs} programs, {self.runs} runs on {self.target} against NumPy: {effects}; {self.differ} differ, "
            f"of {self.refused} a check refused a result",
            *[f"seed {seed} after {how}: {what.splitlines()[0]}" for seed, how, what in self.failures],
        ]
        holes = self.holes()
        lines.append(
            f"{len(PAIRS)} pairs, {len(holes)} of them in fewer than {ENOUGH} programs that a pass changed"
        )
        lines += [f"  {a} + {b}: {count}" for a, b, count in holes[:40]]
        return "\n".join(lines)


def add(tally: Tally, composed: Composed, outcome: Outcome) -> None:
    """Count a program."""
    tally.programs += 1
    tally.runs += outcome.runs
    for effect in outcome.effects:
        tally.effects[effect] = tally.effects.get(effect, 0) + 1
    features = composed.all_features
    for feature in features:
        tally.features[feature] = tally.features.get(feature, 0) + 1
        for effect in outcome.effects:
            key = f"{feature} {effect}"
            tally.by_feature[key] = tally.by_feature.get(key, 0) + 1
    numbers = _pairs(features)
    for column in ("programs", *outcome.effects):
        counts = tally.pairs[column]
        for number in numbers:
            counts[number] += 1
    together = {number for each in outcome.together for number in _pairs(each)}
    for number in together:
        tally.pairs["together"][number] += 1
    is_refused = bool(outcome.failures) and all(is_refusal(what) for _, what in outcome.failures)
    tally.refused += is_refused
    tally.differ += bool(outcome.failures) and not is_refused
    tally.failures += [(composed.seed, how, what) for how, what in outcome.failures]


def _pairs(features: set[str]) -> list[int]:
    ordered = [name for name in FEATURES if name in features]
    return [_NUMBERS[pair] for pair in combinations(ordered, 2) if pair in _NUMBERS]


def run_batch(target: str, first: int, count: int) -> Tally:
    """The programs of `count` seeds from `first` on, with the target's OPTIONS in turn."""
    started = time.monotonic()
    tally = Tally(target, batches=[(first, count)])
    runners: list[Dispatcher] = [dispatcher(target, **options) for options in OPTIONS[target]]
    for seed in range(first, first + count):
        composed = compose(seed)
        add(tally, composed, check(composed, runners[seed % len(runners)]))
    tally.seconds = time.monotonic() - started
    return tally


def run_campaign(
    target: str,
    first: int,
    programs: int,
    path: Path | None,
    jobs: int,
    progress: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Run what a tally file lacks of a range of seeds, `jobs` processes at a time, and write the file as they end."""
    tally = Tally(target) if path is None else Tally.read(path, target)
    done = set(tally.batches)
    parts = [(at, min(BATCH, first + programs - at)) for at in range(first, first + programs, BATCH)]
    tasks = [(target, *part) for part in parts if part not in done]
    for part in _run(tasks, jobs):
        tally.add(part)
        tally.date = time.strftime("%Y-%m-%d", time.gmtime())
        if path is not None:
            tally.write(path)
        progress(tally)
    return tally


def _run(tasks: list[tuple[str, int, int]], jobs: int) -> Iterator[Tally]:
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield run_batch(*task)
        return
    spawn = multiprocessing.get_context("spawn")  # a forked process cannot use the GPU
    with ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=spawn, max_tasks_per_child=20) as pool:
        for future in as_completed([pool.submit(run_batch, *task) for task in tasks]):
            yield future.result()
