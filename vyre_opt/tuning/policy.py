"""The policy over configurations in floats: p_k = softmax(-cost / T)_k, and how its expected cost falls.

    E      = sum p_k c_k                                   the expected cost
    dE/dc_k = p_k (1 - (c_k - E) / T)                      all of it: through c_k, and through p
    dE/dx_k = -p_k (c_k - E) / T                           through p alone, p = softmax(-x / T)

A search descends the second: it chooses x, while the costs are fixed.  The first has p_k besides, by which
E falls if a configuration itself becomes cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

from ..execution.dispatcher import BadInputs, Dispatcher, Scratch
from ..ir.types import with_article
from .fixed import like, pick_config_pre_exp_fixed

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "config_gradient",
    "expected_cost",
    "expected_cost_gradient",
    "pick_best_config",
    "pick_config",
    "weights_16_16",
]

ONE = 1 << 16


def pick_config(
    costs: Sequence[float] | np.ndarray,
    temperature: float,
    dispatcher: str | Dispatcher | None = None,
    *,
    scratch: Scratch | None = None,
) -> Any:
    """softmax(-cost / T): the probability of each configuration; a list, or an array for an array.

    A configuration of cost NaN or infinity has probability 0; if some cost -infinity, these share all of it
    evenly.
    `dispatcher`: None computes in double precision.  With one, the weights exp(-cost / T), relative
    to the best, become 16.16 numbers and are normalised by `pick_config_pre_exp_fixed` on it: the same
    bits on every target, each probability rounded down by less than 2^-16 and its weight's rounding.

    Raises BadInputs for no costs, none that can be picked, and a temperature that is not finite and
    above 0.
    """
    powers = _powers(costs, temperature)
    if dispatcher is None:
        return like(costs, powers / powers.sum())
    probabilities = pick_config_pre_exp_fixed(weights_16_16(powers), dispatcher, scratch=scratch)
    return like(costs, probabilities / ONE)


def config_gradient(
    costs: Sequence[float] | np.ndarray,
    temperature: float,
    dispatcher: str | Dispatcher | None = None,
    *,
    scratch: Scratch | None = None,
) -> Any:
    """-softmax(-cost / T), which is the gradient of -T log(sum exp(-cost / T)), negated.  See `pick_config`."""
    probabilities = pick_config(costs, temperature, dispatcher, scratch=scratch)
    return -probabilities if hasattr(probabilities, "dtype") else [-p for p in probabilities]


def pick_best_config(costs: Sequence[float] | np.ndarray) -> int:
    """The index of the first smallest cost.  NaN never wins.

    Raises BadInputs for no costs, or where every cost is NaN.
    """
    best = None
    values = _numbers(costs)
    for index, cost in enumerate(values):
        if not math.isnan(cost) and (best is None or cost < values[best]):
            best = index
    if best is None:
        raise BadInputs("every cost is NaN, so there is no best configuration")
    return best


def expected_cost(costs: Sequence[float] | np.ndarray, temperature: float) -> float:
    """sum p_k c_k over the configurations with p_k > 0, so that an infinite cost does not count."""
    import numpy as np

    p = np.asarray(pick_config(costs, temperature))
    values = np.asarray(_numbers(costs))
    return float(np.sum(p[p > 0] * values[p > 0]))


def expected_cost_gradient(costs: Sequence[float] | np.ndarray, temperature: float) -> Any:
    """p_k (1 - (c_k - E) / T): the gradient of `expected_cost` in the costs; 0 where p is 0."""
    import numpy as np

    p = np.asarray(pick_config(costs, temperature))
    values = np.where(p > 0, np.asarray(_numbers(costs)), 0.0)
    expected = float(np.sum(p * values))
    if not np.isfinite(expected):
        raise BadInputs("a cost of -infinity has no gradient")
    gradient, is_positive = np.zeros(len(p)), p > 0
    gradient[is_positive] = p[is_positive] * (1.0 - (values[is_positive] - expected) / temperature)
    return like(costs, gradient)


def weights_16_16(powers: np.ndarray) -> np.ndarray:
    """Numbers from 0 to 1 as 16.16, rounded to the nearest."""
    import numpy as np

    weights: np.ndarray = np.rint(powers * ONE).astype(np.uint32)
    return weights


def _powers(costs: Any, temperature: Any) -> np.ndarray:
    """exp(-(cost - lowest) / T), where `lowest` is the lowest cost; 0 for NaN and infinity.  Raises BadInputs."""
    import numpy as np

    values = np.asarray(_numbers(costs))
    if isinstance(temperature, bool) or not isinstance(temperature, Real):
        raise BadInputs(f"temperature is a number, not {temperature!r}")
    try:
        scale = float(temperature)
    except OverflowError:
        scale = math.inf
    if not math.isfinite(scale) or scale <= 0:
        raise BadInputs(f"temperature is finite and above 0, not {temperature}")
    usable = ~np.isnan(values) & (values < np.inf)
    if not usable.any():
        raise BadInputs("every cost is NaN or infinite, so no configuration can be picked")
    lowest = values[usable].min()
    powers = np.zeros(len(values))
    if lowest == -np.inf:
        powers[values == -np.inf] = 1.0
        return powers
    with np.errstate(over="ignore", under="ignore"):
        # halved first, since the difference of two finite numbers may overflow
        powers[usable] = np.exp(-2.0 * ((values[usable] / 2 - lowest / 2) / scale))
    return powers


def _numbers(costs: Any) -> list[float]:
    if isinstance(costs, (str, bytes, dict, set, frozenset)):
        raise BadInputs(f"costs are a sequence of numbers, not {with_article(type(costs).__name__)}")
    try:
        values = [float(cost) for cost in costs]
    except (TypeError, ValueError, OverflowError):
        raise BadInputs("costs are a sequence of numbers") from None
    if not values:
        raise BadInputs("costs has no entry; it requires at least one candidate")
    return values
