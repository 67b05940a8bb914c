"""The differentiable search: a policy over configurations descends its expected cost.

    measure a few that are far apart, in half       -> costs
    of the rounds (a glance)
    surrogates predict the costs of the others      -> c_k = E min(cost_k, best), the best cost to expect
                                                       if k is measured next
    the policy p = softmax(-x) starts uniform, and descends E(x) = sum p_k c_k:

        g = dE/d(-x) = p * (c - E)              its gradient in the logits
        x <- x + rate * (F + damping)^-1 g      F = diag(p) - p p^T, the Fisher matrix of p

    the next to glance at are drawn from p, among those not yet measured; and so on
    at the end the cheapest are measured in all rounds, taking turns; the result is one of them

Undamped, the step is x <- x + rate * (c - E), and from the uniform p it leads to softmax(-rate * c): each
step cools the policy by the same, whatever the scale of x.  Damping keeps it from moving where p is less
than the damping, where the gradient says little.  Costs are relative to the best, in units of the
largest gain.

p and the step are computed by `pick_config_pre_exp_fixed` and math.matvec_fixed on a dispatcher, in
16.16: the tuner runs the compiler's own kernels, and takes the same path on every target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime.dispatcher import Dispatcher, Scratch
from .budget import Budget
from .fixed import matvec, pick_config_pre_exp_fixed
from .measure import INFINITE
from .policy import ONE, damped_fisher_inverse, weights_16_16
from .space import Space
from .surrogate import CAP, Surrogate

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Descent", "PathPoint", "Policy", "policy_descent"]

Array = Any


@dataclass(frozen=True)
class Descent:
    """The constants of the search.

    `steps` of `rate` follow each measurement; `damping` is that of the Fisher matrix.
    `breadth`: how many configurations are glanced at, over how many the budget could measure in all rounds.
    `opening`: the part of these that is glanced at before the first descent, spread over the space.
    `share`: the part of those left that is glanced at after each descent.
    `patience`: the search stops if no configuration is expected to lower the best cost by this part of it.
    `contenders`: configurations that cost less than this times the best are measured in all rounds.
    """

    steps: int = 6
    rate: float = 6.0
    damping: float = 1 / 64
    breadth: float = 4 / 3
    opening: float = 0.3
    share: float = 0.06
    patience: float = 1e-6
    contenders: float = 1.3


@dataclass(frozen=True, slots=True)
class PathPoint:
    """The policy after a descent, when `measured` configurations were measured.

    `best`: the best cost so far; `expected`: the policy's expected cost under the surrogate, over `best`;
    `unmeasured`: the probability that it gives to all configurations that are not measured.
    """

    measured: int
    expected: float
    best: float
    unmeasured: float


class Policy:
    """softmax(-x) over `count` configurations, uniform at first; `x` is without unit."""

    def __init__(self, count: int, dispatcher: str | Dispatcher, scratch: Scratch | None = None) -> None:
        self.x: NDArray[np.float64] = np.zeros(count)
        self.dispatcher = dispatcher
        self.scratch = scratch or Scratch()

    def probabilities(self) -> NDArray[np.float64]:
        """Multiples of 2^-16, each rounded down, so that their sum is a little less than 1."""
        # relative to the least: no exponential overflows, and the largest weight is 1
        weights = weights_16_16(np.exp(-(self.x - self.x.min())))
        picked = pick_config_pre_exp_fixed(weights, self.dispatcher, scratch=self.scratch)
        return np.asarray(picked / ONE)

    def step(self, costs: Array, rate: float, damping: float) -> float:
        """One natural gradient step down the expected cost; returns the expected cost before it."""
        p = self.probabilities()
        expected = float(p @ costs / p.sum())
        gradient = p * (costs - expected)
        inverse = damped_fisher_inverse(p, damping)
        delta = matvec(_fixed(inverse), _fixed(gradient), self.dispatcher, self.scratch)
        self.x = self.x + rate * (delta.view(np.int32) / ONE)
        return expected


def _fixed(values: Array) -> NDArray[np.uint32]:
    """Signed 16.16, flat, rounded to the nearest."""
    rounded: NDArray[np.uint32] = np.rint(values * ONE).astype(np.int32).reshape(-1).view(np.uint32)
    return rounded


def policy_descent(
    budget: Budget,
    rng: np.random.Generator,
    space: Space,
    dispatcher: str | Dispatcher = "cpu",
    options: Descent = Descent(),
    on_progress: Callable[[PathPoint], None] | None = None,
    start: int | None = None,
) -> None:
    """Spend a budget on the search; stop before where no measurement promises a gain.

    `start`: the index of the configuration that is measured first, one at random if None.
    `on_progress(point)` is called after each descent.
    """
    surrogate = Surrogate(space, rng)
    scratch = Scratch()
    glance = max(1, budget.rounds // 2)
    # with one round, a glance is a whole measurement, and the budget has no room for more of them
    breadth = options.breadth if glance < budget.rounds else 1.0
    max_configs = min(len(space), round(budget.left * breadth), (budget.total - budget.spent) // glance)
    opening = min(max_configs, max(3, round(max_configs * options.opening)))
    budget.measure(_spread(surrogate, rng, opening, start), glance)
    while 0 < len(budget.order) < max_configs:
        best = budget.best
        if best is None:  # all failed so far: anything else
            budget.measure([next(k for k in range(budget.count) if k not in budget.costs)], glance)
            continue
        gains, costs = _expected_gains(budget, surrogate, budget.costs[best])
        if gains.max() < options.patience:
            budget.is_settled = True
            break
        policy = Policy(len(space), dispatcher, scratch)
        for _ in range(options.steps):
            policy.step(1.0 - gains / gains.max(), options.rate, options.damping)
        p = policy.probabilities()
        expected = float(p @ costs / p.sum())
        p[budget.order] = 0.0
        if on_progress:
            on_progress(PathPoint(len(budget.order), expected, budget.costs[best], float(p.sum())))
        left = max_configs - len(budget.order)
        count = min(left, max(1, int(left * options.share)))
        # probabilities below 2^-16 are 0: if none is left, draw by the gains themselves
        budget.measure(_draw(p if p.any() else gains, rng, count), glance)
    _measure_contenders(budget, budget.rounds - glance, options.contenders)


def _expected_gains(budget: Budget, surrogate: Surrogate, best: float) -> tuple[Array, Array]:
    """Arrays over all configurations: the expected gain of measuring it, and its expected cost, over the best cost.

    The expected improvement of a normal distribution below 0: s (z Phi(z) + phi(z)) with z = -mean / s, in log cost.
    """
    seen = budget.order
    measured = np.array([budget.costs[pick] for pick in seen])
    valid = measured < INFINITE
    logs = np.zeros(len(seen))
    if best > 0:
        logs[valid] = np.minimum(np.log(measured[valid] / best), CAP)
    # one that failed counts as the worst that ran: those like it are avoided, but not all around it
    logs[~valid] = logs.max() or CAP
    mean, spread = surrogate.predict(seen, logs)
    z = -mean / spread
    gains = np.mean(spread * (z * _normal(z) + np.exp(-(z**2) / 2) / sqrt(2 * pi)), axis=0)
    gains[seen] = 0.0
    costs = np.mean(mean, axis=0)
    costs[seen] = logs
    return np.maximum(gains, 0.0), np.exp(np.clip(costs, -1.0, CAP))


def _normal(z: Array) -> Array:
    """The distribution function of the normal distribution, to 3e-4 (the tanh approximation known from GELU)."""
    return 0.5 * (1 + np.tanh(sqrt(2 / pi) * (z + 0.044715 * z**3)))


def _measure_contenders(budget: Budget, rounds: int, contenders: float) -> None:
    """Measure the cheapest for the `rounds` that they lack; those that then have all rounds are the finalists."""
    best = budget.best
    if best is None:
        return
    ranked = sorted((budget.costs[pick], number, pick) for number, pick in enumerate(budget.order))
    # the second condition is for a best cost below 0, which a function of the caller may return
    near = [
        pick
        for cost, _, pick in ranked
        if cost <= contenders * budget.costs[best] or cost == budget.costs[best]
    ]
    budget.measure(near, rounds)
    most_samples = max(len(budget.samples[pick]) for pick in near)
    budget.finalists = [pick for pick in near if len(budget.samples[pick]) == most_samples]


def _spread(surrogate: Surrogate, rng: np.random.Generator, count: int, start: int | None) -> list[int]:
    """Configurations that are far apart: each is the farthest from those before it, of 16 drawn at random."""
    total = surrogate.count
    picks = [int(rng.integers(total)) if start is None else start]
    while len(picks) < count:
        drawn = rng.choice(total, min(total, 16), replace=False)
        distances = surrogate.squared_distances(picks)[drawn]
        picks.append(int(drawn[int(np.argmax(distances))]))
    return list(dict.fromkeys(picks))


def _draw(p: Array, rng: np.random.Generator, count: int) -> list[int]:
    """Up to `count` different indices, drawn with probabilities `p`."""
    possible = int(np.count_nonzero(p))
    return [int(k) for k in rng.choice(len(p), min(count, possible), replace=False, p=p / p.sum())]
