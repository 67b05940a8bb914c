"""The tuner beside random search and successive halving, on recorded costs:  python bench/autotune.py

Every recording that is shipped, 100 random starts each.  The budget is a quarter of what the exhaustive
run measured, counted in rounds of a configuration, the same for all three; the tuner and random search
spend it on a quarter of the configurations, each measured fully, halving on more of them, most of which
it measures once.  What a search is shown are the odd rounds of a recording, and what it chose is judged
by the even ones, against the best of the space by those.
"""

from __future__ import annotations

import argparse
import importlib.metadata
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from measure import machine, save, today

from vyre_opt.tuning.ledger import Ledger
from vyre_opt.tuning.recording import RECORDINGS, RecordedBench, Recording, recordings
from vyre_opt.tuning.tuner import DEFAULT_STRATEGY, STRATEGIES, search

RESULT = Path(__file__).parent / "results" / "autotune.json"
STARTS, NEAR = 100, 1.05


def outcome(recording: Recording, strategy: str, seed: int) -> tuple[float, int]:
    """The choice's cost over the best of the space, and how many configurations were compiled for it."""
    count, rounds = len(recording.space), recording.rounds
    ledger = Ledger(RecordedBench(recording), count, max(1, count // 4) * rounds, rounds)
    search(ledger, np.random.default_rng(seed), recording.space, strategy)
    best = ledger.best
    return (recording.truth[best] / recording.best if best is not None else float("inf")), len(ledger.order)


def sample(recording: Recording, starts: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for strategy in STRATEGIES:
        ran = [outcome(recording, strategy, seed) for seed in range(starts)]
        costs = [cost for cost, _ in ran]
        found[strategy] = {
            "near": sum(cost <= NEAR for cost in costs) / starts,
            "median": median(costs),
            "p90": float(np.quantile(costs, 0.9)),
            "worst": max(costs),
            "configurations": float(np.mean([compiled for _, compiled in ran])),
        }
    return {
        "workload": recording.workload,
        "device": recording.device,
        "size": len(recording.space),
        "near": sum(cost <= NEAR * recording.best for cost in recording.truth),
        "default": recording.truth[recording.default] / recording.best,
        "found": found,
    }


def rows(samples: list[dict[str, Any]]) -> Iterator[list[str]]:
    for each in samples:
        kernel = each["workload"].partition("(")[0]
        head = [
            f"{kernel} ({each['device']})",
            f"{each['size']}",
            f"{each['near']}",
            f"{each['default']:.2f}",
        ]
        for strategy in STRATEGIES:
            got = each["found"][strategy]
            head.append(
                f"{got['near']:.0%}, {got['median']:.2f}, {got['worst']:.2f}, {got['configurations']:.0f}"
            )
        yield head


def share(samples: list[dict[str, Any]], strategy: str) -> float:
    """Of all starts, those that ended near the best; every recording counts alike."""
    return float(np.mean([each["found"][strategy]["near"] for each in samples]))


def targets(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    tuner = [each["found"][DEFAULT_STRATEGY]["near"] for each in samples]
    always = sum(near == 1 for near in tuner)
    others = {name: share(samples, name) for name in STRATEGIES if name != DEFAULT_STRATEGY}
    ours, best = share(samples, DEFAULT_STRATEGY), max(others, key=others.__getitem__)
    return [
        {
            "what": f"within 5 % of the best from each of {STARTS} starts, on every recording",
            "measured": f"{ours:.0%} of all starts; from each start on {always} of {len(samples)} recordings, "
            f"{min(tuner):.0%} at worst",
            "met": always == len(samples),
        },
        {
            "what": "the default strategy ends within 5 % more often than the others",
            "measured": f"{DEFAULT_STRATEGY} {ours:.0%}, "
            + ", ".join(f"{name} {near:.0%}" for name, near in others.items()),
            "met": ours > others[best],
        },
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=RECORDINGS)
    parser.add_argument("--starts", type=int, default=STARTS)
    parser.add_argument("--dry", action="store_true", help="print the table; save nothing")
    given = parser.parse_args()
    samples = [sample(recording, given.starts) for recording in recordings(given.folder)]
    columns = ["kernel (device)", "configurations", "within 5 %", "default / best", *STRATEGIES]
    result = {
        "name": "autotune",
        "title": "The tuner on recorded costs",
        "about": f"{given.starts} random starts on each recording, with a quarter of the exhaustive run's "
        "measurements.  A cell of a search: the starts that ended within 5 % of the best configuration; the "
        "median and the worst of its choice's cost over the best; the configurations that it compiled.  "
        "Costs are shown to a search from other rounds than those it is judged by, so noise of the recording "
        "counts against all: on a CPU that does other work besides, medians of the two halves differ by "
        "several percent.",
        "date": today(),
        "machine": machine(),
        "versions": {"numpy": importlib.metadata.version("numpy")},
        "absent": [],
        "tables": [
            {"caption": "Tuner, random search, halving", "columns": columns, "rows": list(rows(samples))}
        ],
        "targets": targets(samples),
        "samples": samples,
    }
    for line in [columns, *rows(samples)]:
        print(" | ".join(line))
    for each in targets(samples):
        print(f"{each['what']}: {each['measured']} ({'met' if each['met'] else 'not met'})")
    if not given.dry:
        save(RESULT, result)


if __name__ == "__main__":
    main()
