"""Measurements of a search, and the number that is left to it.

The budget is counted in measurements: one round of one configuration.  The cost of a configuration is
the median of its rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from .measure import INFINITE, Bench

__all__ = ["Budget"]


class Budget:
    """Measures on a bench, of `count` configurations, at most `total` rounds of one in all.

    `rounds`: how often a configuration is measured, unless a search asks for fewer.
    `samples`: the costs that were measured, by index of the configuration; `costs`: their medians, infinite
    for one that failed.  `order`: the indices in the order of their first measurement.  `finalists`: the
    best is one of these, set by a search that measures the others less often.  `is_settled`: set by a
    search that stops because it expects no more gain.  `on_progress(spent)` is called after each measurement.

    `anchored`: the best of the first measurement (the anchor) runs beside all later ones, outside of the
    budget, and each sample is scaled by the anchor's time in the first measurement over its time now, so that
    drift of the machine does not count.
    """

    def __init__(
        self,
        bench: Bench,
        count: int,
        total: int,
        rounds: int,
        on_progress: Callable[[int], None] | None = None,
        anchored: bool = False,
    ) -> None:
        self.bench = bench
        self.count = count
        self.total = total
        self.rounds = rounds
        self.on_progress = on_progress
        self.anchored = anchored
        self.spent = 0
        self.samples: dict[int, list[float]] = {}
        self.order: list[int] = []
        self.costs: dict[int, float] = {}
        self.finalists: list[int] | None = None
        self.is_settled = False
        self.anchor: int | None = None
        self._anchor_cost = 0.0

    @property
    def left(self) -> int:
        """Whole configurations that may still be measured."""
        return (self.total - self.spent) // self.rounds

    @property
    def best(self) -> int | None:
        """The cheapest so far, of several the first measured; None if all failed."""
        candidates = self.order if self.finalists is None else self.finalists
        valid = [pick for pick in candidates if self.costs[pick] < INFINITE]
        return min(valid, key=self.costs.__getitem__) if valid else None

    def measure(self, picks: Sequence[int], rounds: int | None = None) -> list[float]:
        """Measure configurations, given by index; returns the cost of each.

        Where the budget does not suffice for all, those at the end of `picks` are left out.
        """
        each = self.rounds if rounds is None else rounds
        affordable = list(dict.fromkeys(picks))[: max(0, (self.total - self.spent) // max(1, each))]
        if not affordable or each < 1:
            return []
        for pick, new_samples in zip(affordable, self._measure(affordable, each), strict=True):
            if pick not in self.samples:
                self.order.append(pick)
            self.samples.setdefault(pick, []).extend(new_samples)
            failed = pick in self.bench.failures or not self.samples[pick]
            self.costs[pick] = INFINITE if failed else median(self.samples[pick])
        self.spent += len(affordable) * each
        if self.anchored and self.anchor is None and self.best is not None:
            self.anchor, self._anchor_cost = self.best, self.costs[self.best]
        if self.on_progress:
            self.on_progress(self.spent)
        return [self.costs[pick] for pick in affordable]

    def recall(self, known: Mapping[int, float], rounds: int) -> None:
        """Take over costs of an earlier run, scaled by what the cheapest of them takes now, in so many rounds."""
        cheapest = min(known, key=known.__getitem__)
        costs = self.measure([cheapest], rounds)
        if not costs or not 0 < costs[0] < INFINITE or known[cheapest] <= 0:
            return
        scale = costs[0] / known[cheapest]
        for pick in set(known) - {cheapest}:
            self.order.append(pick)
            self.samples[pick] = [known[pick] * scale] * rounds
            self.costs[pick] = known[pick] * scale

    def _measure(self, picks: Sequence[int], rounds: int) -> list[list[float]]:
        """The samples of each, scaled by the anchor."""
        if self.anchor is None:
            return self.bench.samples(picks, rounds)
        # the anchor runs even if it is not asked for: its time now shows the speed of the machine now
        others = [pick for pick in picks if pick != self.anchor]
        anchor_samples, *other_samples = self.bench.samples([self.anchor, *others], rounds)
        # an anchor that failed, or took no time by a coarse clock, gives no scale
        if len(anchor_samples) == rounds and all(sample > 0 for sample in anchor_samples):
            other_samples = [
                [
                    sample * self._anchor_cost / ref
                    for sample, ref in zip(samples, anchor_samples, strict=False)
                ]
                for samples in other_samples
            ]
            anchor_samples = [self._anchor_cost] * rounds
        remaining = iter(other_samples)
        return [anchor_samples if pick == self.anchor else next(remaining) for pick in picks]
