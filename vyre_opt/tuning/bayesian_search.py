"""The search of the most gain: candidates near the best so far and others, measured where most gain is expected.

Each that is chosen is believed to cost what is predicted when the next is chosen.  The frame is in surrogate_search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .budget import Budget
from .space import Space
from .surrogate import Prediction
from .surrogate_search import SearchOptions, surrogate_search

__all__ = ["BayesianOptions", "bayesian_search"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class BayesianOptions(SearchOptions):
    """`candidates`: configurations that are predicted for each choice.
    `near`: the part of them that differs in at most `hops` factors from one of the `best` cheapest so far.
    """

    candidates: int = 700
    near: float = 0.5
    best: int = 5
    hops: int = 1


def bayesian_search(
    budget: Budget,
    rng: np.random.Generator,
    space: Space,
    options: BayesianOptions = BayesianOptions(),
    **more: Any,
) -> None:
    """Spend a budget where most gain is expected.  `more`: see `surrogate_search`."""
    surrogate_search(budget, rng, space, _BayesianProposer(space, rng, options), options, **more)


class _BayesianProposer:
    def __init__(self, space: Space, rng: np.random.Generator, options: BayesianOptions) -> None:
        self.neighbours = _Neighbours(space, options.hops)
        self.rng, self.options = rng, options

    def candidates(self, budget: Budget, progress: float) -> Array:
        return _candidates(self.neighbours, self.rng, budget, self.options)

    def choices(self, prediction: Prediction, candidates: Array) -> Iterator[tuple[int, float]]:
        picks: list[int] = []
        while len(picks) < len(candidates):
            gains = prediction.gains(0.0)
            gains[picks] = -1.0
            picks.append(int(gains.argmax()))
            yield picks[-1], float(gains[picks[-1]])
            prediction.believe(picks[-1])


class _Neighbours:
    """The configurations that differ in at most `hops` factors from one; kept, since the best stay the best for long."""

    def __init__(self, space: Space, hops: int) -> None:
        self.rows, self.hops = space.rows, hops
        self._kept: dict[int, Array] = {}

    def of(self, pick: int) -> Array:
        if pick not in self._kept:
            different = np.zeros(len(self.rows), np.int32)
            for column in self.rows.T:
                different += column != column[pick]
            self._kept[pick] = np.flatnonzero(different <= self.hops)
        return self._kept[pick]


def _candidates(
    neighbours: _Neighbours, rng: np.random.Generator, budget: Budget, options: BayesianOptions
) -> Array:
    """Configurations that are not measured: neighbours of the cheapest, and others; all, if they are few."""
    total, seen = budget.count, np.array(budget.order)
    if total - len(seen) <= options.candidates:
        return np.setdiff1d(np.arange(total), seen)
    share = max(1, round(options.candidates * options.near / options.best))
    drawn = [
        rng.choice(pool, min(share, len(pool)), replace=False)
        for pool in (
            neighbours.of(pick)
            for pick in sorted(seen.tolist(), key=budget.costs.__getitem__)[: options.best]
        )
    ]
    near = np.unique(np.concatenate(drawn))
    others = rng.choice(total, options.candidates - len(near), replace=False)
    return np.setdiff1d(np.union1d(near, others), seen)
