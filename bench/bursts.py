"""Times functions of one process in bursts, each with the machine to itself.

Threads of a library look for more work for milliseconds after a call (OpenMP's spin before they
sleep), and whoever is timed right after it shares the CPUs with them.  So each function has a burst
of its own: a pause in which all threads fall asleep, calls that wake its own and are not timed, then
timed calls.  A burst gives the median of its calls, several rounds in changing order the median of
those.
"""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

__all__ = ["CallCost", "bursts"]

ROUNDS = 5
PAUSE = 0.25
"""Longer than OpenMP's threads look for work: 200 ms is the longest default (KMP_BLOCKTIME)."""

WAKING_SECONDS, WAKING_CALLS = 5e-3, 2
TIMED_SECONDS, TIMED_CALLS = 2e-2, 5
"""At least so long, and at least so many."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """Of a call: `seconds`, and `faults`, the pages that the system had to give meanwhile."""

    seconds: float
    faults: float


def bursts(functions: Mapping[str, Callable[[], Any]]) -> dict[str, CallCost]:
    """What a call of each costs, medians over the rounds.  What it returns is dropped at once."""
    samples: dict[str, list[CallCost]] = {name: [] for name in functions}
    order = list(functions)
    for number in range(ROUNDS):
        random.Random(number).shuffle(order)
        for name in order:
            samples[name].append(_burst(functions[name]))
    return {
        name: CallCost(median(cost.seconds for cost in costs), median(cost.faults for cost in costs))
        for name, costs in samples.items()
    }


def _burst(function: Callable[[], Any]) -> CallCost:
    time.sleep(PAUSE)
    _calls(function, WAKING_SECONDS, WAKING_CALLS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    seconds = _calls(function, TIMED_SECONDS, TIMED_CALLS)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return CallCost(median(seconds), faults / len(seconds))


def _calls(function: Callable[[], Any], seconds: float, calls: int) -> list[float]:
    """The seconds of each call."""
    durations: list[float] = []
    clock = time.perf_counter
    end = clock() + seconds
    while len(durations) < calls or clock() < end:
        start = clock()
        function()
        durations.append(clock() - start)
    return durations
