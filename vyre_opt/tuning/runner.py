"""A configuration that is compiled and ready to be timed, by the host's clock (see measure_cuda for a GPU)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from ..runtime.dispatcher import Dispatcher, Scratch
from .workload import Trial

__all__ = ["HostTrialRunner", "TrialRunner", "launches_per_round"]

ROUND_SECONDS = 2e-3
"""A round of short launches has several of them, to take about as long as this."""
MAX_LAUNCHES = 10


class TrialRunner(Protocol):
    def outputs(self) -> list[np.ndarray]:
        """Run once; the outputs in binding order."""

    def warm_up(self) -> None:
        """Run untimed, and choose the number of launches in a round."""

    def seconds(self) -> float:
        """Run one round; the mean seconds of a launch."""


class HostTrialRunner:
    """Times whole dispatches by `clock`."""

    def __init__(self, dispatcher: Dispatcher, trial: Trial, clock: Callable[[], float]) -> None:
        self.dispatcher = dispatcher
        self.trial = trial
        self.clock = clock
        self.options: Mapping[str, Any] = {"scratch": Scratch()}
        self.launches = 1

    def outputs(self) -> list[np.ndarray]:
        trial = self.trial
        return self.dispatcher.dispatch(trial.program, trial.arguments, trial.grid, **self.options)

    def warm_up(self) -> None:
        self.launches = launches_per_round(self.seconds())

    def seconds(self) -> float:
        started = self.clock()
        for _ in range(self.launches):
            self.outputs()
        return (self.clock() - started) / self.launches


def launches_per_round(seconds: float) -> int:
    """How many launches, of `seconds` each, are timed together in a round."""
    return max(1, min(MAX_LAUNCHES, int(ROUND_SECONDS / max(seconds, 1e-9))))
