"""`autotune`: the best configuration of a space, by few measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import __version__
from ..driver.progress import ProgressBar
from ..execution.dispatcher import BackendError, BadInputs, Dispatcher, shared_dispatcher
from ..execution.target import as_target
from . import result_cache
from .baseline_searches import random_search, successive_halving
from .bayesian_search import bayesian_search
from .budget import Budget
from .call import Call
from .gradient_search import gradient_search
from .measure import INFINITE, Bench, DispatchBench, FunctionBench
from .paired_test import CANDIDATES, paired_test
from .result import Measured, Tuning
from .space import Config, Space
from .surrogate_search import PathPoint
from .workload import Workload

__all__ = ["DEFAULT_STRATEGY", "STRATEGIES", "autotune", "search"]

DEFAULT_STRATEGY = "bayesian"
MIN_BUDGET, MOST_OF_CALL = 4, 64
SPENT = "the budget was spent"
NEEDS_MEASURE = "a kernel that is only named needs a space and a measure"


def autotune(
    kernel: Workload | Call | str,
    space: Space | Mapping[str, Any] | None = None,
    measure: Callable[[Config], float] | None = None,
    *,
    dispatcher: str | Dispatcher = "cpu",
    budget: int | None = None,
    rounds: int = 5,
    seed: int = 0,
    strategy: str = DEFAULT_STRATEGY,
    start: Mapping[str, Any] | None = None,
    store: Any = "default",
    reuse: bool = True,
    progress: bool = False,
) -> Tuning:
    """The configuration of least expected cost, found with a budget of measurements.

    `kernel`: a workload (see `kernel_workload`), which is measured on `dispatcher`, or a call of a program or a pipeline (see
    `call_workload`), on its own target; each configuration's output is checked before a time counts.  Or, with
    `measure`, a name.  `space`: the configurations, or
    factors and their values; by default the workload's own.  `measure(config)`: its cost, less is
    better; NaN, infinity, ValueError and DispatchError are failures.
    `budget`: configurations to measure, `rounds` times each; by default a quarter of the space, at least 4; for a call
    all of it, at most 64.  The search may spread the measurements over more configurations, and may stop early.
    `strategy`: bayesian (see bayesian_search), gradient (see gradient_search; its descent is computed on the dispatcher),
    random or halving.
    `start`: the configuration to measure first; by default the workload's default, otherwise a random one.
    `store`: the cache of results between processes (see runtime.cache.store), None for no cache.
    `reuse`: return a cached result for the same kernel, class of sizes, device and space; continue from it for a space or
    a budget that has grown; begin with the best configurations of other sizes and devices.  `progress`: show a bar on
    stderr, if that is a terminal.

    The same seed and costs give the same result on every target.  At the end, the cheapest are compared
    with the workload's default, or else with `start`, in a test that is not counted in the budget: the
    default is the result unless one is faster beyond the noise, and by at least 2 % (see paired_test).

    Raises BadInputs for arguments that do not fit, BackendError if every configuration failed, and ProgramError for a call
    that faults as it is written.
    """
    _check_arguments(kernel, measure, budget, rounds, seed, strategy, start, store)
    task = _Task.of(kernel, space, measure, dispatcher, start)
    total = rounds * (task.budget if budget is None else budget)
    results = _store(store)
    earlier = result_cache.results_of(results, task.family) if results is not None and reuse else []
    cached = _cached_result(earlier, task)
    if cached is not None and _is_final(cached, task, total):
        return cached
    learnt = _Learnt(
        known=() if cached is None else cached.measured,
        starts=result_cache.learnt_starts(earlier, task.shape, task.device, task.space),
    )
    bar = ProgressBar(f"tuning {task.name}", total) if progress else None
    with bar or nullcontext():
        result = _tune(task, learnt, strategy, total, rounds, seed, bar.update if bar else None)
    if results is not None:
        result_cache.add_result(results, result)
    return result


def _cached_result(results: Sequence[Tuning], task: _Task) -> Tuning | None:
    """The result of an earlier run for the same shape and device, if its configuration is still right."""
    cached = result_cache.result_for(results, task.shape, task.device)
    return cached if cached is not None and task.is_right(cached.config) else None


def _is_final(cached: Tuning, task: _Task, total: int) -> bool:
    """Whether a search with `total` measurements would not go beyond an earlier result."""
    # a search that stopped for another reason than its budget would stop there with a larger one, too
    is_complete = cached.budget >= total or cached.stopped != SPENT
    return is_complete and cached.space == result_cache.space_digest(task.space)


@dataclass(frozen=True)
class _Learnt:
    """Results of earlier runs: `known`, costs at this shape on this device; `starts`, best configurations elsewhere."""

    known: Sequence[Measured]
    starts: Sequence[Config]

    def costs(self, space: Space) -> dict[int, float]:
        """The known costs by the indices of configurations that the space has."""
        costs = {space.find(each.config): each.cost for each in self.known if each.cost < INFINITE}
        return {pick: cost for pick, cost in costs.items() if pick is not None}

    def picks(self, space: Space) -> list[int]:
        return [pick for config in self.starts if (pick := space.find(config)) is not None]


@dataclass(frozen=True)
class _Task:
    """Task of the tuner.  `default`, `start`: indices in the space; `measure` or `workload` is not None."""

    name: str
    backend: Dispatcher
    space: Space
    default: int | None
    start: int | None
    workload: Workload | Call | None
    measure: Callable[[Config], float] | None

    @staticmethod
    def of(
        kernel: Workload | Call | str,
        space: Space | Mapping[str, Any] | None,
        measure: Callable[[Config], float] | None,
        dispatcher: str | Dispatcher,
        start: Mapping[str, Any] | None,
    ) -> _Task:
        """Raises BadInputs."""
        backend = kernel.dispatcher if isinstance(kernel, Call) else shared_dispatcher(dispatcher)
        name, workload = (kernel, None) if isinstance(kernel, str) else (kernel.name, kernel)
        if space is None:
            if workload is None:
                raise BadInputs(NEEDS_MEASURE)
            space = workload.space(_schedules_for(backend))
        elif not isinstance(space, Space):
            space = Space(space)
        if workload is None and measure is None:
            raise BadInputs(NEEDS_MEASURE)
        default = None
        if workload is not None:
            usual = workload.default(_schedules_for(backend))
            # what a space of the caller's leaves out stays as it is by default
            default = space.find({name: value for name, value in usual.items() if name in space.factors})
        first = default if start is None else space.find(start)
        if start is not None and first is None:
            raise BadInputs(f"start is no configuration of the space: {dict(start)}")
        return _Task(name, backend, space, default, first, workload, measure)

    @property
    def device(self) -> str:
        return as_target(self.backend).key

    @cached_property
    def family(self) -> str:
        """The kernel, whatever its sizes."""
        return self.name if self.workload is None else self.workload.family

    @cached_property
    def shape(self) -> str:
        """The class of its sizes."""
        return "" if self.workload is None else self.workload.shape

    def is_right(self, config: Config) -> bool:
        """Whether a configuration that was kept is legal, and of a call computes what the default does: the family knows the
        code of the default alone."""
        pick = self.space.find(config)
        if pick is None or self.measure is not None or not isinstance(self.workload, Call):
            return pick is not None
        bench = self.bench()
        try:
            return bool(bench.samples([pick], 1)[0])
        finally:
            bench.close()

    @property
    def budget(self) -> int:
        """The configurations that are measured unless the caller says how many."""
        if isinstance(self.workload, Call):
            return min(len(self.space), MOST_OF_CALL)
        return max(MIN_BUDGET, len(self.space) // 4)

    @property
    def prior(self) -> np.ndarray[Any, Any] | None:
        if not isinstance(self.workload, Call) or self.measure is not None:
            return None
        return self.workload.prior(self.space, _schedules_for(self.backend))

    def bench(self) -> FunctionBench | DispatchBench:
        if self.measure is not None:
            return FunctionBench(self.space, self.measure)
        assert self.workload is not None
        if isinstance(self.workload, Call):
            self.workload.check()  # raise a fault of the workload itself once, not for each configuration
        return DispatchBench(self.workload, self.space, self.backend)


def search(
    budget: Budget,
    rng: np.random.Generator,
    space: Space,
    strategy: str = DEFAULT_STRATEGY,
    starts: Sequence[int] = (),
    on_progress: Callable[[PathPoint], None] | None = None,
    prior: np.ndarray[Any, Any] | None = None,
    known: Mapping[int, float] | None = None,
    dispatcher: str | Dispatcher = "cpu",
) -> None:
    """Spend a budget by a strategy.

    `dispatcher`: what `gradient` computes on.  For the others see `surrogate_search`; strategies without a surrogate use
    `starts` alone.
    """
    more: dict[str, Any] = {"on_progress": on_progress, "starts": starts, "prior": prior, "known": known}
    if strategy == "bayesian":
        bayesian_search(budget, rng, space, **more)
    elif strategy == "gradient":
        gradient_search(budget, rng, space, dispatcher=dispatcher, **more)
    else:
        budget.measure(starts)
        STRATEGIES[strategy](budget, rng)


STRATEGIES: dict[str, Callable[..., None]] = {
    "bayesian": bayesian_search,
    "gradient": gradient_search,
    "random": random_search,
    "halving": successive_halving,
}


def _tune(
    task: _Task,
    learnt: _Learnt,
    strategy: str,
    total: int,
    rounds: int,
    seed: int,
    on_progress: Callable[[int], None] | None,
) -> Tuning:
    """Search with a budget of `total` measurements.  Raises BackendError if every configuration failed."""
    with closing(task.bench()) as bench:
        return _tune_on(bench, task, learnt, strategy, total, rounds, seed, on_progress)


def _tune_on(
    bench: Bench,
    task: _Task,
    learnt: _Learnt,
    strategy: str,
    total: int,
    rounds: int,
    seed: int,
    on_progress: Callable[[int], None] | None,
) -> Tuning:
    budget = Budget(bench, len(task.space), total, rounds, on_progress, anchored=task.measure is None)
    path: list[PathPoint] = []
    rng = np.random.default_rng(seed)
    first = [] if task.start is None else [task.start]
    starts = list(dict.fromkeys([*first, *learnt.picks(task.space)]))
    known = learnt.costs(task.space)
    search(
        budget,
        rng,
        task.space,
        strategy,
        starts,
        path.append,
        prior=task.prior,
        known=known,
        dispatcher=task.backend,
    )
    best = budget.best
    if best is None:
        reason = next(iter(bench.failures.values()), "nothing was measured")
        raise BackendError(f"{task.name}: no configuration could be measured: {reason}")
    if on_progress:
        on_progress(total)  # also where the search stopped before
    reference = task.start if task.default is None else task.default
    best, wins = _compare_with_default(bench, budget, best, reference)
    return _result(task, budget, best, strategy, seed, path, wins)


def _compare_with_default(
    bench: Bench, budget: Budget, best: int, default: int | None
) -> tuple[int, Mapping[int, int]]:
    """The winner of a paired test of the cheapest against `default`, and their wins; their costs become those of the test."""
    if default is None or default == best or budget.costs.get(default) == INFINITE:
        return best, {}
    ranked = sorted(budget.finalists or budget.order, key=budget.costs.__getitem__)
    outcome = paired_test(bench, default, [pick for pick in ranked if pick != default][:CANDIDATES])
    if default not in budget.costs:
        budget.order.append(default)  # the test has measured it now, so it belongs to the result
    budget.costs.update(outcome.costs)
    return outcome.winner, outcome.wins


def _result(
    task: _Task,
    budget: Budget,
    best: int,
    strategy: str,
    seed: int,
    path: list[PathPoint],
    wins: Mapping[int, int],
) -> Tuning:
    space, default, failures = task.space, task.default, budget.bench.failures
    measured = tuple(
        Measured(space.configs[pick], budget.costs[pick], failures.get(pick, ""), wins.get(pick))
        for pick in budget.order
    )
    # the whole space may have been seen, and some of it only at a glance
    is_spent = budget.left <= 0 and any(len(s) < budget.rounds for s in budget.samples.values())
    stopped = "nothing more promised a gain" if budget.is_settled else SPENT
    if len(budget.order) == len(space) and not is_spent:
        stopped = "all of them"
    return Tuning(
        kernel=task.name,
        device=task.device,
        strategy=strategy,
        seed=seed,
        config=space.configs[best],
        cost=budget.costs[best],
        default=None if default is None else space.configs[default],
        default_cost=None if default is None else budget.costs.get(default),
        measured=measured,
        rounds=budget.rounds,
        budget=budget.total,
        of=len(space),
        path=tuple(path),
        stopped=stopped,
        family=task.family,
        shape=task.shape,
        space=result_cache.space_digest(space),
        version=__version__,
    )


def _schedules_for(backend: Dispatcher) -> str:
    """The target that schedules are chosen for; a dispatcher that is not ours counts as the CPU."""
    name = getattr(backend, "name", "cpu")
    return name if name in ("ref", "cpu", "cuda") else "cpu"


def _store(store: Any) -> Any:
    if store != "default":
        return store
    from ..execution.cache.store import default_store

    return default_store()


def _check_arguments(
    kernel: Any,
    measure: Any,
    budget: Any,
    rounds: Any,
    seed: Any,
    strategy: Any,
    start: Any,
    store: Any,
) -> None:
    """Raises BadInputs."""
    if not isinstance(kernel, str) and not hasattr(kernel, "family"):
        help = ""
        if hasattr(kernel, "function"):
            help = "; write @vyre.tunable above a function of the choices that returns the kernel, and call its autotune"
        raise BadInputs(f"kernel is a name, a workload or a call, not {kernel!r}{help}")
    if isinstance(kernel, str) and not kernel.isprintable():
        raise BadInputs(f"a name is of printable characters, not {kernel!r}")
    if measure is not None and not callable(measure):
        raise BadInputs(f"measure is a function of a configuration, not {measure!r}")
    if strategy not in STRATEGIES:
        raise BadInputs(f"unknown strategy {strategy!r}; there are {', '.join(STRATEGIES)}")
    if start is not None and not isinstance(start, Mapping):
        raise BadInputs(f"start is a configuration, not {start!r}")
    if store is not None and store != "default" and not hasattr(store, "get"):
        raise BadInputs(f"store is a store of the compile cache, or None, not {store!r}")
    for name, count, least in (
        ("budget", 1 if budget is None else budget, 1),
        ("rounds", rounds, 1),
        ("seed", seed, 0),
    ):
        if isinstance(count, bool) or not isinstance(count, int) or count < least:
            raise BadInputs(f"{name} is a count of at least {least}, not {count!r}")
