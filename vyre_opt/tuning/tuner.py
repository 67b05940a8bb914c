"""`autotune`: the best configuration of a space, by few measurements."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..runtime.dispatcher import BackendError, BadInputs, Dispatcher
from . import result_cache
from .budget import Budget
from .descent import Descent, PathPoint, policy_descent
from .measure import INFINITE, Bench, DispatchBench, FunctionBench
from .paired_test import RIVALS, duel
from .progress import Bar
from .result import Measured, Tuning
from .search import random_search, successive_halving
from .space import Config, Space
from .workload import Workload

__all__ = ["DEFAULT_STRATEGY", "STRATEGIES", "autotune", "search"]

DEFAULT_STRATEGY = "gradient"
LEAST_BUDGET = 4
SPENT = "the budget was spent"

Told = Callable[[PathPoint], None]


def autotune(
    kernel: Workload | str,
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
    """The configuration of the least expected cost that a budget of measurements finds.

    `kernel`: a workload (see `kernel_workload`), which is measured on `dispatcher`, each configuration's
    output checked before a time counts; or, with `measure`, a name.  `space`: the configurations, or
    factors and their values; left out, the workload's own.  `measure(config)`: its cost, less is
    better; NaN, infinity, ValueError and DispatchError are failures.
    `budget`: what it may measure, a quarter of the space unless given (at least 4), in configurations of
    `rounds` measurements each; the search may spend them on more configurations, most of which it measures
    less often, and may stop before.  `strategy`: gradient (see descent), random or halving.
    `start`: what is measured first; a workload's default, else one at random.
    `store`: where results are kept between processes (see runtime.cache.store), None for nowhere;
    `reuse`: take a result that is kept there.  `progress`: a bar on stderr, where that is a terminal.

    The same seed and costs give the same result on every target.  Last, the cheapest meet the workload's
    default, else the start that was given, in a duel beyond the budget; it is the choice unless one is
    faster by a gain beyond the noise, and by 2 % at least (see duel).

    Raises BadInputs for arguments that do not fit, and BackendError if every configuration failed.
    """
    from ..runtime.dispatcher import shared_dispatcher

    backend = shared_dispatcher(dispatcher)
    workload = None if isinstance(kernel, str) else kernel
    if workload is None and (measure is None or space is None):
        raise BadInputs("a kernel that is only named needs a space and a measure")
    name = kernel if isinstance(kernel, str) else kernel.name
    chosen = _space(space, workload, backend)
    default = _default(workload, chosen, backend)
    if strategy not in STRATEGIES:
        raise BadInputs(f"unknown strategy {strategy!r}; there are {', '.join(STRATEGIES)}")
    _check_counts(budget, rounds)
    first = default if start is None else chosen.find(start)
    if start is not None and first is None:
        raise BadInputs(f"start is no configuration of the space: {dict(start)}")
    allowed = max(LEAST_BUDGET, len(chosen) // 4) if budget is None else budget
    keep = _store(store)
    key = result_cache.tuning_key(
        name, _fingerprint(workload, backend), result_cache.device_of(backend), chosen
    )
    if keep is not None and reuse:
        kept = result_cache.load(keep, key, chosen)
        if kept is not None and (kept.budget >= allowed * rounds or kept.stopped != SPENT):
            return kept
    bench: Bench
    if measure is not None:
        bench = FunctionBench(chosen, measure)
    else:
        assert workload is not None
        bench = DispatchBench(workload, chosen, backend)
    path: list[PathPoint] = []
    with Bar(name, enabled=progress and sys.stderr is not None and sys.stderr.isatty()) as bar:
        ledger = Budget(bench, len(chosen), allowed * rounds, rounds, bar.show, anchored=measure is None)
        search(ledger, np.random.default_rng(seed), chosen, strategy, backend, first, path.append)
        best = ledger.best
        if best is None:
            why = next(iter(bench.failures.values()), "nothing was measured")
            raise BackendError(f"{name}: no configuration could be measured: {why}")
        best = _last_word(bench, ledger, best, first if default is None else default)
    found = _result(
        ledger, best, default, chosen, name, result_cache.device_of(backend), strategy, seed, path
    )
    if keep is not None:
        result_cache.save(keep, key, found)
    return found


def search(
    ledger: Budget,
    rng: np.random.Generator,
    space: Space,
    strategy: str = DEFAULT_STRATEGY,
    dispatcher: str | Dispatcher = "cpu",
    start: int | None = None,
    told: Told | None = None,
    how: Descent | None = None,
) -> None:
    """Spend a ledger's budget by a strategy."""
    if strategy == "gradient":
        policy_descent(ledger, rng, space, dispatcher, how or Descent(), told, start)
        return
    if start is not None:
        ledger.measure([start])
    STRATEGIES[strategy](ledger, rng)


STRATEGIES: dict[str, Callable[..., None]] = {
    "gradient": policy_descent,
    "random": random_search,
    "halving": successive_halving,
}


def _last_word(bench: Bench, ledger: Budget, best: int, home: int | None) -> int:
    """The choice, after a duel of the cheapest with `home`; the costs of both are told at its pace."""
    if home is None or home == best or ledger.costs.get(home) == INFINITE:
        return best
    ranked = sorted(ledger.finalists or ledger.order, key=ledger.costs.__getitem__)
    ended = duel(bench, home, [pick for pick in ranked if pick != home][:RIVALS])
    if home not in ledger.costs:
        ledger.order.append(home)
    ledger.costs.update(ended.costs)
    return ended.winner


def _result(
    ledger: Budget,
    best: int,
    default: int | None,
    space: Space,
    name: str,
    device: str,
    strategy: str,
    seed: int,
    path: list[PathPoint],
) -> Tuning:
    failures = ledger.bench.failures
    measured = tuple(
        Measured(space.configs[pick], ledger.costs[pick], failures.get(pick, "")) for pick in ledger.order
    )
    is_spent = ledger.left <= 0 and any(len(taken) < ledger.rounds for taken in ledger.taken.values())
    stopped = "nothing more promised a gain" if ledger.is_settled else SPENT
    if len(ledger.order) == len(space) and not is_spent:
        stopped = "all of them"
    default_cost = None if default is None else ledger.costs.get(default)
    return Tuning(
        kernel=name,
        device=device,
        strategy=strategy,
        seed=seed,
        config=space.configs[best],
        cost=ledger.costs[best],
        default=None if default is None else space.configs[default],
        default_cost=default_cost,
        measured=measured,
        rounds=ledger.rounds,
        budget=ledger.budget,
        of=len(space),
        path=tuple(path),
        stopped=stopped,
    )


def _space(given: Any, workload: Workload | None, backend: Dispatcher) -> Space:
    if given is None:
        assert workload is not None
        return workload.space(_schedules_for(backend))
    return given if isinstance(given, Space) else Space(given)


def _default(workload: Workload | None, space: Space, backend: Dispatcher) -> int | None:
    return None if workload is None else space.find(workload.default(_schedules_for(backend)))


def _schedules_for(backend: Dispatcher) -> str:
    """The target that schedules are chosen for; other people's dispatchers count as the CPU."""
    name = getattr(backend, "name", "cpu")
    return name if name in ("ref", "cpu", "cuda") else "cpu"


def _fingerprint(workload: Workload | None, backend: Dispatcher) -> bytes:
    """Of the program that the default makes."""
    from ..ir.fingerprint import fingerprint

    if workload is None:
        return b""
    target = _schedules_for(backend)
    return fingerprint(workload.trial(workload.default(target), target).program)


def _store(given: Any) -> Any:
    if given != "default":
        return given
    from ..runtime.cache.store import default_store

    return default_store()


def _check_counts(budget: Any, rounds: Any) -> None:
    for name, count in (("budget", budget), ("rounds", rounds)):
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise BadInputs(f"{name} is a count of at least 1, not {count!r}")
