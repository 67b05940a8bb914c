"""The policy: its gradient is a gradient, and the same on every target."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vyre_opt import BadInputs, expected_cost, expected_cost_gradient, pick_config

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


@settings(max_examples=30, deadline=None)
@given(COSTS, st.floats(0.1, 100))
def test_fixed_point_is_near_and_the_same_on_targets(costs: list[float], temperature: float) -> None:
    exact = pick_config(costs, temperature)
    on_cpu = pick_config(costs, temperature, dispatcher="cpu")
    assert on_cpu == pick_config(costs, temperature, dispatcher="ref")
    assert on_cpu == pytest.approx(exact, abs=2 / 65536 + len(costs) / 2 / 65536)


def test_a_gradient_at_almost_no_temperature() -> None:
    """Where p is 0 it is 0, however far the cost is; one of -infinity has none."""
    assert expected_cost_gradient([1.0, 2.0, 3.0], 1e-320) == [1.0, 0.0, 0.0]
    with pytest.raises(BadInputs, match="has no gradient"):
        expected_cost_gradient([-math.inf, 1.0], 1.0)
    with pytest.raises(BadInputs, match="temperature is finite"):
        pick_config([1.0, 2.0], 10**400)
