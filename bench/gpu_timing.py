"""Times work on a GPU by events, and what the machine can do at most; needs torch."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from statistics import geometric_mean, median
from typing import Any

from measure import machine, today

Run = Callable[[], None]
LAUNCHES = 10
DELAY_CYCLES = 1_000_000
"""For which a GPU waits before launches that are timed, so that it does not wait for the host between two."""


def seconds(run: Run, rounds: int = 1) -> float:
    """Seconds a launch, by events around ten; the median of `rounds`."""
    import torch

    times: list[float] = []
    run()
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        delay: Any = torch.cuda._sleep  # type: ignore[attr-defined,unused-ignore]
        delay(DELAY_CYCLES)
        start.record()
        for _ in range(LAUNCHES):
            run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / LAUNCHES)
    return median(times)


def each_round(runs: Mapping[str, Run], rounds: int) -> dict[str, list[float]]:
    """Seconds of each in rounds that do all of them: a slow spell falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        seconds(run)
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(seconds(run))
    return times


def in_turn(runs: Mapping[str, Run], rounds: int = 7) -> dict[str, float]:
    """Seconds of each, medians over the rounds."""
    return {name: median(seconds) for name, seconds in each_round(runs, rounds).items()}


def in_rotation(runs: Sequence[Callable[[], Any]]) -> Run:
    """Each call does the next of `runs`, from the first again after the last."""
    endless = cycle(runs)
    return lambda: next(endless)()


def copy_bandwidth(size: int = 1 << 30) -> float:
    """Bytes a second of a large copy on the device, read and written ones."""
    import torch

    x = torch.empty(size, dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
    return 2 * size / seconds(lambda: y.copy_(x), 5)


def multiply_add_rate(order: int = 8192) -> float:
    """Multiply-adds of f32 a second, in a large matrix product without tensor cores."""
    import torch

    x, y = torch.randn(order, order, device="cuda"), torch.randn(order, order, device="cuda")
    out = torch.empty_like(x)
    torch.backends.cuda.matmul.allow_tf32 = False
    return order**3 / seconds(lambda: torch.mm(x, y, out=out), 3)


def relative_error(actual: Any, expected: Any) -> float:
    """Of two tensors, in the 2-norm; NaN counts as infinite."""
    error = ((actual.double() - expected.double()).norm() / expected.double().norm()).item()
    return math.inf if math.isnan(error) else float(error)


def head(name: str, title: str, doc: str | None, packages: Sequence[str]) -> dict[str, Any]:
    """What a result says of itself; `doc`: of its script, behind whose first paragraph it tells what is measured."""
    import torch

    return {
        "name": name,
        "title": title,
        "about": " ".join((doc or "").split("\n\n", 1)[1].split()),
        "date": today(),
        "machine": {**machine(), "gpu": torch.cuda.get_device_name()},
        "versions": {package: importlib.metadata.version(package) for package in packages},
        "absent": [],
    }


def target(what: str, ratios: list[float], least: float) -> dict[str, Any]:
    """A line of the table of targets: all of `ratios` should be `least` or more."""
    measured = f"{min(ratios):.2f} at worst, {geometric_mean(ratios):.2f} in the mean"
    return {"what": what, "measured": measured, "met": min(ratios) >= least}
