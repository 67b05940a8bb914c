"""Predicts the costs of configurations that are not measured: an ensemble of Gaussian processes.

With a dozen costs known, many processes fit about equally well and differ in their predictions.  So none
is selected: there are PARTICLES of them, each with hyperparameters of its own, which are the states of
Markov chains (Metropolis, proposals from the prior) that sample the posterior of the hyperparameters
given the costs.  The prediction is the mean over all.

A configuration has a coordinate for each factor: for numbers the index of its value among the values of
the factor, scaled to [-1, 1]; for texts one coordinate per text.  Two factors of positive numbers have
one more, the logarithm of their product (lanes * rows is the work of a workgroup, whatever the kernel).
A configuration without the factor is at 0, at a distance of 1 in a second dimension.  With d_f the squared
distance by coordinate f and w_f its weight, 0 if the coordinate has no influence,

    k = b exp(-sum_f w_f d_f) + (1 - b) mean_f 1 / (1 + w_f d_f)

The second part is a sum over single factors: it predicts that the best value of one factor together with
the best of another is good, even if the two were never measured together.

Costs are logarithms of the ratio to the best, limited to CAP: how bad the bad ones are does not matter.
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
MOVES = 6  # steps of each chain whenever costs are added
# Fewer particles predict if particles x costs x configurations > CELLS: a step takes 50 ms at most.
LEAST_PARTICLES, CELLS = 6, PARTICLES << 14
MOST = 96  # costs that are used: of more, the cheapest and some of the others
PAIRED_LEVELS = 3  # values that a factor has at least to be used in products
JITTER = 1e-6

# The prior: weights are log-normal, or 0 with probability IDLE; the noise, as a part of the variance, is
# log-normal; b is uniform on [0, 1].
WEIGHT_SPREAD = 1.3
IDLE, IDLE_PRODUCT = 0.25, 0.8
NOISE, NOISE_SPREAD = 3e-3, 1.2
# added to the sum of squares, so that after three equal costs the predictions are not certain
VARIANCE = 0.1


class Surrogate:
    """Predicts the log cost of every configuration of a space from those of some; `rng` drives the chains."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        single, products = _coordinates(space.configs, space.factors)
        self.coordinates = np.array([*single, *products]).reshape(-1, len(space), 2)
        self.idle = np.repeat([IDLE, IDLE_PRODUCT], [len(single), len(products)])
        self.singles = len(single)
        self.count = len(space)
        self.rng = rng
        self.particles = self._prior()

    def squared_distances(self, picks: Sequence[int]) -> Array:
        """The squared distance of each configuration from the nearest of `picks`, all factors weighted alike."""
        return np.asarray(self._distances(picks)[: self.singles].sum(axis=0).min(axis=0))

    def predict(self, picks: Sequence[int], logs: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of each process for every configuration: particles x configurations.

        `logs`: the log costs of `picks`, at least one.  The deviation is that of the cost, without the noise
        of a measurement.  There are fewer than PARTICLES rows if the space is large (see CELLS).
        """
        used = _selection(logs)
        places, known = [picks[k] for k in used], logs[used]
        across = self._distances(places)
        near = across[:, :, places]
        self._move(near, known)
        particles = self.particles[: max(LEAST_PARTICLES, CELLS // (len(places) * self.count))]
        lower, residual, mean, variance, _ = _solve(particles, near, known, self.singles)
        half = np.linalg.solve(lower, _kernel(particles, across, self.singles))
        spread = np.maximum(1.0 - np.sum(half**2, axis=1), 1e-9) * variance[:, None]
        return mean[:, None] + np.einsum("hm,hmn->hn", residual, half), np.sqrt(spread)

    def _move(self, near: Array, logs: Array) -> None:
        """MOVES steps of every chain."""
        likelihood = _solve(self.particles, near, logs, self.singles)[-1]
        rate = max(0.15, 1.5 / self.particles.shape[1])  # of the hyperparameters that a move draws anew
        # a proposal is drawn from the prior, so the prior cancels, and likelihoods alone decide
        for _ in range(MOVES):
            drawn = self.rng.random(self.particles.shape) < rate
            trial = np.where(drawn, self._prior(), self.particles)
            proposed = _solve(trial, near, logs, self.singles)[-1]
            accepted = np.log(self.rng.random(PARTICLES)) < proposed - likelihood
            self.particles = np.where(accepted[:, None], trial, self.particles)
            likelihood = np.where(accepted, proposed, likelihood)

    def _prior(self) -> Array:
        """PARTICLES draws from the prior: rows of the weights, the noise, b."""
        count = len(self.idle)
        weights = np.exp(self.rng.normal(0.0, WEIGHT_SPREAD, (PARTICLES, count)))
        weights *= self.rng.random((PARTICLES, count)) >= self.idle
        noise = np.exp(self.rng.normal(np.log(NOISE), NOISE_SPREAD, (PARTICLES, 1)))
        return np.concatenate([weights, noise, self.rng.random((PARTICLES, 1))], axis=1)

    def _distances(self, picks: Sequence[int]) -> Array:
        """Squared distances along each coordinate: coordinates x picks x configurations."""
        at = self.coordinates
        squared: Array = np.sum((at[:, list(picks), None, :] - at[:, None, :, :]) ** 2, axis=-1)
        return squared


def _solve(
    particles: Array, near: Array, logs: Array, singles: int
) -> tuple[Array, Array, Array, Array, Array]:
    """For each process: the Cholesky factor of its covariance, the whitened residuals, the mean, the variance,
    and the log likelihood with mean and variance integrated out."""
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
    """The kernel k of each particle: particles x the last two axes of `distances`, whose first `singles` rows
    are those of single factors."""
    weights, both = particles[:, :-2], particles[:, -1, None, None]
    product = np.exp(-np.tensordot(weights, distances, axes=1))
    alone = weights[:, :singles]
    used = np.maximum(np.count_nonzero(alone, axis=1), 1)
    total = np.zeros_like(product)
    for weight, each in zip(alone.T, distances[:singles], strict=True):
        total += 1.0 / (1.0 + weight[:, None, None] * each)
    total -= (singles - used)[:, None, None]  # a factor of no weight has added 1
    return np.asarray(both * product + (1 - both) * total / used[:, None, None])


def _selection(logs: Array) -> Array:
    """The indices of the costs that are used: all, or MOST of them."""
    if len(logs) <= MOST:
        return np.arange(len(logs))
    order = np.argsort(logs, kind="stable")
    cheap, others = order[: MOST // 3], order[MOST // 3 :]
    return np.concatenate([cheap, others[np.linspace(0, len(others) - 1, MOST - len(cheap)).astype(int)]])


def _coordinates(
    configs: Sequence[Config], factors: dict[str, tuple[Any, ...]]
) -> tuple[list[Array], list[Array]]:
    """Coordinates of single factors, and of products, each with a row (position, offset) for each configuration.

    The offset is 1 for a configuration without the factor, else 0.
    """
    single, columns = [], []
    for name, levels in factors.items():
        values = [config.get(name) for config in configs]
        numbers = sorted(level for level in levels if not isinstance(level, str))
        single += [_scaled_index(values, numbers)] if numbers else []
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


def _scaled_index(values: Sequence[Any], levels: Sequence[float]) -> Array:
    """The indices of values in `levels`, scaled to [-1, 1]; of two levels, to -0.5 and 0.5."""
    middle, scale = (len(levels) - 1) / 2, max(1.0, (len(levels) - 1) / 2)
    places = {level: (place - middle) / scale for place, level in enumerate(levels)}
    return np.array([(places[v], 0.0) if v in places else (0.0, 1.0) for v in values])
