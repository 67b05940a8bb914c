"""What the measured costs say of the others: a Gaussian process over the factors.

Costs are taken as logarithms over the best, and those far above it are as bad as each other (`CAP`),
so that the model spends nothing on how bad they are.  Two configurations are alike as exp(-sum_f w_f d_f^2),
d_f being how far apart they are in factor f: in steps of its order for numbers, 0 or 1 else.  The
weights w_f, one a factor, and the noise are those under which what was measured is likeliest, by
coordinate ascent over a few levels of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .space import Config, Space

__all__ = ["CAP", "Surrogate"]

Array = np.ndarray[Any, Any]
CAP = 1.5  # in log cost: 4.5 times the best
WEIGHTS = (0.0, 0.3, 1.0, 3.0, 10.0)
NOISES = (1e-3, 1e-2, 1e-1)  # of the variance
PRIOR = (-0.02, 0.0, 0.0, -0.02, -0.1)  # a preference for moderate weights, in nats, where few were measured


class Surrogate:
    """Fits costs of some configurations of a space, and tells the log cost of all.

    `weights`: of each factor of the space, in order; 0 where it does not matter.
    """

    def __init__(self, space: Space) -> None:
        self.distances = _distances(space.configs, list(space.factors))
        self.weights = [1.0] * len(self.distances)
        self.noise = NOISES[1]
        self.count = len(space)
        self._total = sum(self.distances, np.zeros((self.count, self.count)))

    def __len__(self) -> int:
        return self.count

    def apart(self, picks: Sequence[int]) -> Array:
        """How far each configuration is from the nearest of `picks`, all factors counting alike."""
        return np.asarray(self._total[list(picks)].min(axis=0))

    def predict(self, picks: Sequence[int], logs: Array) -> tuple[Array, Array]:
        """Mean and standard deviation for every configuration, of `logs` measured at `picks`."""
        chosen = np.array(picks)
        near = [d[np.ix_(chosen, chosen)] for d in self.distances]
        self._fit(near, logs)
        kernel = _kernel(near, self.weights)
        across = _kernel([d[chosen] for d in self.distances], self.weights)
        lower, alpha, mean, variance = _solve(kernel, self.noise, logs)
        half = np.linalg.solve(lower, across)
        spread = np.maximum(1.0 + self.noise - np.sum(half**2, axis=0), 0.0) * variance
        return mean + across.T @ alpha, np.sqrt(spread)

    def _fit(self, near: Sequence[Array], logs: Array) -> None:
        best = self._likelihood(near, self.weights, self.noise, logs)
        for _ in range(2):
            before = best
            for factor in range(len(self.weights)):
                for weight in WEIGHTS:
                    trial = [*self.weights[:factor], weight, *self.weights[factor + 1 :]]
                    found = self._likelihood(near, trial, self.noise, logs)
                    if found > best + 1e-9:
                        best, self.weights = found, trial
            for noise in NOISES:
                found = self._likelihood(near, self.weights, noise, logs)
                if found > best + 1e-9:
                    best, self.noise = found, noise
            if best == before:
                break

    def _likelihood(
        self, near: Sequence[Array], weights: Sequence[float], noise: float, logs: Array
    ) -> float:
        """Log likelihood with the mean and the variance at their best values."""
        lower, _, _, variance = _solve(_kernel(near, weights), noise, logs)
        prior = sum(PRIOR[WEIGHTS.index(w)] for w in weights if w in WEIGHTS)
        return float(-0.5 * len(logs) * np.log(variance) - np.sum(np.log(np.diag(lower)))) + prior


def _solve(kernel: Array, noise: float, logs: Array) -> tuple[Array, Array, float, float]:
    """The Cholesky factor, the weights of the observations, the mean, and the variance of the process."""
    count = len(logs)
    lower = np.linalg.cholesky(kernel + noise * np.eye(count))
    solved = np.linalg.solve(lower.T, np.linalg.solve(lower, np.stack([logs, np.ones(count)], axis=1)))
    mean = float(solved[:, 0].sum() / solved[:, 1].sum())
    alpha = solved[:, 0] - mean * solved[:, 1]
    # a little of a variance of 0.1 is mixed in, so that three equal costs do not look certain
    variance = (float((logs - mean) @ alpha) + 0.1) / (count + 1)
    return lower, alpha, mean, variance


def _kernel(distances: Sequence[Array], weights: Sequence[float]) -> Array:
    if not distances:
        return np.ones((1, 1))
    total = np.zeros(distances[0].shape)
    for each, weight in zip(distances, weights, strict=True):
        if weight:
            total += weight * each
    return np.asarray(np.exp(-total))


def _distances(configs: Sequence[Config], factors: Sequence[str]) -> list[Array]:
    """For each factor, squared distances of all configurations."""
    found = []
    for name in factors:
        values = [config.get(name) for config in configs]
        levels = sorted({v for v in values if isinstance(v, (int, float))})
        places = np.array([levels.index(v) if isinstance(v, (int, float)) else -1 for v in values], float)
        scale = max(1.0, (len(levels) - 1) / 2)  # the whole range is two units, a step at most one
        squared = ((places[:, None] - places[None, :]) / scale) ** 2
        odd = np.array([v if not isinstance(v, (int, float)) else "" for v in values], dtype=object)
        apart = np.array([[a is not b and a != b for b in odd] for a in odd])
        found.append(np.where(apart, 1.0, squared))
    return found
