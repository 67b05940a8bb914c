"""The search by gradient descent: configurations are drawn from a policy that descends the cost which a surrogate predicts.

    draw candidates from the policy, predict their costs, descend the mean of these (factor_policy),
    and draw the next configurations to measure from the policy

The policy's temperature falls with what is spent, from one at which a third more of cost matters little to one at which a
percent decides.  The frame is in surrogate_search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..execution.dispatcher import Dispatcher
from .budget import Budget
from .factor_policy import FactorPolicy
from .space import Space
from .surrogate import Prediction
from .surrogate_search import SearchOptions, surrogate_search

__all__ = ["GradientOptions", "gradient_search"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GradientOptions(SearchOptions):
    """`candidates`: configurations that are drawn and predicted for each choice.
    `steps`, `rate`, `damping`: of the descent before each choice (see FactorPolicy).
    `hot`, `cold`: the temperature at the first choice and at the last, in logarithms of costs; between them it falls by the same
    factor with each configuration.
    """

    candidates: int = 400
    steps: int = 2
    rate: float = 0.8
    damping: float = 0.02
    hot: float = 0.3
    cold: float = 0.01


def gradient_search(
    budget: Budget,
    rng: np.random.Generator,
    space: Space,
    options: GradientOptions = GradientOptions(),
    dispatcher: str | Dispatcher = "cpu",
    **more: Any,
) -> None:
    """Spend a budget on what a policy draws.

    `dispatcher`: what the policy's gradient is computed on, with the same result on each.  `more`: see `surrogate_search`.
    """
    surrogate_search(budget, rng, space, _GradientProposer(space, rng, options, dispatcher), options, **more)


class _GradientProposer:
    def __init__(
        self, space: Space, rng: np.random.Generator, options: GradientOptions, dispatcher: str | Dispatcher
    ) -> None:
        self.policy = FactorPolicy(space, options.rate, options.damping, dispatcher)
        self.rng, self.options, self.temperature = rng, options, options.hot

    def candidates(self, budget: Budget, progress: float) -> Array:
        options = self.options
        self.temperature = options.hot * (options.cold / options.hot) ** progress
        others = np.setdiff1d(np.arange(budget.count), budget.order)
        if len(others) <= options.candidates:
            return others
        keys = self.policy.keys(others, self.temperature, self.rng)
        return np.asarray(others[np.argpartition(-keys, options.candidates)[: options.candidates]])

    def choices(self, prediction: Prediction, candidates: Array) -> Iterator[tuple[int, float]]:
        self.policy.descend(candidates, prediction.means.mean(axis=0), self.temperature, self.options.steps)
        gain = float(prediction.gains(0.0).max())
        keys = self.policy.keys(candidates, self.temperature, self.rng)
        for pick in np.argsort(-keys, kind="stable"):
            yield int(pick), gain
