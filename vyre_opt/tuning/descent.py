"""The differentiable search: a policy says what is worth a look, a surrogate what is worth a measurement.

    measure a few that are far apart, in half       -> costs
    of the rounds (a glance)
    candidates: half of them drawn from the         p = product over the factors, uniform at first
    policy p, half of them from all
    surrogates predict the costs of these           -> the next to glance at are those of which most gain is expected,
                                                       each believed to cost what is predicted when the next is chosen
    the policy descends E = sum p_k c_k             over the candidates and what is measured (see factor_policy)

    and so on; at the end the cheapest are measured in all rounds, taking turns; the result is one of them

Costs are logarithms of the ratio to the best, limited to what CAPPED of those that ran cost less than: how bad the bad
ones are does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .budget import Budget
from .factor_policy import FactorPolicy
from .measure import INFINITE
from .space import Space
from .surrogate import Surrogate

__all__ = ["Descent", "PathPoint", "policy_descent"]

Array = np.ndarray[Any, Any]

CAPPED, LEAST_CAP = 0.7, 0.3
"""The part of the costs that is told apart, and what is at least."""
FARTHEST = 200


@dataclass(frozen=True)
class Descent:
    """The constants of the search.

    `candidates`: configurations that are predicted for each choice.
    `proposed`: the part of them that the policy draws; the others are drawn from all.
    `steps` of `rate` follow each choice; `damping` is that of the Fisher matrix, `floor` and `keep` see factor_policy.
    `batch`: configurations that are chosen together.
    `breadth`: how many configurations are glanced at, over how many the budget could measure in all rounds.
    `opening`, `most_opening`: the part of these that is glanced at before the first choice, spread over the space, and
    how many at most.
    `patience`: the search stops if no configuration of the space is expected to lower the logarithm of the best cost by this.
    `contenders`: configurations that cost less than this times the best are measured in all rounds.
    """

    candidates: int = 500
    proposed: float = 0.5
    steps: int = 3
    rate: float = 6.0
    damping: float = 0.01
    floor: float = 0.1
    keep: float = 0.9
    batch: int = 4
    breadth: float = 4 / 3
    opening: float = 0.5
    most_opening: int = 14
    patience: float = 1e-6
    contenders: float = 1.3


@dataclass(frozen=True, slots=True)
class PathPoint:
    """The policy after a descent, when `measured` configurations were measured.

    `best`: the best cost so far; `expected`: the policy's expected cost under the surrogate, over `best`;
    `unmeasured`: the probability that it gives to all configurations that are not measured.
    """

    measured: int
    expected: float
    best: float
    unmeasured: float


def policy_descent(
    budget: Budget,
    rng: np.random.Generator,
    space: Space,
    options: Descent = Descent(),
    on_progress: Callable[[PathPoint], None] | None = None,
    start: int | None = None,
) -> None:
    """Spend a budget on the search; stop before where no measurement promises a gain.

    `start`: the index of the configuration that is measured first, one at random if None.
    `on_progress(point)` is called after each descent.
    """
    surrogate = Surrogate(space, rng)
    policy = FactorPolicy(space, rng, options.rate, options.damping, options.floor, options.keep)
    glance = max(1, budget.rounds // 2)
    # with one round, a glance is a whole measurement, and the budget has no room for more of them
    breadth = options.breadth if glance < budget.rounds else 1.0
    max_configs = min(len(space), round(budget.left * breadth), (budget.total - budget.spent) // glance)
    opening = min(max(3, round(max_configs * options.opening)), options.most_opening, max_configs)
    budget.measure(_spread(surrogate, rng, len(space), opening, start), glance)
    while 0 < len(budget.order) < max_configs:
        best = budget.best
        if best is None:  # all failed so far: anything else
            budget.measure([next(k for k in range(budget.count) if k not in budget.costs)], glance)
            continue
        seen = np.array(budget.order)
        candidates = _candidates(policy, rng, seen, options)
        is_all = len(candidates) + len(seen) == len(space)
        logs = _log_costs(budget, budget.costs[best])
        prediction = surrogate.predict(budget.order, logs, candidates)
        known = np.concatenate([candidates, seen])
        costs = np.concatenate([prediction.means.mean(axis=0), logs])
        expected = policy.descend(known, costs, options.steps)
        if on_progress:
            weights = np.exp(policy.log_weights())
            unmeasured = 1.0 - float(weights[seen].sum() / weights.sum())
            on_progress(PathPoint(len(seen), float(np.exp(expected)), budget.costs[best], unmeasured))
        places: list[int] = []
        while len(places) < min(options.batch, max_configs - len(seen), len(candidates)):
            gains = prediction.gains(0.0)
            gains[places] = -1.0
            place = int(gains.argmax())
            if gains[place] < options.patience and is_all:
                break
            places.append(place)
            prediction.believe(place)
        if not places:
            budget.is_settled = True
            break
        budget.measure(candidates[places].tolist(), glance)
    _measure_contenders(budget, budget.rounds - glance, options.contenders)


def _candidates(policy: FactorPolicy, rng: np.random.Generator, seen: Array, options: Descent) -> Array:
    """Configurations that are not measured: those that the policy draws, and others; all, if they are few."""
    total = len(policy.rows)
    if total - len(seen) <= options.candidates:
        return np.setdiff1d(np.arange(total), seen)
    drawn = policy.draw(int(options.candidates * options.proposed), seen)
    others = rng.choice(total, options.candidates - len(drawn), replace=False)
    return np.setdiff1d(np.union1d(drawn, others), seen)


def _log_costs(budget: Budget, best: float) -> Array:
    """The logarithms of the costs over the best one, of what is measured, in its order."""
    measured = np.array([budget.costs[pick] for pick in budget.order])
    ran = measured < INFINITE
    logs = np.zeros(len(measured))
    if best > 0:
        logs[ran] = np.log(measured[ran] / best)
        logs[ran] = np.minimum(logs[ran], max(LEAST_CAP, float(np.quantile(logs[ran], CAPPED))))
    # one that failed counts as the worst that ran: those like it are avoided, but not all around it
    logs[~ran] = logs.max() or LEAST_CAP
    return logs


def _measure_contenders(budget: Budget, rounds: int, contenders: float) -> None:
    """Measure the cheapest for the `rounds` that they lack; those that then have all rounds are the finalists."""
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
    surrogate: Surrogate, rng: np.random.Generator, total: int, count: int, start: int | None
) -> list[int]:
    """Configurations that are far apart: each is the farthest from those before it, of FARTHEST drawn at random."""
    picks = [int(rng.integers(total)) if start is None else start]
    distances = surrogate.squared_distances(picks[0])
    while len(picks) < count:
        drawn = rng.choice(total, min(total, FARTHEST), replace=False)
        picks.append(int(drawn[int(np.argmax(distances[drawn]))]))
        distances = np.minimum(distances, surrogate.squared_distances(picks[-1]))
    return list(dict.fromkeys(picks))
