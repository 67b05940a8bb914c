"""Predicts the costs of configurations that are not measured: a few Gaussian processes.

With a dozen costs known, many processes fit about equally well and differ in their predictions.  So none
is selected: there are PARTICLES of them, each with hyperparameters of its own, which are the states of
Markov chains (Metropolis) that sample the posterior of the hyperparameters given the costs.  The prediction
is the mean over all.

A configuration has a coordinate for each factor: for numbers the index of its value among the values of
the factor, scaled to [0, 1]; for texts one coordinate per text.  A factor of integers has one more, how often
2 divides the value: schedules that fill whole vectors, banks and subgroups are alike, whatever their size.
One without the factor is in the middle, and apart from all others in a second coordinate.  With d_f the
distance by coordinate f, times its weight, and r^2 the sum of all d_f^2, the kernel is that of Matern of order 5/2,

    k = (1 + s + s^2 / 3) exp(-s),      s = sqrt(5) r
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from math import pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from .space import ABSENT, Space

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

__all__ = ["PARTICLES", "Prediction", "Surrogate", "one_blas_thread"]

Array = np.ndarray[Any, Any]
PARTICLES = 4
MOVES = 1  # steps of each chain whenever costs are added
MOST = 192  # costs that are used: of more, the cheapest and some of the others
JITTER = 1e-4
DOUBT = 0.3  # of one that failed: the noise of its cost, as a part of the variance
FAR = 30.0  # a distance beyond which nothing is told apart; powers of larger ones are denormal, and slow
BLOCK = 48  # rows of a kernel that are computed together
LEAF = 24  # up to which a triangular matrix is inverted as a whole

# The prior: weights are log-normal, and so is the noise, as a part of the variance.
WEIGHT, WEIGHT_OF_TWOS, WEIGHT_SPREAD = 0.5, -0.5, 1.3
NOISE, NOISE_SPREAD = 1e-3, 1.0
# added to the sum of squares, so that after three equal costs the predictions are not certain
VARIANCE = 0.1
# Proposals of a chain: redraw all, redraw some, or move some by a normal step.
ANEW, SOME_ANEW, SHARE, MOVED, STEP = 0.1, 0.2, 0.3, 2.5, 0.8


@dataclass
class Prediction:
    """Costs of some configurations, by each process a row: `means`, and the `deviations` of the costs, without the noise of a
    measurement."""

    means: Array
    deviations: Array
    _processes: list[_Process]

    def gains(self, best: float) -> Array:
        """The expected gain of measuring each over a cost `best`, in the mean of all processes.

        Of a normal distribution: s (z Phi(z) + phi(z)) with z = (best - mean) / s.
        """
        z = (best - self.means) / self.deviations
        density = np.exp(-(z**2) / 2) / sqrt(2 * pi)
        gains: Array = np.mean(self.deviations * (z * _normal(z, density) + density), axis=0)
        return np.maximum(gains, 0.0)

    def believe(self, index: int) -> None:
        """Continue as if a configuration had been measured at its expected cost, which lowers the doubt about similar ones."""
        for process, deviations in zip(self._processes, self.deviations, strict=True):
            change = process.change(index)
            np.sqrt(np.maximum(deviations**2 - change**2, 1e-8), out=deviations)


class Surrogate:
    """Predicts the costs of configurations of a space from those of some; `rng` drives the chains.

    `twos`: whether there are coordinates of how often 2 divides.
    """

    def __init__(self, space: Space, rng: np.random.Generator, twos: bool = True) -> None:
        single, halvings = _coordinates(space)
        halvings = halvings if twos else []
        self.coordinates = np.array([*single, *halvings]).reshape(-1, len(space)).T
        self.singles = len(single)
        self.rng = rng
        weights = np.repeat([WEIGHT, WEIGHT_OF_TWOS], [len(single), len(halvings)])
        self.middle = np.append(weights, np.log(NOISE))
        self.spread = np.append(np.full(len(weights), WEIGHT_SPREAD), NOISE_SPREAD)
        self.particles = [self._prior() for _ in range(PARTICLES)]

    def squared_distances(self, pick: int) -> Array:
        """The squared distance of each configuration from one, all factors weighted alike."""
        single = self.coordinates[:, : self.singles]
        return np.asarray(((single - single[pick]) ** 2).sum(axis=1))

    def predict(
        self, picks: Sequence[int], logs: Array, candidates: Array, failed: Array | None = None
    ) -> Prediction:
        """The costs of `candidates` where those of `picks`, at least one, are `logs`; the chains go on.

        `failed`: True for configurations without a cost of their own.
        """
        selected = _selection(logs)
        doubts = np.zeros(len(selected)) if failed is None else DOUBT * failed[selected]
        observed, logs = self.coordinates[np.asarray(picks)[selected]], logs[selected]
        processes = [self._moved(particle, observed, logs, doubts) for particle in self.particles]
        self.particles = [process.particle for process in processes]
        queries = self.coordinates[candidates]
        rows = [process.predict(queries) for process in processes]
        return Prediction(
            np.array([mean for mean, _ in rows]), np.array([each for _, each in rows]), processes
        )

    def _moved(self, particle: Array, known: Array, logs: Array, doubts: Array) -> _Process:
        """The process where a chain is after MOVES steps."""
        process = _Process(particle, known, logs, doubts)
        for _ in range(MOVES):
            trial = _Process(self._proposal(process.particle), known, logs, doubts)
            if np.log(self.rng.random()) < self._density(trial) - self._density(process):
                process = trial
        return process

    def _proposal(self, particle: Array) -> Array:
        how = self.rng.random()
        if how < ANEW:
            return self._prior()
        if how < ANEW + SOME_ANEW:
            return np.where(self.rng.random(len(particle)) < SHARE, self._prior(), particle)
        moves = self.rng.random(len(particle)) < MOVED / len(particle)
        return particle + moves * self.rng.normal(0.0, STEP, len(particle))

    def _density(self, process: _Process) -> float:
        """The logarithm of the posterior density of its hyperparameters, up to a constant."""
        prior = -0.5 * float(np.sum(((process.particle - self.middle) / self.spread) ** 2))
        return prior + float(process.likelihood)

    def _prior(self) -> Array:
        """The logarithms of the weights and of the noise."""
        return self.middle + self.spread * self.rng.standard_normal(len(self.middle))


class _Process:
    """A Gaussian process given some costs, with mean and variance integrated out of its `likelihood`.

    `doubts`: what is added to the noise of each cost."""

    def __init__(self, particle: Array, observed: Array, logs: Array, doubts: Array) -> None:
        self.particle, self.known, count = particle, observed, len(logs)
        self.noise = float(np.exp(particle[-1])) + JITTER
        # two more rows and columns, so that the same decomposition solves for the costs and for ones; the corner is large
        # enough for the whole to be positive definite
        bordered = np.empty((count + 2, count + 2))
        bordered[:count, :count] = _kernel(particle, observed, observed, float)
        bordered[count], bordered[count + 1] = np.append(logs, [0, 0]), 1.0
        np.fill_diagonal(bordered[:count, :count], 1 + self.noise + doubts)
        bordered[count:, count:] = 2 * (count + logs @ logs) / self.noise * np.eye(2)
        factor = np.linalg.cholesky(bordered)  # reads only the diagonal and the elements below it
        self.lower, (ours, ones) = factor[:count, :count], factor[count:, :count]
        weight = float(ones @ ones)
        self.mean = float(ours @ ones) / weight
        self.residual = ours - self.mean * ones
        square = float(self.residual @ self.residual) + VARIANCE
        self.variance = square / (count + 1)
        halves = float(np.sum(np.log(np.diagonal(self.lower))))
        self.likelihood = -0.5 * (count + 1) * np.log(square) - halves - 0.5 * np.log(weight)

    def predict(self, queries: Array) -> tuple[Array, Array]:
        """The mean and the deviation of the costs at some coordinates."""
        self.asked = queries
        across = _kernel(self.particle, self.known, queries)
        self.half = _inverse(self.lower.astype(np.float32)) @ across
        spread = np.maximum(1.0 - np.einsum("mn,mn->n", self.half, self.half), 1e-6) * self.variance
        self.changes: list[Array] = []
        return self.mean + self.residual.astype(np.float32) @ self.half, np.sqrt(spread)

    def change(self, index: int) -> Array:
        """Change of each requested cost by the cost at `index`, once that is known.  Its square is the loss of their variances."""
        along = _kernel(self.particle, self.asked[index : index + 1], self.asked)[0]
        along = along - self.half[:, index] @ self.half
        for change in self.changes:
            along = along - change[index] * change
        change = along / sqrt(max(float(along[index]), 0.0) + self.noise)
        self.changes.append(change)
        return np.asarray(change * sqrt(self.variance))


def one_blas_thread() -> AbstractContextManager[Any]:
    """Matrices as small as those here take ten times as long where several threads share them."""
    return _blas().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@cache
def _blas() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _normal(z: Array, density: Array) -> Array:
    """The distribution function of the normal distribution, whose density at z is given, to 7.5e-8 (Abramowitz and Stegun,
    26.2.17)."""
    t = 1 / (1 + 0.2316419 * np.abs(z))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    return np.where(z < 0, density * series, 1 - density * series)


def _kernel(particle: Array, one: Array, other: Array, dtype: Any = np.float32) -> Array:
    """The kernel k between two lists of configurations, in single precision.

    `dtype`: of the squares that distances are the difference of; in double precision equal rows have equal columns.
    """
    weights = np.exp(particle[:-1])
    x, y = one * weights, other * weights
    # a row (x, |x|^2, 1) times a column (-2 y, 1, |y|^2) is |x - y|^2; of s^2 it is five times that
    left = np.column_stack([x, (x * x).sum(axis=1), np.ones(len(x))]).astype(dtype)
    right = np.column_stack([-10 * y, np.full(len(y), 5.0), 5 * (y * y).sum(axis=1)]).astype(dtype).T
    kernel = np.empty((len(x), len(y)), np.float32)
    for start in range(0, len(x), BLOCK):  # which caches hold
        rows = slice(start, start + BLOCK)
        # OpenBLAS also multiplies what lies behind a small matrix in a register, which may be no number
        with np.errstate(invalid="ignore"):
            product = left[rows] @ right
        s = np.clip(product, 0, FAR**2, dtype=np.float32)
        np.sqrt(s, out=s)
        block = np.multiply(s, np.float32(1 / 3), out=kernel[rows])
        block += 1
        block *= s
        block += 1
        block *= np.exp(np.negative(s, out=s), out=s)
    return kernel


def _inverse(lower: Array) -> Array:
    """Inverse of a lower triangular matrix, by halves."""
    count = len(lower)
    if count <= LEAF:
        return np.asarray(np.linalg.inv(lower))
    half = count // 2
    inverse = np.zeros_like(lower)
    inverse[:half, :half] = first = _inverse(lower[:half, :half])
    inverse[half:, half:] = last = _inverse(lower[half:, half:])
    inverse[half:, :half] = -last @ (lower[half:, :half] @ first)
    return inverse


def _selection(logs: Array) -> Array:
    """The indices of the costs that are used: all, or MOST of them."""
    if len(logs) <= MOST:
        return np.arange(len(logs))
    order = np.argsort(logs, kind="stable")
    cheap, others = order[: MOST // 2], order[MOST // 2 :]
    return np.concatenate([cheap, others[np.linspace(0, len(others) - 1, MOST - len(cheap)).astype(int)]])


def _coordinates(space: Space) -> tuple[list[Array], list[Array]]:
    """Coordinates of single factors, and how often 2 divides their values: each of all configurations."""
    single, twos = [], []
    for column, levels in zip(space.rows.T, space.factors.values(), strict=True):
        numbers = sorted(level for level in levels if not isinstance(level, str))
        texts = [level for level in levels if isinstance(level, str)]
        if len(levels) == 1 and not (column == ABSENT).any():
            continue
        if len(numbers) > 1:
            single.append(_at([_index(level, numbers) for level in levels], column))
        single += [_at([float(level == text) / sqrt(2) for level in levels], column) for text in texts]
        if texts and numbers:
            single.append(_at([float(isinstance(level, str)) for level in levels], column))
        if (column == ABSENT).any():
            single.append((column == ABSENT).astype(float))
        halvings = [_halvings(level) for level in levels]
        ascending = [_halvings(number) for number in numbers]
        # of powers of two it is the index again
        if len(numbers) > 2 and len(set(halvings)) > 2 and ascending != sorted(ascending):
            least, most = min(halvings), max(halvings)
            twos.append(_at([(halving - least) / (most - least) for halving in halvings], column))
    return single, twos


def _index(level: Any, numbers: Sequence[float]) -> float:
    """The index of a number among all, scaled to [0, 1]; a half for a text."""
    return 0.5 if isinstance(level, str) else numbers.index(level) / (len(numbers) - 1)


def _at(values: Sequence[float], column: Array) -> Array:
    """The value of each configuration by its level; of those without the factor the middle."""
    return np.array([*values, 0.5])[column]


def _halvings(value: Any) -> int:
    """Number of times that 2 divides an integer; 0 for anything else."""
    if isinstance(value, str) or value == 0 or (isinstance(value, float) and not value.is_integer()):
        return 0
    number = int(value)
    return (number & -number).bit_length() - 1
