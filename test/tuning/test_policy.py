"""The policy in floats: its gradients are gradients, and its Fisher matrix is inverted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vyre_opt import BadInputs, expected_cost, expected_cost_gradient, pick_config
from vyre_opt.tuning.descent import Policy
from vyre_opt.tuning.policy import damped_fisher_inverse

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
def test_damped_fisher_inverse(costs: list[float], damping: float) -> None:
    p = np.array(pick_config(costs, 1.0))
    fisher = np.diag(p) - np.outer(p, p) + damping * np.eye(len(p))
    assert damped_fisher_inverse(p, damping) @ fisher == pytest.approx(np.eye(len(p)), abs=1e-7)


def test_no_damping_is_refused() -> None:
    with pytest.raises(BadInputs, match="no inverse"):
        damped_fisher_inverse(np.array([0.5, 0.5]), 0.0)


@settings(max_examples=30, deadline=None)
@given(COSTS, st.floats(0.1, 100))
def test_fixed_point_is_near_and_the_same_on_targets(costs: list[float], temperature: float) -> None:
    exact = pick_config(costs, temperature)
    on_cpu = pick_config(costs, temperature, dispatcher="cpu")
    assert on_cpu == pick_config(costs, temperature, dispatcher="ref")
    assert on_cpu == pytest.approx(exact, abs=2 / 65536 + len(costs) / 2 / 65536)


def test_descent_lowers_the_expected_cost_and_ends_at_the_best() -> None:
    """Each step of the policy costs less than the one before, on every target alike."""
    costs = np.array([3.0, 1.2, 1.0, 4.0, 2.0])
    paths = []
    for target in ("cpu", "ref"):
        policy = Policy(len(costs), target)
        paths.append([policy.step(costs, 2.0, 1 / 64) for _ in range(30)])
        assert int(np.argmax(policy.probabilities())) == 2
    expected = paths[0]
    assert paths[0] == paths[1]
    assert all(after <= before for before, after in pairwise(expected))
    assert expected[0] == pytest.approx(costs.mean(), rel=1e-3)
    assert expected[-1] < 1.05
