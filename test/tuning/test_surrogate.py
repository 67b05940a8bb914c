"""The surrogate: kernels that are kernels, predictions that follow the costs, on every kind of space."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_opt import Space
from vyre_opt.tuning.surrogate import FAR, JITTER, MOST, PARTICLES, Surrogate, _inverse, _kernel

SPACES = {
    "numbers": Space({"lanes": (32, 64, 128, 256), "vector": (1, 2, 4), "in_registers": (0, 1)}),
    "union": Space([{"a": (1, 2, 3), "b": (4, 5, 6)}, {"a": (2, 9), "c": (1, 2, 4)}, {"d": (7,)}]),
    "texts": Space({"order": ("rows", "columns", "tiles"), "lanes": (1, 2.5, 64)}),
    "mixed": Space([{"a": (1, "auto", 3), "b": (-1, 0, 1)}, {"a": (1,)}]),
    "single": Space({"a": (1,)}),
    "infinite": Space({"a": (1, float("inf"), 6, 4)}),
    "wide": Space({"a": tuple(range(40)), "b": tuple(range(1, 26))}),
}


@pytest.mark.parametrize("name", SPACES)
def test_every_space_has_a_kernel(name: str) -> None:
    """Positive semidefinite for every draw of hyperparameters, 1 on the diagonal: a missing factor, a text,
    zeros and negative numbers too."""
    space = SPACES[name]
    surrogate = Surrogate(space, np.random.default_rng(3))
    at = surrogate.coordinates[: min(60, len(space))]
    for _ in range(20):
        kernel = _kernel(surrogate._prior(), at, at, float)
        assert np.allclose(np.diagonal(kernel), 1.0)
        assert np.linalg.eigvalsh(kernel.astype(float)).min() > -JITTER / 10
    prediction = surrogate.predict([0], np.zeros(1), np.arange(len(space)))
    assert prediction.means.shape == prediction.deviations.shape == (PARTICLES, len(space))
    assert np.isfinite(prediction.means).all()
    assert (prediction.deviations > 0).all()
    assert (prediction.gains(0.0) >= 0).all()


@pytest.mark.parametrize("name", SPACES)
def test_the_kernel_by_its_formula(name: str) -> None:
    """(1 + s + s^2 / 3) exp(-s), one pair at a time, in double precision."""
    space = SPACES[name]
    surrogate = Surrogate(space, np.random.default_rng(1))
    at = surrogate.coordinates
    rows, columns = np.arange(min(5, len(space))), np.arange(len(space))[-7:]
    for _ in range(5):
        particle = surrogate._prior()
        kernel = _kernel(particle, at[rows], at[columns])
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                d = np.abs(at[row] - at[column]) * np.exp(particle[:-1])
                s = min(FAR, float(np.sqrt(5 * (d @ d))))
                assert kernel[i, j] == pytest.approx((1 + s + s * s / 3) * np.exp(-s), abs=1e-3)


@pytest.mark.parametrize("count", [1, 2, 23, 24, 25, 100, 193])
def test_inverse(count: int) -> None:
    rng = np.random.default_rng(count)
    lower = np.tril(rng.normal(size=(count, count))) / count + np.eye(count)
    assert np.allclose(_inverse(lower), np.linalg.inv(lower), atol=1e-12)


def test_one_that_failed_is_doubted() -> None:
    """Its neighbour is predicted to cost less, and less surely, than if it had been measured at as much."""
    space = Space({"a": tuple(range(20))})
    logs, seen = np.array([0.0, 1.0, 1.0]), [0, 10, 19]
    sure = Surrogate(space, np.random.default_rng(0)).predict(seen, logs, np.arange(20))
    failed = np.array([False, True, False])
    doubted = Surrogate(space, np.random.default_rng(0)).predict(seen, logs, np.arange(20), failed)
    assert doubted.means[:, 10].mean() < sure.means[:, 10].mean()
    assert (doubted.deviations[:, 10] > sure.deviations[:, 10]).all()


def test_coordinates() -> None:
    """One for each number, for each text, and for a factor that may be missing; how often 2 divides a number, unless all are
    powers of it."""
    counts = {
        "numbers": 3,
        "union": 3 + 1 + 4,
        "texts": 3 + 1,
        "mixed": 3 + 1 + 1,
        "single": 0,
        "wide": 2 + 2,
    }
    for name, count in counts.items():
        assert Surrogate(SPACES[name], np.random.default_rng(0)).coordinates.shape[1] == count, name


@pytest.mark.parametrize("kind", ["sum", "twos"])
def test_predicts_what_it_has_not_seen(kind: str) -> None:
    """A cost that is a sum over the factors, and one of how often 2 divides them: from 30 of 100 the others are
    told with less than half of the error of telling the mean, and the errors are as large as they are said to be."""
    space = Space({"lanes": tuple(range(16, 176, 16)), "vector": tuple(range(1, 11))})
    at = [(config["lanes"], config["vector"]) for config in space.configs]
    if kind == "sum":
        costs = np.array([2e-4 * (lanes - 100) ** 2 / 10 + 0.5 * (vector > 4) for lanes, vector in at])
    else:
        costs = np.array([0.4 * (lanes % 64 > 0) + 0.2 * (vector % 2) for lanes, vector in at])
    rng = np.random.default_rng(5)
    seen = [int(k) for k in rng.permutation(100)[:30]]
    others = np.setdiff1d(np.arange(100), seen)
    surrogate = Surrogate(space, rng)
    for _ in range(15):
        prediction = surrogate.predict(seen, costs[seen], others)
    error = prediction.means.mean(axis=0) - costs[others]
    deviation = np.sqrt(np.mean(prediction.deviations**2, axis=0) + prediction.means.var(axis=0))
    assert np.sqrt(np.mean(error**2)) < np.std(costs) / 2
    assert np.mean(np.abs(error) < 3 * deviation) > 0.9


def test_what_is_believed_is_known_better() -> None:
    """As if it was measured at what was predicted: the deviations are those of a process that was given it, means stay."""
    space, rng = SPACES["wide"], np.random.default_rng(2)
    surrogate = Surrogate(space, rng)
    seen, asked = [3, 400, 777, 901], np.array([10, 11, 500, 900])
    logs = np.array([0.0, 0.5, 0.2, 0.9])
    prediction = surrogate.predict(seen, logs, asked)
    before, means = prediction.deviations.copy(), prediction.means.copy()
    for place in (0, 3):
        prediction.believe(place)
    for process, known, after in zip(prediction._processes, before, prediction.deviations, strict=True):
        rows = surrogate.coordinates[np.concatenate([seen, asked[[0, 3]]])]
        kernel = _kernel(process.particle, rows, rows, float) + process.noise * np.eye(len(rows))
        across = _kernel(process.particle, rows, surrogate.coordinates[asked], float)
        left = 1 - np.einsum("mn,mn->n", across, np.linalg.solve(kernel, across))
        assert after == pytest.approx(np.sqrt(np.maximum(left, 0) * process.variance), abs=2e-3)
        assert (after <= known + 1e-12).all()
    assert np.array_equal(prediction.means, means)


def test_more_costs_than_it_holds() -> None:
    """Of many, the cheapest half and others evenly: the best is held, and finding it takes no longer."""
    space = SPACES["wide"]
    picks = list(range(0, 1000, 3))
    logs = np.array([abs(pick - 502) / 500 for pick in picks])
    prediction = Surrogate(space, np.random.default_rng(1)).predict(picks, logs, np.arange(len(space)))
    assert len(picks) > MOST
    assert int(prediction.means.mean(axis=0).argmin()) // 25 in range(17, 24)
