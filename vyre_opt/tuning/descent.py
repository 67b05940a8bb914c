"""The differentiable search: a policy over configurations descends its expected cost.

    glance at a few that are far apart              -> costs, of part of the rounds
    surrogates tell the costs of the others         -> c_k = E min(cost_k, best), what the search would
                                                       be left with, were k measured next
    the policy p = softmax(-x) starts even, and descends E(x) = sum p_k c_k:

        g = dE/d(-x) = p * (c - E)              its gradient in the logits
        x <- x + rate * (F + damping)^-1 g      F = diag(p) - p p^T, the Fisher matrix of p

    what is glanced at next is drawn from p among what is not yet measured; and again
    the cheapest are measured in all rounds, side by side; the choice is among them

Undamped, the step is x <- x + rate * (c - E), so that p becomes softmax(-rate * c): each step cools
the policy, whatever the units that x came in.  Damping keeps it from moving where p is smaller than
that, where a gradient says little.  Costs are relative to the best, in units of the largest gain.

p and the step come from `pick_config_pre_exp_fixed` and math.matvec_fixed on a dispatcher, in 16.16:
the tuner runs the compiler's own kernels, and takes the same path on every target.
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
    """How the policy descends.

    `steps` of `rate` after each measurement; `damping` of the Fisher matrix.  `breadth`: configurations
    that are glanced at, over those that the budget could measure in all rounds; `opening`: part of them
    that is glanced at before, spread over the space; `share`: part of those left that is glanced at between
    descents; `patience`: the glancing stops where no configuration promises to lower the best by this part
    of it; `contenders`: those that cost less than this many times the best are measured in all rounds,
    as far as the budget goes.
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
    """The policy after a descent, `measured` configurations known.

    `expected`: its expected cost under the surrogate, over the best cost then; `best`: that cost;
    `unmeasured`: what the policy puts on configurations that are not measured.
    """

    measured: int
    expected: float
    best: float
    unmeasured: float


class Policy:
    """softmax(-x) over `count` configurations, even at first; `x` is without unit."""

    def __init__(self, count: int, dispatcher: str | Dispatcher, scratch: Scratch | None = None) -> None:
        self.x: NDArray[np.float64] = np.zeros(count)
        self.dispatcher = dispatcher
        self.scratch = scratch or Scratch()

    def probabilities(self) -> NDArray[np.float64]:
        """In steps of 2^-16; they add up to a little less than 1."""
        weights = weights_16_16(np.exp(-(self.x - self.x.min())))
        picked = pick_config_pre_exp_fixed(weights, self.dispatcher, scratch=self.scratch)
        return np.asarray(picked / ONE)

    def step(self, costs: Array, rate: float, damping: float) -> float:
        """One natural gradient step down the expected cost, which is returned as it was before."""
        p = self.probabilities()
        expected = float(p @ costs / p.sum())
        gradient = p * (costs - expected)
        inverse = damped_fisher_inverse(p, damping)
        found = matvec(_fixed(inverse), _fixed(gradient), self.dispatcher, self.scratch)
        self.x = self.x + rate * (found.view(np.int32) / ONE)
        return expected


def _fixed(values: Array) -> NDArray[np.uint32]:
    """Signed 16.16, flat, rounded to the nearest."""
    rounded: NDArray[np.uint32] = np.rint(values * ONE).astype(np.int32).reshape(-1).view(np.uint32)
    return rounded


def policy_descent(
    ledger: Budget,
    rng: np.random.Generator,
    space: Space,
    dispatcher: str | Dispatcher = "cpu",
    how: Descent = Descent(),
    told: Callable[[PathPoint], None] | None = None,
    start: int | None = None,
) -> None:
    """Spend a ledger's budget, or stop before; `start` is measured first, one at random if None."""
    surrogate = Surrogate(space, rng)
    scratch = Scratch()
    glance = max(1, ledger.rounds // 2)
    breadth = how.breadth if glance < ledger.rounds else 1.0
    most = min(len(space), round(ledger.left * breadth), (ledger.budget - ledger.spent) // glance)
    opening = min(most, max(3, round(most * how.opening)))
    ledger.measure(_spread(surrogate, rng, opening, start), glance)
    while 0 < len(ledger.order) < most:
        best = ledger.best
        if best is None:  # all failed so far: anything else
            ledger.measure(_unmeasured(ledger)[:1], glance)
            continue
        gains, costs = _promises(ledger, surrogate, ledger.costs[best])
        if gains.max() < how.patience:
            ledger.is_settled = True
            break
        policy = Policy(len(space), dispatcher, scratch)
        for _ in range(how.steps):
            policy.step(1.0 - gains / gains.max(), how.rate, how.damping)
        p = policy.probabilities()
        expected = float(p @ costs / p.sum())
        p[ledger.order] = 0.0
        if told:
            told(PathPoint(len(ledger.order), expected, ledger.costs[best], float(p.sum())))
        count = min(most - len(ledger.order), max(1, int((most - len(ledger.order)) * how.share)))
        ledger.measure(_drawn(p if p.any() else gains, rng, count), glance)
    _settle(ledger, ledger.rounds - glance, how.contenders)


def _promises(ledger: Budget, surrogate: Surrogate, best: float) -> tuple[Array, Array]:
    """Of every configuration: what measuring it is expected to gain, over the best; and its cost, over that.

    The gain of a normal distribution below 0: s (z Phi(z) + phi(z)) with z = -mean / s, in log cost.
    """
    seen = ledger.order
    measured = np.array([ledger.costs[pick] for pick in seen])
    ran = measured < INFINITE
    logs = np.zeros(len(seen))
    if best > 0:
        logs[ran] = np.minimum(np.log(measured[ran] / best), CAP)
    # one that failed counts as the worst that ran: its like are avoided, those around it are not
    logs[~ran] = logs.max() or CAP
    mean, spread = surrogate.predict(seen, logs)
    z = -mean / spread
    gains = np.mean(spread * (z * _normal(z) + np.exp(-(z**2) / 2) / sqrt(2 * pi)), axis=0)
    gains[seen] = 0.0
    costs = np.mean(mean, axis=0)
    costs[seen] = logs
    return np.maximum(gains, 0.0), np.exp(np.clip(costs, -1.0, CAP))


def _normal(z: Array) -> Array:
    """The distribution function of the normal distribution, to 3e-4, by a hyperbolic tangent."""
    return 0.5 * (1 + np.tanh(sqrt(2 / pi) * (z + 0.044715 * z**3)))


def _settle(ledger: Budget, rounds: int, contenders: float) -> None:
    """Measure the cheapest in the rounds that they lack; of those that then have all, the best is chosen."""
    best = ledger.best
    if best is None:
        return
    ranked = sorted((ledger.costs[pick], place, pick) for place, pick in enumerate(ledger.order))
    near = [
        pick
        for cost, _, pick in ranked
        if cost <= contenders * ledger.costs[best] or cost == ledger.costs[best]
    ]
    ledger.measure(near, rounds)
    most = max(len(ledger.taken[pick]) for pick in near)
    ledger.finalists = [pick for pick in near if len(ledger.taken[pick]) == most]


def _spread(surrogate: Surrogate, rng: np.random.Generator, count: int, start: int | None) -> list[int]:
    """Configurations that are far apart: each the farthest, of a few at random, from those before."""
    total = surrogate.count
    picks = [int(rng.integers(total)) if start is None else start]
    while len(picks) < count:
        drawn = rng.choice(total, min(total, 16), replace=False)
        far = surrogate.apart(picks)[drawn]
        picks.append(int(drawn[int(np.argmax(far))]))
    return list(dict.fromkeys(picks))


def _drawn(p: Array, rng: np.random.Generator, count: int) -> list[int]:
    """Up to `count` different places, drawn by `p`."""
    possible = int(np.count_nonzero(p))
    return [int(k) for k in rng.choice(len(p), min(count, possible), replace=False, p=p / p.sum())]


def _unmeasured(ledger: Budget) -> list[int]:
    return [pick for pick in range(ledger.count) if pick not in ledger.costs]
