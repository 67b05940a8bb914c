"""What the measured costs say of the others: Gaussian processes over the factors, many at once.

With a dozen costs known, many processes fit about as well and differ in what they say of the rest.  So
none is chosen: PARTICLES of them are held, each with hyperparameters of its own, and moved by Markov
chains (Metropolis, proposals from the prior) whose distribution is that of the hyperparameters given the
costs.  What is told is the mean over all.

A configuration has a coordinate for each factor: a number its place in the order of the factor's values,
over [-1, 1]; a text one of its own.  For two factors of positive numbers, so has the logarithm of their
product (lanes * rows is what a workgroup takes on, whatever the kernel).  A configuration without the
factor is at 0, and a unit aside.  With d_f the squared distance by coordinate f and w_f its weight, 0
where it does not count,

    k = b exp(-sum_f w_f d_f) + (1 - b) mean_f 1 / (1 + w_f d_f)

whose second part is a sum over single factors: the best of one factor beside the best of another is good,
though the two were never seen together.

Costs are taken as logarithms over the best, and those far above it are as bad as each other (`CAP`),
so that the model spends nothing on how bad they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import log2
from typing import Any

import numpy as np

from .space import Config, Space

__all__ = ["CAP", "Surrogate"]

Array = np.ndarray[Any, Any]
CAP = 1.5  # in log cost: 4.5 times the best
PARTICLES = 24
MOVES = 6  # of each chain whenever costs are added
# Fewer are asked, so that a step takes some 50 ms at most: particles x costs x configurations.
LEAST_PARTICLES, CELLS = 6, PARTICLES << 14
MOST = 96  # costs that the processes are of: of more, the cheapest third and some of the others
PAIRED_LEVELS = 3  # of a factor that is taken in products
JITTER = 1e-6

# The prior: weights are log-normal or 0, the noise (of the variance) is log-normal, b is even on [0, 1].
WEIGHT_SPREAD = 1.3
IDLE, IDLE_PRODUCT = 0.25, 0.8
NOISE, NOISE_SPREAD = 3e-3, 1.2
# a little of a variance of 0.1 is mixed in, so that three equal costs do not look certain
VARIANCE = 0.1


class Surrogate:
    """Tells the log cost of every configuration of a space from those of some, by `rng`'s chains."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        single, products = _coordinates(space.configs, space.factors)
        self.coordinates = np.array([*single, *products]).reshape(-1, len(space), 2)
        self.idle = np.repeat([IDLE, IDLE_PRODUCT], [len(single), len(products)])
        self.singles = len(single)
        self.count = len(space)
        self.rng = rng
        self.particles = self._prior()

    def apart(self, picks: Sequence[int]) -> Array:
        """How far each configuration is from the nearest of `picks`, all factors counting alike."""
        return np.asarray(self._distances(picks)[: self.singles].sum(axis=0).min(axis=0))

    def predict(self, picks: Sequence[int], logs: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of each process for every configuration, PARTICLES x configurations, or
        those of a few of the processes where there is much to tell.

        `logs`: of what was measured at `picks`, at least one.  A deviation is that of the cost, not of a sample.
        """
        kept = _telling(logs)
        chosen, known = [picks[k] for k in kept], logs[kept]
        across = self._distances(chosen)
        near = across[:, :, chosen]
        self._move(near, known)
        asked = self.particles[: max(LEAST_PARTICLES, CELLS // (len(chosen) * self.count))]
        lower, residual, mean, variance, _ = _solve(asked, near, known, self.singles)
        half = np.linalg.solve(lower, _kernel(asked, across, self.singles))
        spread = np.maximum(1.0 - np.sum(half**2, axis=1), 1e-9) * variance[:, None]
        return mean[:, None] + np.einsum("hm,hmn->hn", residual, half), np.sqrt(spread)

    def _move(self, near: Array, logs: Array) -> None:
        likelihood = _solve(self.particles, near, logs, self.singles)[-1]
        rate = max(0.15, 1.5 / self.particles.shape[1])  # of the hyperparameters that a move draws anew
        for _ in range(MOVES):
            drawn = self.rng.random(self.particles.shape) < rate
            trial = np.where(drawn, self._prior(), self.particles)
            found = _solve(trial, near, logs, self.singles)[-1]
            taken = np.log(self.rng.random(PARTICLES)) < found - likelihood
            self.particles = np.where(taken[:, None], trial, self.particles)
            likelihood = np.where(taken, found, likelihood)

    def _prior(self) -> Array:
        """PARTICLES rows of: the weights, the noise, b."""
        count = len(self.idle)
        weights = np.exp(self.rng.normal(0.0, WEIGHT_SPREAD, (PARTICLES, count)))
        weights *= self.rng.random((PARTICLES, count)) >= self.idle
        noise = np.exp(self.rng.normal(np.log(NOISE), NOISE_SPREAD, (PARTICLES, 1)))
        return np.concatenate([weights, noise, self.rng.random((PARTICLES, 1))], axis=1)

    def _distances(self, picks: Sequence[int]) -> Array:
        """Squared, by coordinate: coordinates x picks x configurations."""
        at = self.coordinates
        apart: Array = np.sum((at[:, list(picks), None, :] - at[:, None, :, :]) ** 2, axis=-1)
        return apart


def _solve(
    particles: Array, near: Array, logs: Array, singles: int
) -> tuple[Array, Array, Array, Array, Array]:
    """Of each process: the Cholesky factor, the residuals it whitens, the mean, the variance, and the log
    likelihood, with mean and variance integrated out."""
    count = len(logs)
    noise = particles[:, -2, None, None] + JITTER
    lower = np.linalg.cholesky(_kernel(particles, near, singles) + noise * np.eye(count))
    sides = np.broadcast_to(np.stack([logs, np.ones(count)], axis=1), (len(particles), count, 2))
    solved = np.linalg.solve(lower, sides)
    ours, ones = solved[:, :, 0], solved[:, :, 1]
    weight = np.sum(ones**2, axis=1)
    mean = np.sum(ours * ones, axis=1) / weight
    residual = ours - mean[:, None] * ones
    square = np.sum(residual**2, axis=1) + VARIANCE
    halves = np.sum(np.log(np.diagonal(lower, axis1=1, axis2=2)), axis=1)
    likelihood = -0.5 * (count + 1) * np.log(square) - halves - 0.5 * np.log(weight)
    return lower, residual, mean, square / (count + 1), likelihood


def _kernel(particles: Array, distances: Array, singles: int) -> Array:
    """Particles x the last two axes of `distances`, whose first `singles` are of single factors."""
    weights, both = particles[:, :-2], particles[:, -1, None, None]
    product = np.exp(-np.tensordot(weights, distances, axes=1))
    alone = weights[:, :singles]
    used = np.maximum(np.count_nonzero(alone, axis=1), 1)
    total = np.zeros_like(product)
    for weight, each in zip(alone.T, distances[:singles], strict=True):
        total += 1.0 / (1.0 + weight[:, None, None] * each)
    total -= (singles - used)[:, None, None]  # a factor of no weight has added 1
    return np.asarray(both * product + (1 - both) * total / used[:, None, None])


def _telling(logs: Array) -> Array:
    """Places of the costs that the processes are of: all, or MOST of them."""
    if len(logs) <= MOST:
        return np.arange(len(logs))
    order = np.argsort(logs, kind="stable")
    cheap, others = order[: MOST // 3], order[MOST // 3 :]
    return np.concatenate([cheap, others[np.linspace(0, len(others) - 1, MOST - len(cheap)).astype(int)]])


def _coordinates(
    configs: Sequence[Config], factors: dict[str, tuple[Any, ...]]
) -> tuple[list[Array], list[Array]]:
    """Those of single factors, and those of products; a row a configuration: where it is, and how far aside."""
    single, columns = [], []
    for name, levels in factors.items():
        values = [config.get(name) for config in configs]
        numbers = sorted(level for level in levels if not isinstance(level, str))
        single += [_placed(values, numbers)] if numbers else []
        single += [
            np.array([(float(v == text) / np.sqrt(2), 0.0) for v in values])
            for text in levels
            if isinstance(text, str)
        ]
        if len(levels) == len(numbers) >= PAIRED_LEVELS and numbers[0] > 0:
            columns.append(values)
    products = []
    for one, other in combinations(columns, 2):
        logs = [
            None if a is None or b is None else log2(a) + log2(b) for a, b in zip(one, other, strict=True)
        ]
        known = [x for x in logs if x is not None]
        if known and max(known) > min(known):
            low, high = min(known), max(known)
            products.append(
                np.array([(0.0, 1.0) if x is None else (2 * (x - low) / (high - low) - 1, 0) for x in logs])
            )
    return single, products


def _placed(values: Sequence[Any], levels: Sequence[float]) -> Array:
    """Numbers by their order over [-1, 1]; of two, half a unit from 0.  What is no number is a unit aside."""
    middle, scale = (len(levels) - 1) / 2, max(1.0, (len(levels) - 1) / 2)
    places = {level: (place - middle) / scale for place, level in enumerate(levels)}
    return np.array([(places[v], 0.0) if v in places else (0.0, 1.0) for v in values])
