"""What a search has measured, and what it may still measure.

The budget is counted in measurements: a round of one configuration.  `rounds` of them make its cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from .measure import INFINITE, Bench

__all__ = ["Budget"]


class Budget:
    """Measures on a bench, of `count` configurations, at most `budget` rounds of one in all.

    `costs`: by place, the median of the samples so far; infinite for one that failed.  `order`: the
    places as they were first measured.  `finalists`: those among which alone the best is, for a search
    that measures the others less often.  `is_settled`: set by a search that stops because it expects no
    more.  `told(spent, budget)` hears of every measurement.

    `anchored`: the best of the first measurement runs beside all later ones, outside the budget, and
    each sample is told at the anchor's pace of then: drift of the machine does not count.
    """

    def __init__(
        self,
        bench: Bench,
        count: int,
        budget: int,
        rounds: int,
        told: Callable[[int, int], None] | None = None,
        anchored: bool = False,
    ) -> None:
        self.bench = bench
        self.count = count
        self.budget = budget
        self.rounds = rounds
        self.told = told
        self.anchored = anchored
        self.spent = 0
        self.taken: dict[int, list[float]] = {}
        self.order: list[int] = []
        self.costs: dict[int, float] = {}
        self.finalists: list[int] | None = None
        self.is_settled = False
        self.anchor: int | None = None
        self._pace = 0.0

    @property
    def left(self) -> int:
        """Whole configurations that may still be measured."""
        return (self.budget - self.spent) // self.rounds

    @property
    def best(self) -> int | None:
        """The cheapest so far, of several the first measured; None if all failed."""
        among = self.order if self.finalists is None else self.finalists
        found = [pick for pick in among if self.costs[pick] < INFINITE]
        return min(found, key=self.costs.__getitem__) if found else None

    def measure(self, picks: Sequence[int], rounds: int | None = None) -> list[float]:
        """The cost of each, as far as the budget reaches: those behind are left out."""
        each = self.rounds if rounds is None else rounds
        chosen = list(dict.fromkeys(picks))[: max(0, (self.budget - self.spent) // max(1, each))]
        if not chosen or each < 1:
            return []
        for pick, samples in zip(chosen, self._samples(chosen, each), strict=True):
            if pick not in self.taken:
                self.order.append(pick)
            self.taken.setdefault(pick, []).extend(samples)
            failed = pick in self.bench.failures or not self.taken[pick]
            self.costs[pick] = INFINITE if failed else median(self.taken[pick])
        self.spent += len(chosen) * each
        if self.anchored and self.anchor is None and self.best is not None:
            self.anchor, self._pace = self.best, self.costs[self.best]
        if self.told:
            self.told(self.spent, self.budget)
        return [self.costs[pick] for pick in chosen]

    def _samples(self, picks: Sequence[int], rounds: int) -> list[list[float]]:
        """Of each, at the anchor's pace."""
        if self.anchor is None:
            return self.bench.samples(picks, rounds)
        beside, *found = self.bench.samples([self.anchor, *(k for k in picks if k != self.anchor)], rounds)
        if len(beside) == rounds and all(pace > 0 for pace in beside):
            found = [
                [sample * self._pace / pace for sample, pace in zip(samples, beside, strict=False)]
                for samples in found
            ]
            beside = [self._pace] * rounds
        others = iter(found)
        return [beside if pick == self.anchor else next(others) for pick in picks]
