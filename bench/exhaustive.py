"""Every configuration of a workload's space, in turn, to judge what a search chose."""

from __future__ import annotations

from contextlib import closing
from statistics import median
from typing import Any

from vyre_opt.tuning.call import Call
from vyre_opt.tuning.measure import DispatchBench, relative
from vyre_opt.tuning.space import Config, Space
from vyre_opt.tuning.workload import Workload

__all__ = ["Exhaustive"]

ROUNDS_OF_A_PREPARATION = 2


class Exhaustive:
    """Half of the rounds say which configuration is the best, so that it is not the luckiest, and the others how long
    each takes.

    `rounds`: a multiple of ROUNDS_OF_A_PREPARATION (see `Bench.renew`).  `failures`: reasons of those that did not run.
    """

    def __init__(self, workload: Workload | Call, space: Space, dispatcher: Any, rounds: int) -> None:
        self.space = space
        picks = range(len(space))
        samples: list[list[float]] = [[] for _ in picks]
        with closing(DispatchBench(workload, space, dispatcher)) as bench:
            for _ in range(rounds // ROUNDS_OF_A_PREPARATION):
                bench.renew(picks)
                for own, more in zip(samples, bench.samples(picks, ROUNDS_OF_A_PREPARATION), strict=True):
                    own += more
            self.failures = sorted(set(bench.failures.values()))
        ran = [pick for pick in picks if len(samples[pick]) == rounds]
        self.best: Config = space.configs[min(ran, key=lambda pick: median(samples[pick][::2]))]
        self._judged = {pick: samples[pick][1::2] for pick in ran}

    def seconds(self, config: Config) -> float:
        return median(self._of(config))

    def ratio(self, config: Config, other: Config) -> float:
        """The time of a configuration over that of another, in the median of the rounds."""
        return relative(self._of(config), self._of(other))

    def _of(self, config: Config) -> list[float]:
        pick = self.space.find(config)
        assert pick is not None, f"{config} is not in the space"
        return self._judged[pick]
