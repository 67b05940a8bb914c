"""The configurations that a tuner chooses from: products of factors, less what is not legal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from ..runtime.dispatcher import BadInputs

__all__ = ["MAX_CONFIGS", "Config", "Space", "show_config"]

MAX_COMBINATIONS = 1 << 17
MAX_CONFIGS = 1024

Value = int | float | str
Config = dict[str, Any]
"""Factor -> value.  A configuration need not have every factor of its space."""

Factors = Mapping[str, Sequence[Value]]


class Space:
    """The legal configurations of one product of factors, or of several, in order.

    `Space({"lanes": (64, 128), "vector": (1, 2, 4)})` has 6; in a union of products each has factors
    of its own.  `why_not(config)` says what rules one out, None if nothing does.  Of more than
    MAX_CONFIGS legal ones, that many are kept, evenly over the order; `left_out` counts the others.

    `factors`: the values of each, in order.  Raises BadInputs for a space without a configuration.
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
        kept = min(len(legal), MAX_CONFIGS)
        self.configs = [legal[k * len(legal) // kept] for k in range(kept)]
        self.left_out = len(legal) - kept
        self.factors = _levels(self.configs)

    def __len__(self) -> int:
        return len(self.configs)

    def find(self, config: Mapping[str, Any]) -> int | None:
        """The place of a configuration; None if it has none here."""
        wanted = dict(config)
        return next((k for k, known in enumerate(self.configs) if known == wanted), None)


def show_config(config: Mapping[str, Any]) -> str:
    """`lanes=128 vector=4`."""
    return " ".join(f"{name}={value}" for name, value in config.items()) or "nothing to choose"


def _check(factors: Any) -> None:
    if not isinstance(factors, Mapping):
        raise BadInputs(f"a product is a mapping of factors to their values, not a {type(factors).__name__}")
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
    found: dict[str, dict[Value, None]] = {}
    for config in configs:
        for name, value in config.items():
            found.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}
