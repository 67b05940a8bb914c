"""The tuner beside random search and successive halving, on recorded costs:  python bench/autotune.py

Every recording that is shipped, 100 random starts each.  The budget is a quarter of what the exhaustive
run measured, counted in rounds of a configuration, the same for all three; random search spends it on a
quarter of the configurations, each measured fully, the tuner and halving on up to a third of them, most
of which they measure in fewer rounds.  What a search is shown are the odd rounds of a recording, and what
it chose is judged by the even ones, against the best of the space by those.

How much of that can be known at all is in two columns: what all of the shown rounds lead to, and what
the judge says of configurations that are near the best by the shown rounds.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process for each core, and small matrices

import numpy as np
from measure import machine, save, today
from recorded_costs import RECORDINGS, RecordedBench, Recording, recordings

from vyre_opt.tuning.budget import Budget
from vyre_opt.tuning.measure import INFINITE
from vyre_opt.tuning.tuner import DEFAULT_STRATEGY, STRATEGIES, search

RESULT = Path(__file__).parent / "results" / "autotune.json"
STARTS, NEAR = 100, 1.05


def outcome(recording: Recording, strategy: str, seed: int) -> tuple[float, float, int]:
    """The choice's cost over the best of the space, as judged and as shown; the configurations compiled."""
    count, rounds = len(recording.space), recording.rounds
    budget = Budget(RecordedBench(recording), count, max(1, count // 4) * rounds, rounds)
    search(budget, np.random.default_rng(seed), recording.space, strategy)
    best = budget.best
    if best is None:
        return INFINITE, INFINITE, len(budget.order)
    seen = shown(recording)
    return recording.truth[best] / recording.best, seen[best] / min(seen), len(budget.order)


def shown(recording: Recording) -> list[float]:
    """What each configuration costs by all the rounds that a search may see."""
    return [median(rounds) if rounds else INFINITE for rounds in recording.shown]


def sample(recording: Recording, starts: int, first: int) -> dict[str, Any]:
    by_strategy: dict[str, Any] = {}
    for strategy in STRATEGIES:
        ran = [outcome(recording, strategy, first + seed) for seed in range(starts)]
        costs = [cost for cost, _, _ in ran]
        by_strategy[strategy] = {
            "near": sum(cost <= NEAR for cost in costs) / starts,
            "near_shown": sum(cost <= NEAR for _, cost, _ in ran) / starts,
            "median": median(costs),
            "p90": float(np.quantile(costs, 0.9)),
            "worst": max(costs),
            "configurations": float(np.mean([compiled for _, _, compiled in ran])),
        }
    seen = shown(recording)
    alike = [judged for judged, cost in zip(recording.truth, seen, strict=True) if cost <= NEAR * min(seen)]
    return {
        "workload": recording.workload,
        "device": recording.device,
        "size": len(recording.space),
        "near": sum(cost <= NEAR * recording.best for cost in recording.truth),
        "default": recording.truth[recording.default] / recording.best,
        "exhaustive": recording.truth[seen.index(min(seen))] / recording.best,
        "alike": max(alike) / recording.best,
        "found": by_strategy,
    }


def rows(samples: list[dict[str, Any]]) -> Iterator[list[str]]:
    for each in samples:
        kernel = each["workload"].partition("(")[0]
        head = [
            f"{kernel} ({each['device']})",
            f"{each['size']}",
            f"{each['near']}",
            f"{each['default']:.2f}",
            f"{each['exhaustive']:.2f}",
            f"{each['alike']:.2f}",
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
    by_shown = sum(each["found"][DEFAULT_STRATEGY]["near_shown"] == 1 for each in samples)
    others = {name: share(samples, name) for name in STRATEGIES if name != DEFAULT_STRATEGY}
    ours, best = share(samples, DEFAULT_STRATEGY), max(others, key=others.__getitem__)
    return [
        {
            "what": f"within 5 % of the best from each of {STARTS} starts, on every recording",
            "measured": f"{ours:.1%} of all starts; from each start on {always} of {len(samples)} recordings, "
            f"{min(tuner):.0%} at worst; by the rounds that it was shown, on {by_shown} of {len(samples)}",
            "met": always == len(samples),
        },
        {
            "what": "the default strategy ends within 5 % more often than the others",
            "measured": f"{DEFAULT_STRATEGY} {ours:.1%}, "
            + ", ".join(f"{name} {near:.0%}" for name, near in others.items()),
            "met": ours > others[best],
        },
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=RECORDINGS)
    parser.add_argument("--starts", type=int, default=STARTS)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first start")
    parser.add_argument("--dry", action="store_true", help="print the table; save nothing")
    args = parser.parse_args()
    with ProcessPoolExecutor() as pool:
        run = partial(sample, starts=args.starts, first=args.first)
        samples = list(pool.map(run, recordings(args.folder)))
    columns = ["kernel (device)", "configurations", "within 5 %", "default / best"]
    columns += ["exhaustive / best", "alike / best", *STRATEGIES]
    result = {
        "name": "autotune",
        "title": "The tuner on recorded costs",
        "about": f"{args.starts} random starts on each recording, with a quarter of the exhaustive run's "
        "measurements, a measurement being a round of a configuration.  A cell of a search: the starts that "
        "ended within 5 % of the best configuration; the median and the worst of its choice's cost over the "
        "best; the configurations that it compiled, which may be more than a quarter, those that do not look "
        "good being measured in fewer rounds.  Costs are shown to a search from other rounds than those it is "
        "judged by, so noise of the recording counts against all.  Exhaustive / best: what the choice of all "
        "shown rounds costs.  Alike / best: of the configurations within 5 % of the best by the shown "
        "rounds, what the judge finds of the worst; where that is above 1.05, a search that ends within 5 % "
        "by all it could see may be judged to have failed.",
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
    if not args.dry:
        save(RESULT, result)


if __name__ == "__main__":
    main()
