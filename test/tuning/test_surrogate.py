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
    "wide": Space({"a": tuple(range(40)), "b": tuple(range(1, 26))}),
}


@pytest.mark.parametrize("name", SPACES)
def test_every_space_has_a_kernel(name: str) -> None:
    """Positive semidefinite for every draw of hyperparameters, 1 on the diagonal: a missing factor, a text,
    zeros and negative numbers too."""
    space = SPACES[name]
    surrogate = Surrogate(space, np.random.default_rng(3))
    picks = list(range(len(space)))[:60]
    near = surrogate._distances(picks)[:, :, picks]
    kernels = _kernel(surrogate.particles, near, surrogate.singles)
    assert np.allclose(np.diagonal(kernels, axis1=1, axis2=2), 1.0)
    assert np.linalg.eigvalsh(kernels).min() > -1e-9
    mean, spread = surrogate.predict(picks[:1], np.zeros(1))
    assert mean.shape == spread.shape == (PARTICLES, len(space))
    assert np.isfinite(mean).all()
    assert (spread > 0).all()


def test_products_are_of_positive_numbers_alone() -> None:
    """lanes * vector is a coordinate; a flag, a text, and what may be 0 or less are in none."""
    assert len(Surrogate(SPACES["numbers"], np.random.default_rng(0)).coordinates) == 3 + 1
    assert len(Surrogate(SPACES["texts"], np.random.default_rng(0)).coordinates) == 3 + 1
    assert len(Surrogate(SPACES["mixed"], np.random.default_rng(0)).coordinates) == 2 + 1


@pytest.mark.parametrize("kind", ["sum", "product"])
def test_predicts_what_it_has_not_seen(kind: str) -> None:
    """A cost that is a sum over the factors, and one of lanes * vector alone: from 30 of 100 the others are
    told with a third of the error of telling the mean, and the errors are as large as they are said to be."""
    space = Space({"lanes": tuple(2**k for k in range(10)), "vector": tuple(2**k for k in range(10))})
    places = np.array([[np.log2(c["lanes"]), np.log2(c["vector"])] for c in space.configs])
    if kind == "sum":
        costs = 0.02 * (places[:, 0] - 6) ** 2 + 0.5 * (places[:, 1] > 4)
    else:
        costs = 0.1 * np.abs(places.sum(axis=1) - 11)
    rng = np.random.default_rng(5)
    seen = [int(k) for k in rng.permutation(100)[:30]]
    others = np.setdiff1d(np.arange(100), seen)
    surrogate = Surrogate(space, rng)
    for _ in range(5):
        mean, spread = surrogate.predict(seen, costs[seen])
    error = mean.mean(axis=0)[others] - costs[others]
    deviation = np.sqrt(np.mean(spread**2, axis=0) + mean.var(axis=0))[others]
    assert np.sqrt(np.mean(error**2)) < np.std(costs) / 3
    assert np.mean(np.abs(error) < 3 * deviation) > 0.9


def test_more_costs_than_it_holds() -> None:
    """Of many, the cheapest third and others evenly: the best is held, and finding it takes no longer."""
    space = SPACES["wide"]
    picks = list(range(0, 1000, 3))
    logs = np.array([abs(pick - 502) / 500 for pick in picks])
    mean, _ = Surrogate(space, np.random.default_rng(1)).predict(picks, logs)
    assert len(picks) > MOST
    assert int(mean.mean(axis=0).argmin()) // 25 in range(17, 24)
