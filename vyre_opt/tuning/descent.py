"""The differentiable search: a policy over configurations descends its expected cost.

    measure a few that are far apart            -> costs
    a surrogate tells the cost of the others    -> c, optimistic where little is known
    the policy p = softmax(-x) starts even, and descends E(x) = sum p_k c_k:

        g = dE/d(-x) = p * (c - E)              its gradient in the logits
        x <- x + rate * (F + damping)^-1 g      F = diag(p) - p p^T, the Fisher matrix of p

    what is measured next is drawn from p among what is not yet measured; and again

Undamped, the step is x <- x + rate * (c - E), so that p becomes softmax(-rate * c): each step cools
the policy, whatever the units that x came in.  Damping keeps it from moving where p is smaller than
that, where a gradient says little.  Costs are relative to the best measured.

p and the step come from `pick_config_pre_exp_fixed` and math.matvec_fixed on a dispatcher, in 16.16:
the tuner runs the compiler's own kernels, and takes the same path on every target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime.dispatcher import Dispatcher, Scratch
from .fixed import matvec, pick_config_pre_exp_fixed
from .ledger import Ledger
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

    `steps` of `rate` after each measurement; `damping` of the Fisher matrix; `optimism`: standard
    deviations by which the surrogate is trusted to be wrong; `opening`: part of the budget that is
    measured before, spread over the space; `share`: part of what is left of it that is measured
    between descents; `patience`: the search stops once p puts less than this on what is not measured.
    """

    steps: int = 6
    rate: float = 6.0
    damping: float = 1 / 64
    optimism: float = 1.5
    opening: float = 0.3
    share: float = 0.2
    patience: float = 1 / 256


@dataclass(frozen=True, slots=True)
class PathPoint:
    """The policy after a descent, `measured` configurations known.

    `expected`: E under the surrogate, over the best cost then; `best`: that cost; `unmeasured`: what the
    policy puts on configurations that are not measured.
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
    ledger: Ledger,
    rng: np.random.Generator,
    space: Space,
    dispatcher: str | Dispatcher = "cpu",
    how: Descent = Descent(),
    told: Callable[[PathPoint], None] | None = None,
    start: int | None = None,
) -> None:
    """Spend a ledger's budget, or stop before; `start` is measured first, one at random if None."""
    surrogate = Surrogate(space)
    scratch = Scratch()
    opening = max(3, round(ledger.left * how.opening))
    ledger.measure(_spread(surrogate, rng, min(opening, ledger.left), start))
    while ledger.left > 0:
        best = ledger.best
        if best is None:  # all failed so far: anything else
            ledger.measure([_unmeasured(ledger)[0]] if _unmeasured(ledger) else [])
            if not _unmeasured(ledger):
                return
            continue
        costs = _relative_costs(ledger, surrogate, ledger.costs[best], how.optimism)
        policy = Policy(len(space), dispatcher, scratch)
        for _ in range(how.steps):
            policy.step(costs, how.rate, how.damping)
        p = policy.probabilities()
        expected = float(p @ costs / p.sum())
        p[ledger.order] = 0.0
        if told:
            told(PathPoint(len(ledger.order), expected, ledger.costs[best], float(p.sum())))
        if p.sum() < how.patience:
            return
        ledger.measure(_drawn(p, rng, max(1, int(ledger.left * how.share))))


def _relative_costs(ledger: Ledger, surrogate: Surrogate, best: float, optimism: float) -> Array:
    """Of every configuration over the best: as measured, and as the surrogate hopes of the others."""
    seen = ledger.order
    measured = np.array([ledger.costs[pick] for pick in seen])
    with np.errstate(divide="ignore"):
        logs = (
            np.minimum(np.log(measured / best), CAP) if best > 0 else np.where(measured < INFINITE, 0.0, CAP)
        )
    mean, spread = surrogate.predict(seen, logs)
    hoped = mean - optimism * spread
    hoped[seen] = logs
    return np.exp(np.clip(hoped, -1.0, CAP))


def _spread(surrogate: Surrogate, rng: np.random.Generator, count: int, start: int | None) -> list[int]:
    """Configurations that are far apart: each the farthest, of a few at random, from those before."""
    total = len(surrogate)
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


def _unmeasured(ledger: Ledger) -> list[int]:
    return [pick for pick in range(ledger.count) if pick not in ledger.costs]
