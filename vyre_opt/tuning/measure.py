"""Measures configurations so that their times can be compared.

    warm-up       a configuration is compiled and run before its first timed run
    checked       its output must be right before a time counts; one that is wrong or does not run
                  has no cost at all
    interleaved   configurations that are measured together take turns, round by round, so that all of them are
                  slow while the machine is; an anchor runs with them, and times are relative to it
                  (see budget), so that what is measured at different times can be compared too
    median        a cost is the median of the rounds

On a GPU a time is that between events around a graph of launches, which go through several sets of arrays
that together are larger than the L2 cache; elsewhere it is the time of a whole dispatch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import median
from typing import Any, Protocol

from ..execution.dispatcher import BadInputs, Dispatcher, DispatchError, Scratch
from ..execution.target import as_target
from ..ir.program import Module
from .call import Call
from .compile_ahead import CompileAhead, free_processors
from .runner import CallRunner, TrialRunner
from .space import Config, Space
from .workload import Trial, Workload

__all__ = ["INFINITE", "Bench", "DispatchBench", "FunctionBench", "relative"]

INFINITE = float("inf")


class Bench(Protocol):
    """Measures the configurations of a space, which are given by their indices in it.

    `failures`: the reasons why configurations have no cost, by index.
    """

    failures: dict[int, str]

    def samples(self, picks: Sequence[int], rounds: int) -> list[list[float]]:
        """Seconds of each of `picks` in each round; [] if it fails.  A round measures every pick once."""

    def renew(self, picks: Sequence[int]) -> None:
        """Prepare these again: all rounds after a preparation share its luck, so one preparation is not representative."""
        return


class FunctionBench(Bench):
    """Costs by a function of a configuration; NaN, infinities, DispatchError and ValueError are failures."""

    def __init__(self, space: Space, measure: Callable[[Config], float]) -> None:
        self.space = space
        self.measure = measure
        self.failures: dict[int, str] = {}

    def close(self) -> None:
        pass

    def samples(self, picks: Sequence[int], rounds: int) -> list[list[float]]:
        costs: dict[int, list[float]] = {pick: [] for pick in picks}
        for _ in range(rounds):
            for pick in picks:
                if pick not in self.failures:
                    self._measure_once(pick, costs[pick])
        return [[] if pick in self.failures else costs[pick] for pick in picks]

    def _measure_once(self, pick: int, costs: list[float]) -> None:
        try:
            measured = self.measure(dict(self.space.configs[pick]))
        except (DispatchError, ValueError) as error:
            self.failures[pick] = str(error)
            return
        try:
            cost = float(measured)
        except OverflowError:
            cost = INFINITE
        except (TypeError, ValueError):
            raise BadInputs(f"measure gives a number, not {measured!r}") from None
        if not -INFINITE < cost < INFINITE:
            self.failures[pick] = f"its cost is {cost}"
        else:
            costs.append(cost)


class DispatchBench(Bench):
    """Measures a workload on a dispatcher; `clock`, in seconds, times dispatches except on a GPU."""

    def __init__(
        self,
        workload: Workload | Call,
        space: Space,
        dispatcher: Dispatcher,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.clock = clock
        self.workload = workload
        self.space = space
        self.dispatcher = dispatcher
        self.failures: dict[int, str] = {}
        self._runners: dict[int, TrialRunner] = {}
        self._trials: dict[int, Trial] = {}
        self._ahead: CompileAhead | None = None
        self._device: Any = None
        self._is_backwards = True

    def samples(self, picks: Sequence[int], rounds: int) -> list[list[float]]:
        self._compile_ahead(
            [pick for pick in picks if pick not in self._runners and pick not in self.failures]
        )
        runners = {pick: runner for pick in picks if (runner := self._runner(pick)) is not None}
        seconds: dict[int, list[float]] = {pick: [] for pick in picks}
        for _ in range(rounds):
            # every other round backwards, so that none always runs after the same other
            self._is_backwards = not self._is_backwards
            order = list(runners)[::-1] if self._is_backwards else list(runners)
            for pick in order:
                try:
                    seconds[pick].append(runners[pick].seconds())
                except DispatchError as error:
                    self._fail(pick, str(error))
                    del runners[pick]  # its samples so far do not count either
        return [seconds[pick] if pick in runners else [] for pick in picks]

    def renew(self, picks: Sequence[int]) -> None:
        for pick in picks:
            if pick in self._runners:
                self._runners[pick].renew()

    def close(self) -> None:
        """Call it when nothing more is measured: it ends the processes that compile."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def _compile_ahead(self, picks: Sequence[int]) -> None:
        """Let other processes compile the programs of these, if that is several and the machine has processors."""
        compiler = as_target(self.dispatcher).compiler()
        if len(picks) < 2 or isinstance(self.workload, Call) or compiler is None or free_processors() < 1:
            return
        if self._ahead is None:
            self._ahead = CompileAhead(compiler, free_processors())
        for pick in picks:
            with suppress(DispatchError, ValueError):  # which are raised again when it is measured
                self._trials[pick] = self.workload.trial(self.space.configs[pick], self.dispatcher.name)
                module = Module()
                module.add(self._trials[pick].program)
                self._ahead.submit(pick, module)

    def _runner(self, pick: int) -> TrialRunner | None:
        """Compiled, run once and checked; None if that failed."""
        if pick in self.failures:
            return None
        if pick not in self._runners:
            try:
                runner = self._prepare(pick)
                fault = self.workload.fault(runner.outputs())
                if fault:
                    self._fail(pick, f"wrong result: {fault}")
                    return None
                runner.warm_up()
            except (DispatchError, ValueError) as error:
                self._fail(pick, str(error))
                return None
            self._runners[pick] = runner
        return self._runners[pick]

    def _prepare(self, pick: int) -> TrialRunner:
        config = self.space.configs[pick]
        if isinstance(self.workload, Call):
            return CallRunner(self.workload.call(config), self.clock, self.workload.wait)
        if self._ahead is not None:
            self._ahead.wait(pick)
        trial = self._trials.pop(pick, None) or self.workload.trial(config, self.dispatcher.name)
        if self.dispatcher.name == "cuda" and hasattr(self.dispatcher, "bind"):
            from .measure_cuda import CudaArrays, CudaRunner

            if self._device is None:
                self._device = CudaArrays(self.dispatcher)
            return CudaRunner(self.dispatcher, trial, self._device)
        scratch = Scratch()
        return CallRunner(
            lambda: self.dispatcher.dispatch(trial.program, trial.arguments, trial.grid, scratch=scratch),
            self.clock,
        )

    def _fail(self, pick: int, reason: str) -> None:
        self.failures[pick] = reason.strip().splitlines()[0] if reason.strip() else "it failed"
        self._runners.pop(pick, None)


def relative(samples: Sequence[float], anchor: Sequence[float]) -> float:
    """The median of a configuration's time over the anchor's in the same round."""
    return median(s / a for s, a in zip(samples, anchor, strict=True))
