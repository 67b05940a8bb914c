"""A softmax policy over the configurations of a space, with an energy for each value of each factor.

    X_k = sum over the factors of x_f[value of f in k]     the energy of configuration k
    p_k = softmax(-X / T)_k                                over the legal configurations, whatever rules others out

It has a number for each value and not for each configuration, so that what one configuration is expected to cost tells of all
that have a value in common with it.  It descends the expected cost less T times the entropy, sum p (c + T log p), which is
sum p (c - X) but for a constant: without the entropy it would end at one configuration before its cost is known.  In the
logits -x / T of a factor, with p_v the probability of a value and a_v the mean of c - X over the configurations that have it,

    g_v = p_v (a_v - mean)                                 the gradient
    F   = diag(p) - p p^T                                  the Fisher block of the factor
    x  <- x + rate (F + damping)^-1 g

so that a value which is rare moves as far as one that is not.  Where it comes to rest, X is the sum over the factors that fits
the costs best, where the policy is.

All of p, g and F are fitted from the configurations that are given, by the weights that the policy gives them.  The weights
are `config_gradient`, and a step is `natural_config_gradient_pre_exp_fixed` of the p_v with the matrix
(F + damping)^-1 diag(a - mean): both in 16.16 by math.softmax_step and math.matvec_fixed on a dispatcher, with the same bits
on each target.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime.dispatcher import Dispatcher
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
        self.rows = rows[:, is_choice]
        self.energies = [np.zeros(size + 1) for size in sizes[is_choice]]

    def energy(self, configs: Array) -> Array:
        """X of configurations that are given by index."""
        total = np.zeros(len(configs))
        for x, values in zip(self.energies, self.rows[configs].T, strict=True):
            total += x[values]
        return total

    def keys(self, configs: Array, temperature: float, rng: np.random.Generator) -> Array:
        """A number for each configuration; those of the largest are drawn by the policy, none twice (Gumbel's trick)."""
        return np.asarray(rng.gumbel(size=len(configs)) - self.energy(configs) / temperature)

    def descend(self, configs: Array, costs: Array, temperature: float, steps: int) -> None:
        """Some steps down the expected cost of `configs`, which are given by index."""
        for _ in range(steps):
            energy = self.energy(configs)
            weights = -config_gradient(energy, temperature, self.dispatcher)
            weights /= weights.sum()  # each was rounded down
            advantages = costs - energy
            advantages -= weights @ advantages
            self.energies = [
                x + self.rate * self._natural_gradient(values, weights, advantages, len(x))
                for x, values in zip(self.energies, self.rows[configs].T, strict=True)
            ]

    def _natural_gradient(self, values: Array, weights: Array, advantages: Array, size: int) -> Array:
        """(F + damping)^-1 g of a factor of `size` values, of which the configurations have `values`."""
        share = np.bincount(values, weights, size)
        total = np.bincount(values, weights * advantages, size)
        mean = np.divide(total, share, out=np.zeros(size), where=share > 0)
        fisher = np.diag(share) - np.outer(share, share)
        matrix = np.linalg.inv(fisher + self.damping * np.eye(size)) * mean
        fixed = np.clip(np.rint(matrix * ONE), -MOST, MOST).astype(np.int64)
        step = natural_config_gradient_pre_exp_fixed(weights_16_16(share), fixed, self.dispatcher)
        return np.asarray(step.view(np.int32) / ONE)
