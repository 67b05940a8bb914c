"""The search by gradient descent: its step is the natural gradient, on each target; and it finds what random search does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.quick import quick

from vyre_opt import Space, autotune
from vyre_opt.ir.ops import NAMED_KERNELS
from vyre_opt.kernels.named import named_kernel
from vyre_opt.tuning.budget import Budget
from vyre_opt.tuning.factor_policy import FactorPolicy
from vyre_opt.tuning.measure import FunctionBench
from vyre_opt.tuning.tuner import search

SEPARABLE = Space({"a": tuple(range(12)), "b": tuple(range(12)), "c": tuple(range(8)), "d": ("x",)})
UNION = Space(
    [{"a": (1, 2, 4), "b": (0, 1)}, {"a": (4, 8), "c": (1, 2)}], constraints=[lambda at: at["a"] != 1]
)


def separable_cost(config: dict[str, Any]) -> float:
    return 1 + 0.3 * abs(config["a"] - 3) + 0.2 * abs(config["b"] - 9) + 0.5 * abs(config["c"] - 2)


def found(strategy: str, seed: int, count: int = 40) -> float:
    budget = Budget(FunctionBench(SEPARABLE, separable_cost), len(SEPARABLE), count, 1)
    search(budget, np.random.default_rng(seed), SEPARABLE, strategy)
    assert budget.best is not None
    return budget.costs[budget.best]


def expected_cost(policy: FactorPolicy, costs: np.ndarray, temperature: float) -> float:
    logits = -policy.energy(np.arange(len(costs))) / temperature
    p = np.exp(logits - logits.max())
    return float(p @ costs / p.sum())


@pytest.mark.parametrize("space", [SEPARABLE, UNION], ids=["product", "union"])
def test_a_step_is_the_natural_gradient(space: Space) -> None:
    """(F + damping)^-1 g: both by finite differences, g of the free energy, F of the policy's probabilities."""
    rng, configs = np.random.default_rng(0), np.arange(len(space))
    temperature, rate, damping = 0.4, 1.0, 0.05
    costs = rng.uniform(0, 1, len(space))
    policy = FactorPolicy(space, rate, damping)
    x = policy.x = rng.uniform(0, 0.3, len(policy.x))

    def log_p(x: np.ndarray) -> np.ndarray:
        policy.x = x
        logits = -policy.energy(configs) / temperature
        return logits - np.log(np.exp(logits).sum())

    def free_energy(x: np.ndarray) -> float:
        return float(np.exp(log_p(x)) @ (costs + temperature * log_p(x)))

    moves = 1e-5 * np.eye(len(x))  # in the logits -x / T
    slope = (
        np.array([free_energy(x - temperature * m) - free_energy(x + temperature * m) for m in moves]) / 2e-5
    )
    scores = np.array([log_p(x - temperature * m) - log_p(x + temperature * m) for m in moves]) / 2e-5
    fisher = scores * np.exp(log_p(x)) @ scores.T
    expected = x + rate * np.linalg.solve(fisher + damping * np.eye(len(x)), slope)
    policy.x = x.copy()
    policy.descend(configs, costs, temperature, 1)
    assert policy.x == pytest.approx(expected, abs=2e-3)
    assert np.abs(expected - x).max() > 0.05


def test_the_policy_descends() -> None:
    costs = np.log([separable_cost(config) for config in SEPARABLE.configs])
    policy, configs = FactorPolicy(SEPARABLE, 0.5, 0.02), np.arange(len(SEPARABLE))
    expected = [expected_cost(policy, costs, 0.1)]
    for _ in range(4):
        policy.descend(configs, costs, 0.1, 2)
        expected.append(expected_cost(policy, costs, 0.1))
    assert expected == sorted(expected, reverse=True)
    assert expected[-1] < expected[0] / 3
    drawn = np.argmax(policy.keys(configs, 0.01, np.random.default_rng(0)))
    assert separable_cost(SEPARABLE.config(int(drawn))) == 1


def test_it_finds_what_random_search_does_not() -> None:
    """Of eight seeds, a sign test: better in each that differs, of six at least, which a coin is once in 64 times."""
    pairs = [(found("gradient", seed), found("random", seed)) for seed in range(8)]
    better, worse = sum(x < y for x, y in pairs), sum(x > y for x, y in pairs)
    assert better >= 6
    assert worse == 0
    assert np.median([x for x, _ in pairs]) <= 1.2


def test_the_same_path_on_every_target() -> None:
    """In 16.16, so ref and cpu agree in every bit; and a seed decides."""

    def tuned(**options: Any) -> Any:
        result = autotune("k", UNION, lambda c: 1.0 + c["a"], strategy="gradient", store=None, **options)
        return result.measured, result.path

    assert tuned(dispatcher="ref") == tuned(dispatcher="cpu") == tuned()
    assert found("gradient", 1, 20) == found("gradient", 1, 20)


@pytest.mark.parametrize(
    ("kernel", "target"),
    quick([(kernel, target) for target in ("cpu", "cuda") for kernel in NAMED_KERNELS], keep=6),
)
def test_it_runs_on_every_space(kernel: str, target: str) -> None:
    """All that is measured is legal, once each, and within the budget."""

    def even(at: Any) -> Any:
        return sum(values for values in at.values()) % 3 > 0

    space = Space(named_kernel(kernel).space(target), constraints=[even])
    seen: list[Any] = []

    def cost(config: dict[str, Any]) -> float:
        seen.append(config)
        if sum(config.values()) % 7 == 0:
            raise ValueError("does not run")
        return 1.0 + sum(config.values()) % 11

    budget = Budget(FunctionBench(space, cost), len(space), 25, 1)
    search(budget, np.random.default_rng(0), space, "gradient")
    assert len(seen) == budget.spent == min(25, len(space))
    assert len(budget.order) == len(set(budget.order)) == len(seen)
    assert all(sum(config.values()) % 3 > 0 and space.find(config) is not None for config in seen)
