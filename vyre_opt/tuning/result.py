"""The result of tuning: the best configuration, all measurements, and the path of the search."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .measure import INFINITE
from .paired_test import ROUNDS
from .space import Config, show_config
from .surrogate_search import PathPoint

__all__ = ["Measured", "Tuning"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A configuration with its cost, infinite if it failed, for the reason `failure`.

    `wins`: in how many rounds of the last test it was faster than the default; None if it was not among those that ran there.
    """

    config: Config
    cost: float
    failure: str = ""
    wins: int | None = None


@dataclass(frozen=True, slots=True)
class Tuning:
    """The result of `autotune`.

    `config`: the best configuration; `cost`: its cost, in seconds if the tuner measured a workload.
    `default`, `default_cost`: the configuration without tuning, and its cost; None without a default.
    `measured`: all configurations that were measured, in order, the cheapest of them `rounds` times each.
    `budget`: in measurements.  `of`: the number of configurations in the space.
    `path`: what the search expected before each choice.  `stopped`: why the search ended.  `kept`: whether the result is
    one of an earlier run, from the cache.
    `family`, `shape`, `space`, `version`: what it is kept under, besides the device: the kernel whatever its sizes, the class of
    its sizes, a digest of the space, and the version of this package.
    The names are public, and all but `kept` are keys of `to_json`, so none is changed.
    """

    kernel: str
    device: str
    strategy: str
    seed: int
    config: Config
    cost: float
    default: Config | None
    default_cost: float | None
    measured: tuple[Measured, ...]
    rounds: int
    of: int
    budget: int = 0
    path: tuple[PathPoint, ...] = ()
    stopped: str = ""
    family: str = ""
    shape: str = ""
    space: str = ""
    version: str = ""
    kept: bool = field(default=False, compare=False)

    @property
    def gain(self) -> float:
        """The default's cost over the choice's; 1 where there is no default."""
        return self.default_cost / self.cost if self.default_cost is not None and self.cost > 0 else 1.0

    def table(self, most: int = 10) -> str:
        """Lines of text: the `most` cheapest that were measured, and the default."""
        ranked = sorted(self.measured, key=lambda m: m.cost)
        shown = [m for rank, m in enumerate(ranked) if rank < most or m.config == self.default]
        rows = [("", "cost", "of the best", "configuration")]
        for each in shown:
            mark = "*" * (each.config == self.config) + "d" * (each.config == self.default)
            if each.cost == INFINITE:
                rows.append((mark, "failed", "", f"{show_config(each.config)}: {each.failure}"))
                continue
            over = f"{each.cost / self.cost:.2f}" if self.cost > 0 else ""
            rows.append((mark, show_cost(each.cost), over, show_config(each.config) + self._remark(each)))
        widths = [max(len(row[k]) for row in rows) for k in range(3)]
        lines = [
            f"  {a:<{widths[0]}} {b:>{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip() for a, b, c, d in rows
        ]
        return "\n".join([self.summary(), *lines]) + "\n"

    def _remark(self, each: Measured) -> str:
        verdict = self.verdict(each)
        return f"   ({verdict})" if verdict else ""

    def verdict(self, each: Measured) -> str:
        """Why a configuration that looked faster than the default is not the choice; "" for others."""
        default_cost = INFINITE if self.default_cost is None else self.default_cost
        if self.config != self.default or each.config == self.default or each.cost >= default_cost:
            return ""
        if each.wins is None:
            return "not confirmed: faster once, and not among those that ran again"
        return f"not confirmed: faster than the default in {each.wins} of {ROUNDS} rounds, by {1 - each.cost / default_cost:.1%}"

    def summary(self) -> str:
        """One line: the kernel, the best configuration, its cost, its gain, and how many were measured."""
        origin = (
            "kept from before" if self.kept else f"{len(self.measured)} of {self.of} measured, {self.stopped}"
        )
        gain = "" if self.default_cost is None else f", {self.gain:.2f} times the default's speed"
        return f"{self.kernel} on {self.device}: {show_config(self.config)}, {show_cost(self.cost)}{gain} ({origin})"

    def to_json(self) -> str:
        """Text that `from_json` reads back; a cost that is infinite is null."""
        fields = asdict(self)
        fields.pop("kept")
        fields["cost"], fields["default_cost"] = _finite(self.cost), _finite(self.default_cost)
        fields["measured"] = [[m.config, _finite(m.cost), m.failure, m.wins] for m in self.measured]
        fields["path"] = [[p.measured, p.expected, p.best, p.gain] for p in self.path]
        return json.dumps(fields, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Tuning:
        """The result that `to_json` wrote.  Raises ValueError for another text."""
        try:
            return Tuning.from_fields(json.loads(text))
        except RecursionError as error:
            raise ValueError(f"not a result of the tuner: {error}") from None

    @staticmethod
    def from_fields(content: Any) -> Tuning:
        """The result whose JSON is `content`.  Raises ValueError."""
        try:
            fields = dict(content)
            _check_types(fields)
            cost = INFINITE if fields["cost"] is None else float(fields["cost"])
            default_cost = None if fields["default_cost"] is None else float(fields["default_cost"])
            measured = tuple(
                Measured(
                    _config(config),
                    INFINITE if each is None else float(each),
                    str(failure),
                    None if wins is None else int(wins),
                )
                for config, each, failure, wins in fields.pop("measured")
            )
            path = tuple(PathPoint(int(m), float(e), float(b), float(g)) for m, e, b, g in fields.pop("path"))
            config, default = _config(fields["config"]), fields["default"]
            fields |= {"cost": cost, "default_cost": default_cost, "config": config}
            fields |= {"default": None if default is None else _config(default)}
            return Tuning(**fields, measured=measured, path=path)
        except (KeyError, TypeError, AttributeError, OverflowError, ValueError) as error:
            raise ValueError(f"not a result of the tuner: {error}") from None


def show_cost(cost: float) -> str:
    """Seconds in a unit that suits them."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(cost) >= scale:
            return f"{cost / scale:.4g} {unit}"
    return f"{cost / 1e-9:.4g} ns"


def _finite(cost: float | None) -> float | None:
    return cost if cost is not None and -INFINITE < cost < INFINITE else None


def _check_types(fields: dict[str, Any]) -> None:
    """Check the fields whose values `Tuning` takes as they are, and what a table shows.  Raises KeyError, TypeError, ValueError."""
    for kind, names in (
        (str, ("kernel", "device", "strategy", "stopped", "family", "shape", "space", "version")),
        (int, ("seed", "rounds", "of", "budget")),
    ):
        for name in names:
            if type(fields[name]) is not kind:
                raise TypeError(f"{name} is {fields[name]!r}")
            if kind is str and not fields[name].isprintable():
                raise ValueError(f"{name} has characters that cannot be printed")
            if kind is int and not 0 <= fields[name] < 1 << 63:
                raise ValueError(f"{name} is {fields[name]}")
    if fields["cost"] is None:
        raise TypeError("the choice has no cost")


def _config(value: Any) -> Config:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} is no configuration")
    for name, level in value.items():
        if not isinstance(level, (int, float, str)) or not f"{name}{level}".isprintable():
            raise ValueError(f"{name!r}: {level!r} is no value of a factor")
    return dict(value)
