"""The tuner on search spaces that others measured:  python bench/tuner_public.py FOLDER [--seeds N]

FOLDER has recorded spaces, KERNEL/DEVICE.json.gz, as the folder `cachefiles` of benchmark_hub (AutoTuningAssociation) does.
Each search may measure 25, 50, 100 or 200 configurations, each time begun anew, and is scored as in arXiv 2509.26300:

    P = (best of random search - found) / (best of random search - optimum)

random search of as many different configurations, as it is expected to be.  P is taken of the mean of what all seeds found,
and its mean over budgets and spaces is the score; the interval is that of 19 of 20 bootstrap samples of the seeds.  `tuner` is the
default strategy, also without each of its parts, `gradient` the other that has a surrogate.  Beside them run strategies of Kernel
Tuner, at their defaults, in its simulation mode, if it is installed.  What a search finds does not depend on the machine, so what
an earlier run kept (--keep) is taken as it is.  Times are those of a processor.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.metadata
import importlib.util
import io
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from math import ceil
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process for each core, and small matrices

import numpy as np
from measure import machine, save, today
from public_spaces import PublicBench, PublicSpace, load_public_space, public_spaces

from vyre_opt.tuning.bayesian_search import BayesianOptions, bayesian_search
from vyre_opt.tuning.budget import Budget
from vyre_opt.tuning.gradient_search import gradient_search

RESULTS = Path(__file__).parent / "results"
BUDGETS = (25, 50, 100, 200)
SAMPLES = 1000
LEAST, MOST_OFF = 0.65, 1.15
PEERS = (
    "adaptive_tabu_greywolf",
    "hybrid_vndx",
    "simulated_annealing",
    "genetic_algorithm",
    "pso",
    "diff_evo",
    "bayes_opt",
)
MOST_OF_PEER = {"simulated_annealing": 4 / 3}
"""Annealing cools down at three quarters of the evaluations that it is given, so it is given more, of which those beyond the
budget do not count."""
Array = np.ndarray[Any, Any]
Search = Callable[[Budget, np.random.Generator, PublicSpace], None]


def _tuner(options: BayesianOptions, budget: Budget, rng: np.random.Generator, public: PublicSpace) -> None:
    bayesian_search(budget, rng, public.space, options)


def _gradient(budget: Budget, rng: np.random.Generator, public: PublicSpace) -> None:
    gradient_search(budget, rng, public.space)


def _neighbours_alone(budget: Budget, rng: np.random.Generator, public: PublicSpace) -> None:
    """Without a surrogate: what is measured are neighbours of the best so far, and others where these are known."""
    own, rows = BayesianOptions(), public.space.rows
    opening = rng.choice(len(rows), min(own.most_opening, budget.left), replace=False)
    budget.measure(opening.tolist())
    while budget.left > 0:
        best = min(budget.costs, key=budget.costs.__getitem__)
        near = np.flatnonzero((rows != rows[best]).sum(axis=1) <= own.hops)
        choices = np.setdiff1d(near, budget.order)
        if not len(choices):
            choices = np.setdiff1d(np.arange(len(rows)), budget.order)
        budget.measure([int(rng.choice(choices))])


SEARCHES: dict[str, Search] = {
    "tuner": partial(_tuner, BayesianOptions()),
    "gradient": _gradient,
    "neighbours off": partial(_tuner, BayesianOptions(near=0.0)),
    "surrogate off": _neighbours_alone,
    "twos off": partial(_tuner, BayesianOptions(twos=False)),
    "limit off": partial(_tuner, BayesianOptions(limit=1.0)),
    "spread off": partial(_tuner, BayesianOptions(spread=1)),
}


@cache
def loaded(path: Path) -> PublicSpace:
    return load_public_space(path)


def found(path: Path, name: str, count: int, seed: int) -> tuple[float, float]:
    """The least cost that a search finds, and the seconds that it takes for each configuration."""
    public = loaded(path)
    rng = np.random.default_rng([seed, count])
    budget = Budget(PublicBench(public), len(public.space), count, 1)
    begun = time.process_time()
    SEARCHES[name](budget, rng, public)
    seconds = (time.process_time() - begun) / len(budget.order)
    return min(budget.costs.values()), seconds


def found_by_peer(path: Path, strategy: str, count: int, seed: int) -> tuple[float, float]:
    """The same of a strategy of Kernel Tuner."""
    from constraint import FunctionConstraint
    from kernel_tuner import tune_kernel

    cache_file, content = _simulated(path)
    parameters = {name: content["tune_params"][name] for name in content["tune_params_keys"]}
    legal = content["cache"]
    random.seed(seed)
    np.random.seed(seed)
    begun = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = tune_kernel(
            content["kernel_name"], "", content["problem_size"], [], parameters,
            restrictions=[FunctionConstraint(lambda *values: ",".join(map(str, values)) in legal)],
            strategy=strategy, strategy_options={"max_fevals": ceil(count * MOST_OF_PEER.get(strategy, 1))},
            cache=cache_file, simulation_mode=True, quiet=True,
        )  # fmt: skip
    seconds = (time.process_time() - begun) / count
    costs: dict[tuple[str, ...], float] = {}  # of what it looked at, some of it again
    for each in results:
        config = tuple(str(each[name]) for name in parameters)
        if len(costs) == count and config not in costs:
            break
        costs[config] = each["time"] if isinstance(each["time"], (int, float)) else float("inf")
    return min(costs.values()), seconds


@cache
def _simulated(path: Path) -> tuple[str, dict[str, Any]]:
    """A cache of Kernel Tuner for its simulation mode: of the process, without the rounds of each time."""
    content = json.loads(gzip.decompress(path.read_bytes()))
    for each in content["cache"].values():
        each["times"] = []
    copy = Path(tempfile.mkdtemp()) / "cache.json"
    copy.write_text(json.dumps(content))
    return str(copy), content


def run(job: tuple[Path, str, int, int]) -> tuple[float, float]:
    path, name, count, seed = job
    return (found if name in SEARCHES else found_by_peer)(path, name, count, seed)


def scores(spaces: list[PublicSpace], costs: Array) -> Array:
    """P by space and budget, of costs by space, budget and seed: that of the mean, in which one that found nothing counts as
    the worst that ran."""
    rows = []
    for public, own in zip(spaces, costs, strict=True):
        worst = float(public.costs[np.isfinite(public.costs)].max())
        means = np.minimum(own, worst).mean(axis=-1)
        rows.append([public.score(float(mean), count) for mean, count in zip(means, BUDGETS, strict=True)])
    return np.array(rows)


def interval(spaces: list[PublicSpace], costs: Array) -> tuple[float, float]:
    """Of the mean of all scores, over seeds that are drawn again."""
    draw = np.random.default_rng(0)
    seeds = costs.shape[-1]
    means = [scores(spaces, costs[..., draw.integers(seeds, size=seeds)]).mean() for _ in range(SAMPLES)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def measured(
    spaces: list[PublicSpace], names: list[str], seeds: int, keep: Path | None, processes: int | None
) -> dict[str, tuple[Array, float]]:
    """For each search the costs by space, budget and seed, and its milliseconds for each configuration."""
    results = {}
    shape = (len(spaces), len(BUDGETS), seeds)
    with ProcessPoolExecutor(processes) as pool:
        for name in names:
            jobs = [
                (public.path, name, count, seed)
                for public in spaces
                for count in BUDGETS
                for seed in range(seeds)
            ]
            kept = None if keep is None else keep / f"{name}, {len(spaces)} spaces, {seeds} seeds.npy"
            if kept is not None and kept.exists():
                rows = np.load(kept)
            else:
                rows = np.array(list(pool.map(run, jobs, chunksize=8)))
                if kept is not None:
                    np.save(kept, rows)
            results[name] = rows[:, 0].reshape(shape), 1e3 * float(rows[:, 1].mean())
            print(
                name,
                f"{scores(spaces, results[name][0]).mean():.3f}",
                f"{results[name][1]:.1f} ms",
                flush=True,
            )
    return results


def tables(spaces: list[PublicSpace], results: dict[str, tuple[Array, float]]) -> Iterator[dict[str, Any]]:
    kernels = sorted({public.kernel for public in spaces})
    rows = []
    for name, (costs, cost) in results.items():
        own = scores(spaces, costs)
        low, high = interval(spaces, costs)
        by_kernel = [own[[p.kernel == kernel for p in spaces]].mean() for kernel in kernels]
        figures = [own.mean(), *by_kernel, *own.mean(axis=0)]
        rows.append(
            [name, f"{low:.2f} to {high:.2f}", *(f"{figure:.2f}" for figure in figures), f"{cost:.1f}"]
        )
    yield {
        "caption": "P of each search",
        "columns": ["search", "interval", "P", *kernels, *map(str, BUDGETS), "ms a configuration"],
        "rows": rows,
    }
    if "tuner" not in results:
        return
    costs, _ = results["tuner"]
    own = scores(spaces, costs)
    yield {
        "caption": f"The tuner by space; over the optimum at {BUDGETS[-1]}",
        "columns": ["space", "configurations", *map(str, BUDGETS), "mean over optimum", "worst"],
        "rows": [
            [
                public.name,
                str(len(public.space)),
                *(f"{p:.2f}" for p in row),
                f"{each[-1].mean() / public.optimum:.3f}",
                f"{each[-1].max() / public.optimum:.3f}",
            ]
            for public, row, each in zip(spaces, own, costs, strict=True)
        ],
    }


def targets(spaces: list[PublicSpace], results: dict[str, tuple[Array, float]]) -> list[dict[str, Any]]:
    if "tuner" not in results:
        return []
    means = {name: scores(spaces, costs).mean(axis=1) for name, (costs, _) in results.items()}
    peers = {name: mean for name, mean in means.items() if name in PEERS}
    off = [each[-1].mean() / p.optimum for p, each in zip(spaces, results["tuner"][0], strict=True)]
    ours = float(means["tuner"].mean())
    best = max(peers, key=lambda name: float(peers[name].mean())) if peers else None
    above = "" if best is None else f", {best} {float(peers[best].mean()):.2f}"
    return [
        {
            "what": f"P of {LEAST} in the mean, and above the best peer",
            "measured": f"{ours:.2f}{above}",
            "met": ours >= LEAST and (best is None or ours > float(peers[best].mean())),
        },
        {
            "what": f"no space where {BUDGETS[-1]} configurations end more than {MOST_OFF} times over the optimum in the mean",
            "measured": f"{max(off):.3f} at most",
            "met": bool(max(off) <= MOST_OFF),
        },
        *(
            {
                "what": f"the tuner is 0.02 better than with its {name}",
                "measured": f"{ours - float(means[name].mean()):.3f}",
                "met": ours - float(means[name].mean()) >= 0.02,
            }
            for name in means
            if name.endswith(" off")
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--only", nargs="*", help="the names of searches; all by default")
    parser.add_argument(
        "--keep", type=Path, help="a folder for what each search found; what is there is not run"
    )
    parser.add_argument("--processes", type=int, help="one for each core by default")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="the folder to write to (bench/results)"
    )
    args = parser.parse_args()
    spaces = public_spaces(args.folder)
    has_peers = importlib.util.find_spec("kernel_tuner") is not None
    names = args.only or [*SEARCHES, *(PEERS if has_peers else ())]
    results = measured(spaces, names, args.seeds, args.keep, args.processes)
    packages = ["numpy", *(["kernel_tuner"] if has_peers else [])]
    save(
        args.results / "tuner_public.json",
        {
            "name": "tuner_public",
            "arguments": f"FOLDER --seeds {args.seeds}" + (" --keep KEPT" if args.keep else ""),
            "title": "The tuner on search spaces that others measured",
            "about": " ".join((__doc__ or "").split("\n\n", 1)[1].split()),
            "date": today(),
            "machine": machine(),
            "versions": {package: importlib.metadata.version(package) for package in packages},
            "absent": [] if has_peers else ["kernel_tuner"],
            "tables": [*tables(spaces, results)],
            "targets": targets(spaces, results),
            "samples": [
                {"search": name, "space": public.name, "costs": np.where(np.isfinite(own), own, -1).tolist()}
                for name, (costs, _) in results.items()
                for public, own in zip(spaces, costs, strict=True)
            ],
        },
    )


if __name__ == "__main__":
    main()
