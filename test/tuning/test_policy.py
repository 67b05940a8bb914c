"""The policies: their gradients are gradients, and Fisher matrices are inverted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vyre_opt import BadInputs, Space, expected_cost, expected_cost_gradient, pick_config
from vyre_opt.tuning.factor_policy import FactorPolicy
from vyre_opt.tuning.policy import natural_step

COSTS = st.lists(st.floats(-50, 50), min_size=1, max_size=12)


@settings(max_examples=50, deadline=None)
@given(COSTS, st.floats(0.3, 100))
def test_gradient_of_the_expected_cost(costs: list[float], temperature: float) -> None:
    """p_k (1 - (c_k - E) / T) is what finite differences say, and sums to 1."""
    gradient = expected_cost_gradient(costs, temperature)
    step = 1e-4
    for k in range(len(costs)):
        up, down = list(costs), list(costs)
        up[k] += step
        down[k] -= step
        slope = (expected_cost(up, temperature) - expected_cost(down, temperature)) / (2 * step)
        assert gradient[k] == pytest.approx(slope, abs=1e-5, rel=1e-5)
    assert sum(gradient) == pytest.approx(1, abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(COSTS, st.sampled_from([1e-4, 1 / 64, 1.0]))
def test_natural_step(costs: list[float], damping: float) -> None:
    """The damped Fisher matrix times the step is the gradient."""
    p = np.array(pick_config(costs, 1.0))
    gradient = p * (np.array(costs) - float(p @ costs))
    fisher = np.diag(p) - np.outer(p, p) + damping * np.eye(len(p))
    assert fisher @ natural_step(p, gradient, damping) == pytest.approx(gradient, abs=1e-7)


def test_no_damping_is_refused() -> None:
    with pytest.raises(BadInputs, match="no inverse"):
        natural_step(np.array([0.5, 0.5]), np.zeros(2), 0.0)


@settings(max_examples=30, deadline=None)
@given(COSTS, st.floats(0.1, 100))
def test_fixed_point_is_near_and_the_same_on_targets(costs: list[float], temperature: float) -> None:
    exact = pick_config(costs, temperature)
    on_cpu = pick_config(costs, temperature, dispatcher="cpu")
    assert on_cpu == pick_config(costs, temperature, dispatcher="ref")
    assert on_cpu == pytest.approx(exact, abs=2 / 65536 + len(costs) / 2 / 65536)


SPACE = Space({"lanes": tuple(range(12)), "vector": tuple(range(12)), "kept": (0, 1)})


def test_descent_lowers_the_expected_cost_and_draws_what_is_cheap() -> None:
    """Of a sum over factors each step costs less than the one before; what is drawn is cheaper than most, and not taken."""
    costs = np.array([abs(c["lanes"] - 8) + abs(c["vector"] - 3) + 2 * c["kept"] for c in SPACE.configs]) / 10
    policy = FactorPolicy(SPACE, np.random.default_rng(1), rate=1.0, damping=0.01, floor=0.1, keep=1.0)
    everything = np.arange(len(SPACE))
    expected = [policy.descend(everything, costs, 1) for _ in range(30)]
    assert expected[0] == pytest.approx(costs.mean())
    assert all(after < before for before, after in pairwise(expected))
    assert int(policy.log_weights().argmax()) == int(costs.argmin())
    cheap = np.argsort(costs)[:10]
    drawn = policy.draw(20, cheap)
    assert len(set(drawn.tolist())) == 20
    assert not set(drawn.tolist()) & set(cheap.tolist())
    assert costs[drawn].mean() < np.quantile(costs, 0.3)


def test_the_gradient_of_a_product() -> None:
    """A step of little rate moves the expected cost as finite differences say, along the natural gradient."""
    rng = np.random.default_rng(3)
    costs, rate = rng.random(len(SPACE)), 1e-4
    policy = FactorPolicy(SPACE, rng, rate, damping=1e-9, floor=0.0, keep=1.0)
    everything = np.arange(len(SPACE))
    before = policy.descend(everything, costs, 1)
    after = policy.descend(everything, costs, 1)
    # from the uniform policy on: minus the variance between the values of each factor, summed over factors
    slope = sum(
        float(np.mean([(costs[SPACE.rows[:, f] == v].mean() - costs.mean()) ** 2 for v in range(size)]))
        for f, size in enumerate((12, 12, 2))
    )
    assert (before - after) / rate == pytest.approx(slope, rel=1e-2)


def test_a_factor_that_is_missing_is_a_value() -> None:
    space = Space([{"a": (1, 2)}, {"b": (1, 2, 3)}])
    policy = FactorPolicy(space, np.random.default_rng(0), 4.0, 0.01, 0.1, 1.0)
    for _ in range(5):
        policy.descend(np.arange(5), np.array([1.0, 1.0, 0.0, 1.0, 1.0]), 1)
    assert space.config(int(policy.log_weights().argmax())) == {"b": 1}
    assert sorted(policy.draw(9, np.array([0])).tolist()) == [1, 2, 3, 4]
    assert len(policy.draw(3, np.arange(5))) == 0


def test_a_policy_of_no_numbers_is_an_error() -> None:
    policy = FactorPolicy(SPACE, np.random.default_rng(0), 4.0, 0.01, 0.1, 1.0)
    policy.descend(np.arange(3), np.array([0.0, float("nan"), 1.0]), 1)
    with pytest.raises(ArithmeticError, match="zero or no number"):
        policy.log_weights()
