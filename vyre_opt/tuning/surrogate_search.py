"""The frame of the searches that predict costs by a surrogate; a Proposer says what to predict and what to measure next.

    measure a few that are far apart, in half       -> costs
    of the rounds (a glance)
    the proposer names candidates                   (bayesian_search: near the best; gradient_search: drawn from a policy)
    the surrogate predicts the costs of these       -> the proposer chooses the next to glance at

    and so on; at the end the cheapest are measured in all rounds, taking turns; the result is one of them

Costs are logarithms of the ratio to the best, up to a limit: how bad the bad ones are does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp
from typing import Any, Protocol

import numpy as np

from .budget import Budget
from .measure import INFINITE
from .space import Space
from .surrogate import Prediction, Surrogate, one_blas_thread

__all__ = ["PathPoint", "Proposer", "SearchOptions", "surrogate_search"]

Array = np.ndarray[Any, Any]

MOST_LOG = 700.0
"""Largest logarithm of a prediction: more is infinite."""
LEAST_LIMIT = 0.3
"""Least limit of the logarithms of costs, so that costs up to a third over the best are told apart."""


@dataclass(frozen=True)
class SearchOptions:
    """The constants that all searches by a surrogate have.

    `batch`: configurations that are chosen together.
    `breadth`: how many configurations are glanced at, over how many the budget could measure in all rounds.
    `opening`, `most_opening`: the part of these that is glanced at before the first choice, and how many at most;
    each is the farthest from those before it of `spread` drawn at random.
    `limit`: the part of the costs below which they are told apart.
    `twos`: see Surrogate.
    `patience`: the search stops if no configuration of the space is expected to lower the logarithm of the best cost by this.
    `contenders`: configurations that cost less than this times the best are measured in all rounds.
    """

    batch: int = 3
    breadth: float = 4 / 3
    opening: float = 0.5
    most_opening: int = 14
    spread: int = 200
    limit: float = 0.5
    twos: bool = True
    patience: float = 1e-6
    contenders: float = 1.3


@dataclass(frozen=True, slots=True)
class PathPoint:
    """Expectation of the search after `measured` configurations, of which the best cost `best`.

    `expected`: the cost of the next one as predicted, over `best`; `gain`: by how much measuring one more is expected to lower
    the logarithm of the best cost, at most.
    """

    measured: int
    expected: float
    best: float
    gain: float


class Proposer(Protocol):
    """Says which configurations to predict, and which of them to measure."""

    def candidates(self, budget: Budget, progress: float) -> Array:
        """Indices of configurations that are not measured; all of these, if they are few.

        `progress`: from 0 at the first choice to 1 where the budget is spent.
        """

    def choices(self, prediction: Prediction, candidates: Array) -> Iterator[tuple[int, float]]:
        """Places among the candidates, the first first, each with the gain expected of measuring the most promising one.

        As many are taken as the batch has.
        """


def surrogate_search(
    budget: Budget,
    rng: np.random.Generator,
    space: Space,
    proposer: Proposer,
    options: SearchOptions,
    on_progress: Callable[[PathPoint], None] | None = None,
    starts: Sequence[int] = (),
    prior: Array | None = None,
    known: Mapping[int, float] | None = None,
) -> None:
    """Spend a budget on the search; stop before where no measurement promises a gain.

    `starts`: the indices of configurations that are measured first; one at random if there are none.
    `known`: costs of configurations, by index, from an earlier run, which are taken over (see `Budget.recall`).
    `prior`: what each configuration is expected to cost, by anything that is known before; only ratios of these count.
    `on_progress(point)` is called before each choice.
    """
    surrogate = Surrogate(space, rng, options.twos)
    expected = np.zeros(len(space)) if prior is None else np.log(prior)
    glance = max(1, budget.rounds // 2)
    # with one round, a glance is a whole measurement, and the budget has no room for more of them
    breadth = options.breadth if glance < budget.rounds else 1.0
    max_configs = min(len(space), round(budget.left * breadth), (budget.total - budget.spent) // glance)
    opening = min(max(3, round(max_configs * options.opening)), options.most_opening, max_configs)
    if known:
        budget.recall(known, glance)
        max_configs = min(len(space), max_configs + len(budget.order))
        starts, opening = [pick for pick in starts if pick not in budget.costs], 0
    budget.measure(_spread(surrogate, rng, len(space), opening, starts, options.spread), glance)
    opened = len(budget.order)
    while 0 < len(budget.order) < max_configs:
        best = budget.best
        if best is None:  # all failed so far: anything else
            budget.measure([next(k for k in range(budget.count) if k not in budget.costs)], glance)
            continue
        with one_blas_thread():
            candidates = proposer.candidates(
                budget, (len(budget.order) - opened) / max(1, max_configs - opened)
            )
            is_all = len(candidates) + len(budget.order) == len(space)
            logs, failed = _log_costs(budget, budget.costs[best], options.limit)
            prediction = surrogate.predict(budget.order, logs - expected[budget.order], candidates, failed)
            prediction.means += expected[candidates]
            batch: list[int] = []
            batch_size = min(options.batch, max_configs - len(budget.order), len(candidates))
            for choice, gain in islice(proposer.choices(prediction, candidates), batch_size):
                if on_progress and not batch:
                    cost = exp(min(float(prediction.means[:, choice].mean()), MOST_LOG))
                    on_progress(PathPoint(len(budget.order), cost, budget.costs[best], gain))
                if gain < options.patience and is_all:
                    break
                batch.append(choice)
        if not batch:
            budget.is_settled = True
            break
        budget.measure(candidates[batch].tolist(), glance)
    _measure_contenders(budget, budget.rounds - glance, options.contenders)


def _log_costs(budget: Budget, best: float, limit: float) -> tuple[Array, Array]:
    """Logarithms of the measured costs over the best one, in their order, and whether each failed."""
    measured = np.array([budget.costs[pick] for pick in budget.order])
    failed = measured == INFINITE
    logs = np.zeros(len(measured))
    if best > 0:
        logs[~failed] = np.log(measured[~failed] / best)
        logs = np.minimum(logs, max(LEAST_LIMIT, float(np.quantile(logs[~failed], limit))))
    # one that failed counts as the worst that ran: those like it are avoided, but not all around it
    logs[failed] = logs.max() or LEAST_LIMIT
    return logs, failed


def _measure_contenders(budget: Budget, rounds: int, contenders: float) -> None:
    """Measure the cheapest for the `rounds` that they lack; configurations with all rounds are the finalists."""
    best = budget.best
    if best is None:
        return
    ranked = sorted((budget.costs[pick], number, pick) for number, pick in enumerate(budget.order))
    # the second condition is for a best cost below 0, which a function of the caller may return
    near = [
        pick
        for cost, _, pick in ranked
        if cost <= contenders * budget.costs[best] or cost == budget.costs[best]
    ]
    budget.measure(near, rounds)
    most_samples = max(len(budget.samples[pick]) for pick in near)
    budget.finalists = [pick for pick in near if len(budget.samples[pick]) == most_samples]


def _spread(
    surrogate: Surrogate,
    rng: np.random.Generator,
    total: int,
    count: int,
    starts: Sequence[int],
    drawn_from: int,
) -> list[int]:
    """`starts`, and others far apart: each is the farthest from those before it, of `drawn_from` drawn at random."""
    picks = list(starts) or [int(rng.integers(total))] * (count > 0)
    distances = np.full(total, np.inf)
    for pick in picks:
        distances = np.minimum(distances, surrogate.squared_distances(pick))
    while len(picks) < count:
        drawn = rng.choice(total, min(total, drawn_from), replace=False)
        picks.append(int(drawn[int(np.argmax(distances[drawn]))]))
        distances = np.minimum(distances, surrogate.squared_distances(picks[-1]))
    return list(dict.fromkeys(picks))
