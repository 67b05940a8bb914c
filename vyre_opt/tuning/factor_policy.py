"""A softmax policy over the configurations of a space, with an energy for each value of each factor.

    X_k = sum over the factors of x_f[value of f in k]     the energy of configuration k
    p_k = softmax(-X / T)_k                                over the legal configurations, whatever rules others out

It has a number for each value and not for each configuration, so that what one configuration is expected to cost tells of all
that have a value in common with it.  It descends the expected cost less T times the entropy, sum p (c + T log p), which is
sum p (c - X) but for a constant: without the entropy it would end at one configuration before its cost is known.  In the
logits -x / T, with p_v the probability of the configurations that have value v and a_v the mean of c - X over them,

    g_v  = p_v (a_v - mean)                                the gradient
    F_uv = P(u and v) - p_u p_v                            the Fisher matrix, a block of it for each pair of factors
    x   <- x + rate (F + damping)^-1 g

so that a value which is rare moves as far as one that is not, and values that are always seen together move once.  Where it
comes to rest, X is the sum over the factors that fits the costs best, where the policy is.

All of p, g and F are fitted from the configurations that are given, by the weights that the policy gives them.  The weights
are `config_gradient`, and a step is `natural_config_gradient_pre_exp_fixed` of the p_v with the matrix
(F + damping)^-1 diag(a - mean): both in 16.16 by math.softmax_step and math.matvec_fixed on a dispatcher, with the same bits
on each target.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..execution.dispatcher import Dispatcher
from .fixed import natural_config_gradient_pre_exp_fixed
from .policy import ONE, config_gradient, weights_16_16
from .space import ABSENT, Space

__all__ = ["FactorPolicy"]

Array = np.ndarray[Any, Any]
MOST = (1 << 31) - 1


class FactorPolicy:
    """Uniform over the legal configurations at first.

    `rate`, `damping`: of a step, as above.  Energies and temperatures are in units of the costs.
    """

    def __init__(
        self, space: Space, rate: float, damping: float, dispatcher: str | Dispatcher = "cpu"
    ) -> None:
        self.rate, self.damping, self.dispatcher = rate, damping, dispatcher
        sizes = np.array([len(values) for values in space.factors.values()], np.int32)
        # configurations without a factor have the value behind the last
        rows = np.where(space.rows == ABSENT, sizes, space.rows)
        is_choice = (rows != rows[0]).any(axis=0)
        firsts = np.append(0, np.cumsum(sizes[is_choice] + 1))
        self.columns = rows[:, is_choice] + firsts[:-1]
        self.x = np.zeros(firsts[-1])

    def energy(self, configs: Array) -> Array:
        """X of configurations that are given by index."""
        return np.asarray(self.x[self.columns[configs]].sum(axis=1))

    def keys(self, configs: Array, temperature: float, rng: np.random.Generator) -> Array:
        """A number for each configuration; those of the largest are drawn by the policy, none twice (Gumbel's trick)."""
        return np.asarray(rng.gumbel(size=len(configs)) - self.energy(configs) / temperature)

    def descend(self, configs: Array, costs: Array, temperature: float, steps: int) -> None:
        """Some steps down the expected cost of `configs`, which are given by index."""
        has_value = np.zeros((len(configs), len(self.x)))
        np.put_along_axis(has_value, self.columns[configs], 1.0, axis=1)
        for _ in range(steps):
            energy = self.energy(configs)
            weights = -config_gradient(energy, temperature, self.dispatcher)
            weights /= weights.sum()  # each was rounded down
            advantages = costs - energy
            advantages -= weights @ advantages
            self.x += self.rate * self._natural_gradient(has_value, weights, advantages)

    def _natural_gradient(self, has_value: Array, weights: Array, advantages: Array) -> Array:
        """(F + damping)^-1 g."""
        share, total = weights @ has_value, (weights * advantages) @ has_value
        mean = np.divide(total, share, out=np.zeros(len(share)), where=share > 0)
        fisher = has_value.T @ (weights[:, None] * has_value) - np.outer(share, share)
        # the softmax step divides by the sum of all shares, which is 1 for each factor
        matrix = np.linalg.inv(fisher + self.damping * np.eye(len(share))) * mean * share.sum()
        fixed = np.clip(np.rint(matrix * ONE), -MOST, MOST).astype(np.int64)
        step = natural_config_gradient_pre_exp_fixed(weights_16_16(share), fixed, self.dispatcher)
        return np.asarray(step.view(np.int32) / ONE)
