"""Measures configurations honestly.

    warm-up       a configuration is compiled and run before its first timed run
    checked       its output must be right before a time counts; one that is wrong or does not run
                  has no cost at all
    interleaved   those that are measured together take turns, round by round, so that a slow spell
                  of the machine falls on all of them; with them runs an anchor, and costs are told
                  relative to it, so that what is measured at different times compares too
    median        of the rounds

On a GPU a time is that of events around a few launches, on sets of arrays in turn that together are
larger than the L2 cache; elsewhere it is the time that a dispatch takes, all of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Protocol

import numpy as np

from ..runtime.dispatcher import Dispatcher, DispatchError, Scratch
from .pacing import launches_of_round
from .space import Space
from .workload import Trial, Workload

__all__ = ["INFINITE", "Bench", "DispatchBench", "FunctionBench", "relative"]

INFINITE = float("inf")


class Bench(Protocol):
    """What measures the configurations of a space, which are asked for by their places in it.

    `failures`: why a configuration has no cost.
    """

    failures: dict[int, str]

    def samples(self, picks: Sequence[int], rounds: int) -> list[list[float]]:
        """Seconds of each configuration in each round, all of them taking turns; none if it fails."""


class FunctionBench:
    """Costs by a function of a configuration; NaN and exceptions of a dispatch are failures."""

    def __init__(self, space: Space, measure: Any) -> None:
        self.space = space
        self.measure = measure
        self.failures: dict[int, str] = {}

    def samples(self, picks: Sequence[int], rounds: int) -> list[list[float]]:
        found: dict[int, list[float]] = {pick: [] for pick in picks}
        for _ in range(rounds):
            for pick in picks:
                if pick not in self.failures:
                    self._once(pick, found[pick])
        return [[] if pick in self.failures else found[pick] for pick in picks]

    def _once(self, pick: int, found: list[float]) -> None:
        try:
            cost = float(self.measure(dict(self.space.configs[pick])))
        except (DispatchError, ValueError) as refusal:
            self.failures[pick] = str(refusal)
            return
        if cost != cost or cost == INFINITE:
            self.failures[pick] = f"its cost is {cost}"
        else:
            found.append(cost)


class DispatchBench:
    """Configurations of a workload on a dispatcher; `clock` is that of whole dispatches, in seconds."""

    def __init__(
        self,
        workload: Workload,
        space: Space,
        dispatcher: Dispatcher,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.clock = clock
        self.workload = workload
        self.space = space
        self.dispatcher = dispatcher
        self.failures: dict[int, str] = {}
        self._runners: dict[int, Runner] = {}
        self._device: Any = None

    def samples(self, picks: Sequence[int], rounds: int) -> list[list[float]]:
        ready = {pick: runner for pick in picks if (runner := self._runner(pick)) is not None}
        found: dict[int, list[float]] = {pick: [] for pick in picks}
        for number in range(rounds):
            order = list(ready) if number % 2 == 0 else list(ready)[::-1]
            for pick in order:
                try:
                    found[pick].append(ready[pick].seconds())
                except DispatchError as failed:
                    self._fail(pick, str(failed))
                    del ready[pick]
        return [found[pick] if pick in ready else [] for pick in picks]

    def _runner(self, pick: int) -> Runner | None:
        """Compiled, run once and checked; None if that failed."""
        if pick in self.failures:
            return None
        if pick not in self._runners:
            try:
                trial = self.workload.trial(self.space.configs[pick], self.dispatcher.name)
                runner = self._prepare(trial)
                wrong = self.workload.fault(runner.outputs())
                if wrong:
                    self._fail(pick, f"wrong result: {wrong}")
                    return None
                runner.settle()
            except (DispatchError, ValueError) as refusal:
                self._fail(pick, str(refusal))
                return None
            self._runners[pick] = runner
        return self._runners[pick]

    def _prepare(self, trial: Trial) -> Runner:
        if self.dispatcher.name == "cuda" and hasattr(self.dispatcher, "bind"):
            from .measure_cuda import CudaArrays, CudaRunner

            if self._device is None:
                self._device = CudaArrays(self.dispatcher)
            return CudaRunner(self.dispatcher, trial, self._device)
        return HostRunner(self.dispatcher, trial, self.clock)

    def _fail(self, pick: int, why: str) -> None:
        self.failures[pick] = why.strip().splitlines()[0] if why.strip() else "it failed"
        self._runners.pop(pick, None)


class Runner(Protocol):
    """A configuration that is ready to run."""

    def outputs(self) -> list[np.ndarray]:
        """What a run computes."""

    def settle(self) -> None:
        """Run until a round's length is known and what is cold is warm."""

    def seconds(self) -> float:
        """Of one launch, the mean over a round's."""


class HostRunner:
    """Whole dispatches, by the clock."""

    def __init__(self, dispatcher: Dispatcher, trial: Trial, clock: Callable[[], float]) -> None:
        self.dispatcher = dispatcher
        self.trial = trial
        self.clock = clock
        self.options: Mapping[str, Any] = {"scratch": Scratch()}
        self.launches = 1

    def outputs(self) -> list[np.ndarray]:
        trial = self.trial
        return self.dispatcher.dispatch(trial.program, trial.arguments, trial.grid, **self.options)

    def settle(self) -> None:
        taken = self.seconds()
        self.launches = launches_of_round(taken)

    def seconds(self) -> float:
        started = self.clock()
        for _ in range(self.launches):
            self.outputs()
        return (self.clock() - started) / self.launches


def relative(samples: Sequence[float], anchor: Sequence[float]) -> float:
    """The median of a configuration's time over the anchor's in the same round."""
    return median(s / a for s, a in zip(samples, anchor, strict=True))
