"""The configurations that a tuner chooses from: products of factors, less what is not legal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from ..ir.types import with_article
from ..runtime.dispatcher import BadInputs

__all__ = ["MAX_CONFIGS", "Config", "Space", "show_config"]

MAX_COMBINATIONS = 1 << 17
MAX_CONFIGS = 1024

Value = int | float | str
Config = dict[str, Any]
"""Factor -> value.  A configuration need not have every factor of its space."""

Factors = Mapping[str, Sequence[Value]]


class Space:
    """The legal configurations of a product of factors, or of a union of products, in order.

    `Space({"lanes": (64, 128), "vector": (1, 2, 4)})` has 6; the products of a union may have different
    factors.  `why_not(config)` returns the reason why one is not legal, None if it is.  Of more than
    MAX_CONFIGS legal ones, that many are selected, evenly over the order; `left_out` counts the others.

    `factors`: the values of each factor, in order.  Raises BadInputs for a space without a configuration.
    """

    def __init__(
        self, factors: Factors | Iterable[Factors], why_not: Callable[[Config], str | None] | None = None
    ) -> None:
        products = [factors] if isinstance(factors, Mapping) else list(factors)
        for each in products:
            _check(each)
        total = sum(prod(len(values) for values in each.values()) for each in products)
        if total > MAX_COMBINATIONS:
            raise BadInputs(f"a space of {total} combinations is more than {MAX_COMBINATIONS}: split it")
        legal: list[Config] = []
        refusals: list[str] = []
        for config in _distinct(products):
            refusal = why_not(config) if why_not else None
            if refusal is None:
                legal.append(config)
            else:
                refusals.append(refusal)
        if not legal:
            raise BadInputs("the space has no legal configuration" + "".join(f"; {r}" for r in refusals[:1]))
        count = min(len(legal), MAX_CONFIGS)
        # evenly, since neighbours in the order differ in the last factor only
        self.configs = [legal[k * len(legal) // count] for k in range(count)]
        self.left_out = len(legal) - count
        self.factors = _levels(self.configs)

    def __len__(self) -> int:
        return len(self.configs)

    def find(self, config: Mapping[str, Any]) -> int | None:
        """The index of a configuration; None if it is not in the space."""
        key = dict(config)
        return next((k for k, each in enumerate(self.configs) if each == key), None)


def show_config(config: Mapping[str, Any]) -> str:
    """`lanes=128 vector=4`."""
    return " ".join(f"{name}={value}" for name, value in config.items()) or "nothing to choose"


def _check(factors: Any) -> None:
    if not isinstance(factors, Mapping):
        raise BadInputs(
            f"a product is a mapping of factors to their values, not {with_article(type(factors).__name__)}"
        )
    for name, values in factors.items():
        if not isinstance(name, str) or not name:
            raise BadInputs(f"a factor has a name, not {name!r}")
        if isinstance(values, (str, bytes)) or not isinstance(values, Sequence) or not values:
            raise BadInputs(f"factor {name} takes a list of values, at least one")
        for value in values:
            if not isinstance(value, (int, float, str)) or value != value:
                raise BadInputs(f"factor {name}: {value!r} is not a number or a text")


def _distinct(products: Iterable[Factors]) -> Iterator[Config]:
    seen = set()
    for factors in products:
        for values in product(*factors.values()):
            config = dict(zip(factors, values, strict=True))
            key = frozenset(config.items())
            if key not in seen:
                seen.add(key)
                yield config


def _levels(configs: Iterable[Config]) -> dict[str, tuple[Value, ...]]:
    """The values that each factor has in the configurations, in order of appearance."""
    levels: dict[str, dict[Value, None]] = {}
    for config in configs:
        for name, value in config.items():
            levels.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in levels.items()}
