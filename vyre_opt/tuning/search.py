"""Searches that know nothing of the factors: what a tuner has to be better than.

Each is a function of a ledger and a generator of random numbers, and measures until the ledger's budget
is spent; the ledger then knows the best.
"""

from __future__ import annotations

from math import ceil, log2
from typing import TYPE_CHECKING

from .budget import Budget
from .measure import INFINITE

if TYPE_CHECKING:
    import numpy as np

__all__ = ["random_search", "successive_halving"]


def random_search(ledger: Budget, rng: np.random.Generator) -> None:
    """Configurations in a random order, none twice."""
    order = [int(pick) for pick in rng.permutation(ledger.count)]
    ledger.measure(order[: ledger.left])


def successive_halving(ledger: Budget, rng: np.random.Generator) -> None:
    """Many configurations a round each, the better half of them another, and so on (Jamieson and Talwalkar).

    Each rung costs about the same, and the last has as many rounds as the others take for a cost.
    """
    rungs = max(1, ceil(log2(ledger.rounds)) + 1)
    share = ledger.budget // rungs
    order = [int(pick) for pick in rng.permutation(ledger.count)]
    alive, had = order[: max(1, share)], 0
    for rung in range(rungs):
        wanted = min(1 << rung, ledger.rounds)
        ledger.measure(alive, wanted - had)
        had = wanted
        ranked = sorted((ledger.costs.get(pick, INFINITE), place, pick) for place, pick in enumerate(alive))
        alive = [pick for cost, _, pick in ranked if cost < INFINITE][: max(1, ceil(len(alive) / 2))]
        if not alive:
            return
    # one that dropped out early has a cost of few rounds: only those that came to the end compare
    ledger.finalists = alive
