"""The configurations that a tuner chooses from: the product of all factors, without illegal combinations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, overload

import numpy as np

from ..execution.dispatcher import BadInputs
from ..ir.types import with_article

__all__ = ["MAX_CONFIGS", "Config", "Space", "show_config"]

MAX_COMBINATIONS = 1 << 24
MAX_ASKED = 1 << 17
"""Combinations that `why_not` is asked about, one by one."""
MAX_CONFIGS = 1 << 20
CHUNK = 1 << 16
"""Combinations that are made and checked at once."""
ABSENT = -1

Value = int | float | str
Config = dict[str, Any]
"""Factor -> value.  A configuration need not have every factor of its space."""

Array = np.ndarray[Any, Any]
Factors = Mapping[str, Sequence[Value]]
Constraint = Callable[[Mapping[str, Array]], Array]
"""Gets the values of many configurations, an array for each factor; says which of them are legal."""


class Space:
    """The legal configurations of a product of factors, or of a union of products, in order.

    `Space({"lanes": (64, 128), "vector": (1, 2, 4)})` has 6; the products of a union may have different
    factors.  `constraints` hold for all configurations of a space: each gets an array for each factor of a
    product, and gives an array of bools, as `lambda at: at["lanes"] * at["vector"] <= 256` does.
    `why_not(config)` returns the reason why one is not legal, None if it is; it is asked about each.

    `factors`: the values of each factor, in order.  `rows`: of each configuration the index of each
    factor's value, ABSENT for none.  Raises BadInputs for a space without a configuration, and for one of
    more than MAX_CONFIGS.
    """

    def __init__(
        self,
        factors: Factors | Iterable[Factors],
        why_not: Callable[[Config], str | None] | None = None,
        *,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        if not isinstance(factors, Iterable) or isinstance(factors, (str, bytes)):
            raise BadInputs(f"a space is of factors and their values, or a list of such, not {factors!r}")
        if not isinstance(constraints, Iterable) or not all(map(callable, constraints)):
            raise BadInputs("constraints are a list of functions")
        if why_not is not None and not callable(why_not):
            raise BadInputs(f"why_not is a function, not {why_not!r}")
        given = [factors] if isinstance(factors, Mapping) else list(factors)
        if not given:
            raise BadInputs("a space has one product of factors at least")
        for each in given:
            _check(each)
        products = [{name: tuple(dict.fromkeys(values)) for name, values in each.items()} for each in given]
        total = sum(prod(len(values) for values in each.values()) for each in products)
        limit = MAX_COMBINATIONS if why_not is None else MAX_ASKED
        if total > limit:
            raise BadInputs(f"a space of {total} combinations is more than {limit}: split it")
        self.factors = _levels(products)
        parts = [part for each in products for part in self._legal(each, constraints)]
        rows = np.concatenate(parts) if len(products) == 1 else _distinct(np.concatenate(parts))
        if len(rows) > MAX_CONFIGS:
            raise BadInputs(f"a space of {len(rows)} configurations is more than {MAX_CONFIGS}: split it")
        refusals: list[str] = []
        if why_not is not None:
            reasons = [why_not(self._config(row)) for row in rows.tolist()]
            refusals = [reason for reason in reasons if reason is not None]
            rows = rows[[reason is None for reason in reasons]]
        if not len(rows):
            raise BadInputs("the space has no legal configuration" + "".join(f"; {r}" for r in refusals[:1]))
        self.rows, self.factors = _without_unused(rows, self.factors)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def configs(self) -> Sequence[Config]:
        """All configurations, each made when it is asked for."""
        return _Configs(self)

    def config(self, number: int) -> Config:
        return self._config(self.rows[number].tolist())

    def find(self, config: Mapping[str, Any]) -> int | None:
        """The index of a configuration; None if it is not in the space."""
        if not isinstance(config, Mapping) or not set(config) <= set(self.factors):
            return None
        row = []
        for name, values in self.factors.items():
            if name in config and config[name] not in values:
                return None
            row.append(values.index(config[name]) if name in config else ABSENT)
        matches = np.flatnonzero((self.rows == row).all(axis=1))
        return int(matches[0]) if len(matches) else None

    def _config(self, row: Sequence[int]) -> Config:
        levels = zip(self.factors.items(), row, strict=True)
        return {name: values[k] for (name, values), k in levels if k != ABSENT}

    def _legal(self, product: Factors, constraints: Sequence[Constraint]) -> Iterator[Array]:
        """The rows of a product that fulfil the constraints, chunk by chunk."""
        shape = [len(values) for values in product.values()]
        levels = [
            np.array([self.factors[name].index(v) for v in levels_of_factor])
            for name, levels_of_factor in product.items()
        ]
        columns = [_column(levels_of_factor) for levels_of_factor in product.values()]
        where = [list(self.factors).index(name) for name in product]
        total = prod(shape)
        for first in range(0, total, CHUNK):
            flat = np.arange(first, min(first + CHUNK, total))
            picked = np.unravel_index(flat, shape) if shape else ()
            is_legal = np.ones(len(flat), bool)
            at = {
                name: levels_of_factor[k]
                for name, levels_of_factor, k in zip(product, columns, picked, strict=True)
            }
            for constraint in constraints:
                is_legal &= _holds(constraint, at, len(flat))
            rows = np.full((int(is_legal.sum()), len(self.factors)), ABSENT, np.int32)
            for column, levels_of_factor, k in zip(where, levels, picked, strict=True):
                rows[:, column] = levels_of_factor[k[is_legal]]
            yield rows


class _Configs(Sequence[Config]):
    """The configurations of a space, by their numbers."""

    def __init__(self, space: Space) -> None:
        self.space = space

    def __len__(self) -> int:
        return len(self.space)

    @overload
    def __getitem__(self, number: int) -> Config: ...
    @overload
    def __getitem__(self, number: slice) -> list[Config]: ...
    def __getitem__(self, number: int | slice) -> Config | list[Config]:
        if isinstance(number, slice):
            return [self.space.config(k) for k in range(len(self))[number]]
        return self.space.config(range(len(self))[number])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


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
            example = f", such as {{{name!r}: ({values!r},)}}" if isinstance(values, (int, float)) else ""
            raise BadInputs(f"factor {name} takes a list of values, at least one{example}")
        if len(values) > MAX_CONFIGS:
            raise BadInputs(f"factor {name} has {len(values)} values, more than {MAX_CONFIGS}")
        for value in values:
            if not isinstance(value, (int, float, str)) or value != value:
                raise BadInputs(f"factor {name}: {value!r} is not a number or a text")
            if isinstance(value, int) and abs(value) >= 1 << 64:
                raise BadInputs(f"factor {name} has a number of {value.bit_length()} bits, more than 64")


def _levels(products: Iterable[Factors]) -> dict[str, tuple[Value, ...]]:
    """The values that each factor has in the products, in order of appearance."""
    levels: dict[str, dict[Value, None]] = {}
    for factors in products:
        for name, values in factors.items():
            levels.setdefault(name, {}).update(dict.fromkeys(values))
    return {name: tuple(values) for name, values in levels.items()}


def _column(values: Sequence[Value]) -> Array:
    """An array of the values; of objects if some are texts, so that none is turned into one."""
    return np.array(values, object if any(isinstance(value, str) for value in values) else None)


def _holds(constraint: Constraint, at: Mapping[str, Array], count: int) -> Array:
    """Raises BadInputs for a constraint that gives no bool for each configuration, or that fails."""
    try:
        legal = np.asarray(constraint(at))
    except KeyError as error:
        raise BadInputs(
            f"a constraint asks for the factor {error}, which a product of the space lacks"
        ) from None
    except Exception as error:
        raise BadInputs(f"a constraint failed: {type(error).__name__}: {error}") from None
    if legal.dtype != np.bool_ or legal.shape not in ((count,), ()):
        raise BadInputs(
            f"a constraint gives a bool for each configuration; this one gave {legal.dtype.name} of shape {legal.shape}"
        )
    return legal


def _distinct(rows: Array) -> Array:
    """Each row once, where it is first."""
    if not rows.shape[1]:
        return rows[:1]
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]


def _without_unused(
    rows: Array, levels: Mapping[str, tuple[Value, ...]]
) -> tuple[Array, dict[str, tuple[Value, ...]]]:
    """Values of each factor that some configuration has, in the order of their first appearance."""
    used_values: dict[str, tuple[Value, ...]] = {}
    columns: list[Array] = []
    for (name, values), column in zip(levels.items(), rows.T, strict=True):
        used, first = np.unique(column[column != ABSENT], return_index=True)
        if not len(used):
            continue
        used = used[np.argsort(first)]
        renumbered = np.full(len(values) + 1, ABSENT, np.int32)  # the last one is for ABSENT
        renumbered[used] = np.arange(len(used))
        used_values[name] = tuple(values[k] for k in used.tolist())
        columns.append(renumbered[column])
    return np.stack(columns, axis=1) if columns else rows[:, :0], used_values
