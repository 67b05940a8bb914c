"""Searches that know nothing of the factors: the baselines that the tuner is compared with.

Each measures until the budget is spent; the budget then knows the best.
"""

from __future__ import annotations

from math import ceil, log2
from typing import TYPE_CHECKING

from .budget import Budget
from .measure import INFINITE

if TYPE_CHECKING:
    import numpy as np

__all__ = ["random_search", "successive_halving"]


def random_search(budget: Budget, rng: np.random.Generator) -> None:
    """Configurations in a random order, none twice."""
    order = [int(pick) for pick in rng.permutation(budget.count)]
    budget.measure(order[: budget.left])


def successive_halving(budget: Budget, rng: np.random.Generator) -> None:
    """Many configurations one round each, the better half of them another, and so on (Jamieson and Talwalkar).

    Each rung costs about the same; those in the last rung have been measured in `budget.rounds` rounds.
    """
    rungs = max(1, ceil(log2(budget.rounds)) + 1)
    share = budget.total // rungs
    order = [int(pick) for pick in rng.permutation(budget.count)]
    alive, rounds_done = order[: max(1, share)], 0
    for rung in range(rungs):
        rounds = min(1 << rung, budget.rounds)
        budget.measure(alive, rounds - rounds_done)  # samples of earlier rungs count
        rounds_done = rounds
        ranked = sorted((budget.costs.get(pick, INFINITE), index, pick) for index, pick in enumerate(alive))
        alive = [pick for cost, _, pick in ranked if cost < INFINITE][: max(1, ceil(len(alive) / 2))]
        if not alive:
            return
    # a configuration that dropped out early has a cost of few rounds, so only finalists are compared
    budget.finalists = alive
