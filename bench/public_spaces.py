"""Search spaces that others measured, from files of Kernel Tuner's cache or of the T4 format, as benchmark_hub has them.

FOLDER/convolution.../A100.json.gz    every configuration of a kernel on a device, with its time or why it has none
"""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vyre_opt.execution.dispatcher import BadInputs
from vyre_opt.tuning.measure import INFINITE, Bench
from vyre_opt.tuning.space import Space

__all__ = ["PublicBench", "PublicSpace", "load_public_space", "public_spaces"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class PublicSpace:
    """`costs`: of each configuration of `space`, infinite where it did not run.  `path`: the file that it is from."""

    kernel: str
    device: str
    space: Space
    costs: Array
    path: Path

    @property
    def name(self) -> str:
        return f"{self.kernel} on {self.device}"

    @cached_property
    def optimum(self) -> float:
        return float(self.costs.min())

    @cache  # noqa: B019  a few, which live as long as the process
    def best_of_random(self, count: int) -> float:
        """The least cost that so many different configurations, drawn at random, are expected to have.

        Of n configurations the k-th cheapest is the least with probability C(n - k, count - 1) / C(n, count).
        """
        total = len(self.costs)
        ran = np.sort(self.costs[self.costs < INFINITE])
        ways = np.array([_log_binomial(total - k, count - 1) for k in range(1, len(ran) + 1)])
        weights = np.exp(ways - _log_binomial(total, count))
        return float(weights @ ran / weights.sum())

    def score(self, found: float, count: int) -> float:
        """P: 0 for what random search of `count` configurations finds, 1 for the optimum; below 0 for worse than random."""
        random = self.best_of_random(count)
        return (random - min(found, float(self.costs[self.costs < INFINITE].max()))) / (random - self.optimum)


class PublicBench(Bench):
    """A bench that shows the costs of a space.  Each round shows the same."""

    def __init__(self, public: PublicSpace) -> None:
        self.public = public
        self.failures: dict[int, str] = {}

    def samples(self, picks: Any, rounds: int) -> list[list[float]]:
        costs = [float(self.public.costs[pick]) for pick in picks]
        self.failures |= {
            pick: "did not run" for pick, cost in zip(picks, costs, strict=True) if cost == INFINITE
        }
        return [[cost] * rounds if cost < INFINITE else [] for cost in costs]


def public_spaces(folder: Path) -> list[PublicSpace]:
    """All spaces of a folder, the T4 files of one that is there in the other format, too, left out.  Raises BadInputs."""
    paths = sorted(folder.glob("*/*.json.gz")) + sorted(folder.glob("*/*.json"))
    chosen: dict[str, Path] = {}
    for path in paths:
        key = f"{path.parent.name}/{path.name.split('.')[0].removesuffix('_T4')}"
        if key not in chosen or "_T4" in chosen[key].name:
            chosen[key] = path
    if not chosen:
        raise BadInputs(f"{folder} has no files KERNEL/DEVICE.json.gz")
    return [load_public_space(path) for _, path in sorted(chosen.items())]


def load_public_space(path: Path) -> PublicSpace:
    """Raises BadInputs for a file that is neither a cache of Kernel Tuner nor of the T4 format."""
    try:
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        content = json.loads(text)
        if "cache" in content:
            names = content["tune_params_keys"]
            rows = [
                ({name: each[name] for name in names}, each["time"]) for each in content["cache"].values()
            ]
        else:
            rows = [(each["configuration"], _t4_time(each)) for each in content["results"]]
        return _space(path, rows)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInputs(f"{path}: not recorded costs of Kernel Tuner or T4: {error}") from None


def _t4_time(each: dict[str, Any]) -> Any:
    times = [m["value"] for m in each.get("measurements", ()) if m["name"] == "time"]
    return times[0] if each["invalidity"] == "correct" and times else each["invalidity"]


def _space(path: Path, rows: list[tuple[dict[str, Any], Any]]) -> PublicSpace:
    factors = {name: tuple(sorted({config[name] for config, _ in rows})) for name in rows[0][0]}
    shape = [len(values) for values in factors.values()]

    def code(columns: dict[str, Any]) -> Array:
        """The number of each combination."""
        places = [np.searchsorted(values, columns[name]) for name, values in factors.items()]
        return np.asarray(np.ravel_multi_index(places, shape))

    columns = {name: np.array([config[name] for config, _ in rows]) for name in factors}
    costs = np.array([_cost(time) for _, time in rows])
    codes = code(columns)
    order = np.argsort(codes)  # a space is in the order of its combinations
    space = Space(factors, constraints=[lambda at: np.isin(code(dict(at)), codes)])
    if len(space) != len(rows):
        raise ValueError("a configuration is there twice")
    device = path.name.split(".")[0].removesuffix("_T4")
    return PublicSpace(path.parent.name.removesuffix("_milo"), device, space, costs[order], path)


def _cost(time: Any) -> float:
    """Infinite for a text that says why there is no time."""
    usable = isinstance(time, (int, float)) and math.isfinite(time) and time > 0
    return float(time) if usable else INFINITE


def _log_binomial(n: int, k: int) -> float:
    if k > n:
        return -INFINITE
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
