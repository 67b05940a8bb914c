"""A policy over the configurations of a space that is a product over its factors: it says what is worth a look.

    p(configuration) ~ product over the factors of (1 - floor) softmax(-x_f)[value] + floor / values

So it has a number for each value of each factor, however many configurations there are.  It descends the expected cost
E = sum p c by the natural gradient: with p_v the probability of a value and c_v the mean cost of the configurations that
have it,

    g_v = p_v (c_v - E)                        the gradient in the logits of a factor, negated
    x <- x + rate (F + damping)^-1 g           F = diag(p) - p p^T, the Fisher matrix of the factor

Of a product the Fisher matrix has a block for each factor, and each block is diagonal less a matrix of rank one, so that a
step takes as many operations as there are values (Sherman and Morrison).  Undamped it is x <- x + rate (c_v - E): values that
are rare move as fast as others, where the plain gradient leaves them behind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .policy import natural_step
from .space import ABSENT, Space

__all__ = ["FactorPolicy"]

Array = np.ndarray[Any, Any]


class FactorPolicy:
    """Uniform at first; `rng` decides on what is drawn.

    `rate`, `damping`: of a step.  `floor`: of the probability of each factor's value, the part that never moves.
    `keep`: how much of what it knows is left when a new descent begins.
    """

    def __init__(
        self, space: Space, rng: np.random.Generator, rate: float, damping: float, floor: float, keep: float
    ) -> None:
        self.rng, self.rate, self.damping, self.floor, self.keep = rng, rate, damping, floor, keep
        # a configuration without a factor has the value behind the last
        self.sizes = [len(levels) + 1 for levels in space.factors.values()]
        self.rows = np.where(space.rows == ABSENT, np.array(self.sizes, np.int32) - 1, space.rows)
        self.x: list[Array] = [np.zeros(size) for size in self.sizes]

    def log_weights(self, configs: Array | slice = slice(None)) -> Array:
        """The logarithm of the probability of each of `configs`, all by default, but for a constant."""
        rows = self.rows[configs]
        total = np.zeros(len(rows))
        for column, x in zip(rows.T, self.x, strict=True):
            p = np.exp(-(x - x.min()))
            p = (1 - self.floor) * p / p.sum() + self.floor / len(p)
            total += np.log(p)[column]
        if not np.isfinite(total).all():
            raise ArithmeticError("the policy is zero or no number for some configuration")
        return total

    def draw(self, count: int, taken: Array) -> Array:
        """Up to `count` different configurations, none of `taken`, by their probabilities (the largest of logarithms with
        Gumbel noise)."""
        keys = self.log_weights() + self.rng.gumbel(size=len(self.rows))
        keys[taken] = -np.inf
        count = min(count, len(keys) - len(taken))
        return np.argpartition(-keys, count - 1)[:count] if count > 0 else np.zeros(0, np.int64)

    def descend(self, configs: Array, costs: Array, steps: int) -> float:
        """Some steps down the expected cost of `configs`; what it was before the last."""
        self.x = [self.keep * x for x in self.x]
        expected = 0.0
        for _ in range(steps):
            weights = self.log_weights(configs)
            p = np.exp(weights - weights.max())
            p /= p.sum()
            expected = float(p @ costs)
            for factor, (size, x) in enumerate(zip(self.sizes, self.x, strict=True)):
                values = self.rows[configs, factor]
                share = np.bincount(values, p, size)
                gradient = np.bincount(values, p * costs, size) - share * expected
                x += self.rate * natural_step(share, gradient, self.damping)
        return expected
