"""The surrogate: kernels that are kernels, predictions that follow the costs, on every kind of space."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_opt import Space
from vyre_opt.tuning.surrogate import MOST, PARTICLES, Surrogate, _kernel

SPACES = {
    "numbers": Space({"lanes": (32, 64, 128, 256), "vector": (1, 2, 4), "kept": (0, 1)}),
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
    at = surrogate.coordinates[:60]
    for _ in range(20):
        kernel = _kernel(surrogate._prior(), at, at, surrogate.singles)
        assert np.allclose(np.diagonal(kernel), 1.0)
        assert np.linalg.eigvalsh(kernel).min() > -1e-9
    prediction = surrogate.predict([0], np.zeros(1), np.arange(len(space)))
    assert prediction.means.shape == prediction.deviations.shape == (PARTICLES, len(space))
    assert np.isfinite(prediction.means).all()
    assert (prediction.deviations > 0).all()
    assert (prediction.gains(0.0) >= 0).all()


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
        at = surrogate.coordinates
        rows = np.concatenate([at[seen], at[asked[[0, 3]]]])
        kernel = _kernel(process.particle, rows, rows, surrogate.singles) + process.noise * np.eye(len(rows))
        across = _kernel(process.particle, rows, at[asked], surrogate.singles)
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
