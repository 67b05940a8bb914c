"""Launch plans for long lines of stages, beside the textbook's interval DP:  python bench/launch_plan.py

Time is the processor's within one process, planners in turn; memory is the peak of a process
that makes the stages and plans them once.  `--once STRATEGY COUNT` is such a process.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from measure import machine, run_once, save, today

from vyre_opt import LaunchFusionPlan, LaunchFusionStage, plan_launch_fusion

RESULT = Path(__file__).parent / "results" / "launch_plan.json"
COUNTS = (1024, 4096, 16384, 65536)
TEXTBOOK_UP_TO = 4096
BUDGETS = {"8 KiB": 1 << 13, "512 KiB": 1 << 19, "all in one": 1 << 40}
"""Of a group: about 6 stages of `line`, 450, or all."""
STRATEGIES = ("greedy", "optimal")


def line(count: int) -> list[LaunchFusionStage]:
    """A chain of hand-offs of 1 to 2,047 bytes: a kilobyte a stage, and a little scratch."""
    rng = random.Random(count)
    sizes = [rng.randint(1, 2047) for _ in range(count + 1)]
    return [LaunchFusionStage(k, 7, sizes[k], sizes[k + 1], rng.randint(0, 64), False) for k in range(count)]


def textbook(stages: Sequence[LaunchFusionStage], budget: int) -> tuple[int, int]:
    """Launches and bytes cut of the best plan, every group of every window weighed: O(n * group).

    For stages that take what the one before them gives, which is what `line` makes.
    """
    best = [(0, 0)]
    for end in range(1, len(stages) + 1):
        least, held, scratch = (len(stages) + 1, 0), 0, 0
        for start in range(end - 1, -1, -1):
            held += stages[start].output_bytes
            scratch = max(scratch, stages[start].scratch_bytes)
            if stages[start].input_bytes + held + scratch > budget:
                break
            launches, cut = best[start]
            least = min(least, (launches + 1, cut + (stages[start].input_bytes if start else 0)))
        best.append(least)
    return best[-1]


def cut_bytes(stages: Sequence[LaunchFusionStage], plan: LaunchFusionPlan) -> int:
    """Of hand-offs that a plan leaves in memory."""
    return int(sum(stage.input_bytes for stage in stages[1:]) - plan.avoided_intermediate_bytes)


def seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


Times = dict[tuple[str, str, int], list[float]]
"""By planner, budget and count."""


def measured(rounds: int) -> Times:
    times: Times = {}
    lines = {count: line(count) for count in COUNTS}
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr)
        for count, stages in lines.items():
            for name, budget in BUDGETS.items():
                planners: dict[str, Callable[[], object]] = {
                    how: partial(plan_launch_fusion, stages, budget, how) for how in STRATEGIES
                }
                if count <= TEXTBOOK_UP_TO:
                    planners["interval DP"] = partial(textbook, stages, budget)
                for planner, run in planners.items():
                    spent = seconds(run)
                    if number:
                        times.setdefault((planner, name, count), []).append(spent)
    return times


def memory(strategy: str, count: int) -> int:
    """Peak bytes of a process that plans once."""
    return run_once([sys.executable, __file__, "--once", strategy, str(count)]).rss


def agreement() -> list[list[str]]:
    """Launches and bytes of each plan for 4,096 stages."""
    stages = line(TEXTBOOK_UP_TO)
    rows = []
    for name, budget in BUDGETS.items():
        plans = {how: plan_launch_fusion(stages, budget, how) for how in STRATEGIES}
        launches, cut = textbook(stages, budget)
        rows.append(
            [name]
            + [f"{plan.launch_count:,} / {cut_bytes(stages, plan):,}" for plan in plans.values()]
            + [f"{launches:,} / {cut:,}"]
        )
    return rows


def tables(times: Times, peaks: dict[str, int], plans: list[list[str]]) -> list[dict[str, Any]]:
    planners = (*STRATEGIES, "interval DP")
    rows = []
    for name in BUDGETS:
        for count in COUNTS:
            timings = [times.get((planner, name, count)) for planner in planners]
            rows.append([name, f"{count:,}", *(f"{1000 * median(t):,.1f}" if t else "" for t in timings)])
    return [
        {
            "caption": "Processor time in milliseconds",
            "columns": ["Budget", "Stages", *planners],
            "rows": rows,
        },
        {
            "caption": "Launches / bytes of hand-offs left in memory, 4,096 stages",
            "columns": ["Budget", *planners],
            "rows": plans,
        },
        {
            "caption": "Peak memory of a whole process in MiB, budget of 512 KiB",
            "columns": ["Stages", *STRATEGIES],
            "rows": [[f"{COUNTS[-1]:,}", *(f"{peaks[how] / 2**20:.0f}" for how in STRATEGIES)]],
        },
    ]


def targets(times: Times, peaks: dict[str, int], plans: list[list[str]]) -> list[dict[str, Any]]:
    rows: list[tuple[str, str, bool]] = []
    for how in STRATEGIES:
        slowest = max(median(times[how, name, COUNTS[-1]]) for name in BUDGETS)
        rows.append((f"{how}: 65,536 stages in less than a second", f"{slowest:.2f} s", slowest < 1))
        grown = max(
            median(times[how, name, COUNTS[-1]]) / median(times[how, name, COUNTS[-2]]) for name in BUDGETS
        )
        rows.append((f"{how}: at most 6 times from 16,384 to 65,536", f"{grown:.1f} times", grown <= 6))
        peak = peaks[how] / 1e6
        rows.append((f"{how}: 65,536 stages in less than 100 MB", f"{peak:.0f} MB", peak < 100))
    same = all(row[2] == row[3] for row in plans)
    rows.append(("optimal: launches and bytes of the interval DP", "equal" if same else "different", same))
    return [{"what": what, "measured": shown, "met": met} for what, shown, met in rows]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=5, help="counted rounds (5)")
    parser.add_argument("--out", type=Path, default=RESULT, help="the JSON file to write")
    parser.add_argument("--once", nargs=2, metavar=("STRATEGY", "COUNT"), help="plan once, print nothing")
    args = parser.parse_args(arguments)
    if args.once:
        plan_launch_fusion(line(int(args.once[1])), BUDGETS["512 KiB"], args.once[0])
        return
    times = measured(args.repetitions)
    peaks = {how: memory(how, COUNTS[-1]) for how in STRATEGIES}
    plans = agreement()
    result: dict[str, Any] = {
        "name": "launch_plan",
        "title": "Launch plans of long lines of stages",
        "about": (
            "plan_launch_fusion on chains whose hand-offs are of random size, by both strategies, beside the "
            "interval DP as a textbook has it, which weighs every group of every window (in this script, checked "
            f"to the same launches and bytes). Medians of {args.repetitions} rounds, planners in turn."
        ),
        "date": today(),
        "machine": machine(),
        "versions": {"vyre-opt": version("vyre-opt")},
        "absent": [],
        "tables": tables(times, peaks, plans),
        "targets": targets(times, peaks, plans),
        "samples": {
            " / ".join(map(str, key)): [round(t, 5) for t in seconds] for key, seconds in times.items()
        },
    }
    save(args.out, result)
    for target in result["targets"]:
        print(f"{'met   ' if target['met'] else 'NOT MET'} {target['what']}: {target['measured']}")


if __name__ == "__main__":
    main()
