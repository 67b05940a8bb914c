"""autotune: few measurements, only right results, the same path everywhere, kept and taken again."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.quick import quick

from vyre_opt import BackendError, BadInputs, Space, Tuning, autotune, dispatcher
from vyre_opt.execution.cache.store import Store
from vyre_opt.tuning import surrogate
from vyre_opt.tuning.budget import Budget
from vyre_opt.tuning.measure import DispatchBench, FunctionBench
from vyre_opt.tuning.plot import FORMATS, picture, picture_format
from vyre_opt.tuning.tuner import STRATEGIES, search


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_budget_holds(strategy: str, bowl: Space, bowl_cost_of: Callable[[Any], float]) -> None:
    """No strategy measures more than its budget, whatever that is, nor the same sample twice for nothing."""
    for budget in (1, 2, 5, 17, 30 * 5, 10_000):
        configs: list[Any] = []

        def cost(config: Any, configs: list[Any] = configs) -> float:
            configs.append(config)
            return bowl_cost_of(config)

        spending = Budget(FunctionBench(bowl, cost), len(bowl), budget, 5)
        search(spending, np.random.default_rng(0), bowl, strategy)
        assert spending.spent == len(configs) <= budget
        assert budget < 5 or spending.best is not None


@pytest.mark.campaign
def test_finds_the_best_of_a_bowl(bowl: Space, bowl_cost_of: Callable[[Any], float]) -> None:
    """Within 5 % with a quarter of the measurements, from ten seeds."""
    best = min(map(bowl_cost_of, bowl.configs))
    for seed in range(10):
        calls: list[Any] = []

        def cost(config: Any, calls: list[Any] = calls) -> float:
            calls.append(config)
            return bowl_cost_of(config)

        tuning = autotune("bowl", bowl, cost, seed=seed, store=None)
        assert len(calls) <= len(bowl) // 4 * tuning.rounds
        assert tuning.cost <= 1.05 * best
        assert tuning.cost == pytest.approx(bowl_cost_of(tuning.config))
        assert tuning.path, "the policy descended"


def test_stops_early_where_nothing_is_left_to_find() -> None:
    """One factor decides, and steeply: the policy settles before the budget is spent."""
    space = Space({"a": tuple(range(16)), "b": tuple(range(16))})
    tuning = autotune("steep", space, lambda c: 10.0 ** abs(c["a"] - 3), seed=1, store=None)
    assert tuning.config["a"] == 3
    assert tuning.cost == 1
    flat = autotune("flat", Space({"a": (1, 2, 3)}), lambda c: 1.0, store=None)
    assert flat.stopped == "all of them"


@pytest.mark.campaign
def test_same_path_on_every_target(bowl: Space, bowl_cost_of: Callable[[Any], float]) -> None:
    """The policy is computed by the compiled softmax and matvec: ref and cpu agree in every bit."""
    on = [autotune("bowl", bowl, bowl_cost_of, dispatcher=t, store=None) for t in ("cpu", "ref")]
    assert replace(on[0], device="") == replace(on[1], device="")
    assert on[0] == autotune("bowl", bowl, bowl_cost_of, store=None)
    assert on[0].measured != autotune("bowl", bowl, bowl_cost_of, seed=1, store=None).measured


@pytest.mark.parametrize("kernel", quick(["small_step", "small_matvec"]))
@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.campaign
def test_closes_the_circle(kernel: str, target: str, request: pytest.FixtureRequest) -> None:
    """Cold, the tuner compiles the kernels that it tunes with to tune those very kernels; and that ends.

    What it chose computes what the default does.
    """
    from vyre_opt.kernels.matvec import matvec_fixed
    from vyre_opt.kernels.softmax_fixed import softmax_step

    softmax_step.cache_clear()
    matvec_fixed.cache_clear()
    workload = request.getfixturevalue(kernel)
    backend = dispatcher(target) if target == "ref" else dispatcher(target, cache=False)
    tuning = autotune(workload, dispatcher=backend, rounds=2, budget=6, store=None)
    assert tuning.default == workload.default(target)
    assert workload.space(target).find(tuning.config) is not None
    assert not any(m.failure for m in tuning.measured)
    results = []
    for config in (tuning.config, tuning.default):
        trial = workload.trial(config, target)
        results.append(backend.dispatch(trial.program, trial.arguments, trial.grid)[0])
    assert np.array_equal(*results)


def test_failures_never_win(bowl: Space) -> None:
    """Neither an exception nor NaN nor infinity is a cost; and why it failed is told."""

    def cost(config: Any) -> float:
        if config["lanes"] > 128:
            raise BackendError("too many lanes\nsecond line")
        return {1: float("nan"), 2: float("inf")}.get(config["vector"], 1.0 + config["unroll"])

    for strategy in STRATEGIES:
        tuning = autotune("fails", bowl, cost, strategy=strategy, budget=60, store=None)
        assert tuning.config["lanes"] <= 128
        assert tuning.config["vector"] >= 4
        assert any("too many lanes" in m.failure for m in tuning.measured)
    with pytest.raises(BackendError, match="no configuration could be measured: too many"):
        autotune("fails", Space({"lanes": (256, 512)}), cost, store=None)


class SpoilingDispatcher:
    """A CPU dispatcher that spoils what programs of 64 lanes compute, and takes no time for it."""

    name = "cpu"

    def __init__(self) -> None:
        self.inner = dispatcher("cpu")

    def dispatch(self, program: Any, inputs: Sequence[Any], grid: Any, **options: Any) -> list[np.ndarray]:
        outputs = self.inner.dispatch(program, inputs, grid, **options)
        if program.name == "softmax" and program.workgroup[0] == 64:
            return [np.zeros_like(each) for each in outputs]
        return outputs


def test_a_wrong_result_has_no_cost(small_softmax: Any) -> None:
    space = small_softmax.space("cpu")
    picks = [k for k, config in enumerate(space.configs) if config["lanes"] * config["rows"] == 64]
    others = [k for k in range(len(space)) if k not in picks][:2]
    bench = DispatchBench(small_softmax, space, SpoilingDispatcher())
    rounds = bench.samples([*picks[:2], *others], 2)
    assert [len(samples) for samples in rounds] == [0, 0, 2, 2]
    assert all("wrong result" in bench.failures[pick] for pick in picks[:2])


def test_rounds_take_turns(small_softmax: Any) -> None:
    """Round by round and not one after the other, each configuration warm before; its default beside them."""
    order: list[int] = []

    class Watched(SpoilingDispatcher):
        def dispatch(
            self, program: Any, inputs: Sequence[Any], grid: Any, **options: Any
        ) -> list[np.ndarray]:
            order.append(program.workgroup[0])
            return self.inner.dispatch(program, inputs, grid, **options)

    space = Space(_two(small_softmax))
    bench = DispatchBench(small_softmax, space, Watched())
    bench.samples([0, 1], 2)
    for runner in bench._runners.values():
        runner.launches = 1
    order.clear()
    bench.samples([0, 1], 3)
    first, second = (c["lanes"] * c["rows"] for c in space.configs)
    assert order == [first, second, second, first, first, second]


def _two(workload: Any) -> list[dict[str, tuple[int]]]:
    configs = workload.space("cpu").configs
    one = configs[0]
    other = next(c for c in configs if c["lanes"] * c["rows"] != one["lanes"] * one["rows"])
    return [{name: (value,) for name, value in config.items()} for config in (one, other)]


def test_drift_does_not_count() -> None:
    """The machine slows down to a half between measurements: costs are told at the anchor's pace."""
    space = Space({"a": tuple(range(8))})
    slow = [1.0]

    class Drifting(FunctionBench):
        def samples(self, picks: Sequence[int], rounds: int) -> list[list[float]]:
            return [[(1 + pick) * slow[0]] * rounds for pick in picks]

    spending = Budget(Drifting(space, None), 8, 80, 5, anchored=True)
    assert spending.measure([4, 2]) == [5, 3]
    slow[0] = 2.0
    assert spending.measure([1, 7]) == [2, 8]
    assert spending.spent == 20
    assert spending.measure([2, 6]) == [3, 7], "the anchor itself among them"


def test_results_are_kept(store: Store, bowl: Space, bowl_cost_of: Callable[[Any], float]) -> None:
    """A second run measures nothing; another space, kernel or larger budget does; what is damaged too."""
    calls: list[Any] = []

    def cost(config: Any) -> float:
        calls.append(config)
        return bowl_cost_of(config)

    first = autotune("bowl", bowl, cost, store=store, budget=6)
    spent = len(calls)
    again = autotune("bowl", bowl, cost, store=store, budget=6)
    assert again == first
    assert again.kept
    assert not first.kept
    assert len(calls) == spent
    for options in ({"reuse": False, "budget": 6}, {"budget": len(bowl)}):
        before = len(calls)
        autotune("bowl", bowl, cost, store=store, **options)
        assert len(calls) > before
    before = len(calls)
    autotune("other", bowl, cost, store=store)
    autotune("bowl", Space({**bowl.factors, "unroll": (1, 2)}), cost, store=store)
    assert len(calls) > before
    for entry in store.entries():
        Path(entry.path).write_bytes(Path(entry.path).read_bytes()[:-3])
    assert not autotune("bowl", bowl, cost, store=store).kept


def test_result_as_text(bowl: Space, bowl_cost_of: Callable[[Any], float]) -> None:
    tuning = autotune("a <kernel>", bowl, bowl_cost_of, store=None)
    assert Tuning.from_json(tuning.to_json()) == tuning
    for text in ("{}", "[]", "null", "x", json.dumps({"config": 3})):
        with pytest.raises(ValueError):  # noqa: PT011 json's own is one
            Tuning.from_json(text)
    fields = json.loads(tuning.to_json())
    for name in fields:
        for wrong in ({"x": 1}, True, 1.5) if isinstance(fields[name], list | str) else ([[1]], "x"):
            with pytest.raises(ValueError):  # noqa: PT011 each says it otherwise
                Tuning.from_json(json.dumps(fields | {name: wrong}))
    with pytest.raises(ValueError, match="not a result"):
        Tuning.from_json("[" * 100_000)
    lines = tuning.table(5).splitlines()
    assert len(lines) == 2 + 5
    assert lines[2].lstrip().startswith("*")


def _texts(*tunings: Tuning) -> list[str]:
    """What a picture says."""
    drawn = ET.fromstring(picture(tunings))
    return ["".join(e.itertext()) for e in drawn.iter() if e.tag.endswith("text")]


def test_a_picture_has_axes_and_a_legend(bowl: Space, bowl_cost_of: Callable[[Any], float]) -> None:
    found = autotune("a <kernel> of $x_1$", bowl, bowl_cost_of, store=None)
    first = found.measured[0]
    tuning = replace(found, default=first.config, default_cost=first.cost)
    texts = _texts(tuning, tuning)
    assert sum("a <kernel> of $x_1$" in text for text in texts) == 2
    for words in (
        "measured",
        "default",
        "choice",
        "cost (median)",
        "configurations, in the order of measuring",
    ):
        assert texts.count(words) == 2, words
    pictures = [picture([tuning], name) for name in FORMATS]
    for content, start in zip(pictures, (b"<?xml", b"\x89PNG", b"%PDF"), strict=True):
        assert content.startswith(start)
    assert picture([tuning]) == pictures[0]


def test_a_picture_says_what_was_not_confirmed(bowl: Space, bowl_cost_of: Callable[[Any], float]) -> None:
    """As the table does: the fastest row is not the choice, and the default is both."""
    tuning = autotune("k", bowl, bowl_cost_of, store=None)
    assert not [text for text in _texts(tuning) if "confirmed" in text]
    fastest = min(tuning.measured, key=lambda each: each.cost)
    other = next(each for each in tuning.measured if each.config != fastest.config)
    tested = tuple(replace(each, wins=9) if each is fastest else each for each in tuning.measured)
    kept = replace(
        tuning,
        config=other.config,
        cost=other.cost,
        default=other.config,
        default_cost=other.cost,
        measured=tested,
    )
    texts = _texts(kept)
    assert "fastest once, not confirmed" in texts
    assert "default and choice" in texts
    assert "faster than the default in 9 of 21 rounds" in " ".join(texts)


def test_a_picture_of_failures_and_of_nothing(bowl: Space) -> None:
    def cost(config: Any) -> float:
        if config["lanes"] != 64:
            raise ValueError("too wide")
        return 1.0

    assert "failed" in _texts(autotune("k", Space({"lanes": (64, 128, 256)}), cost, store=None))
    assert picture([]).startswith(b"<?xml")


@pytest.mark.parametrize("path", ["cost", "cost.jpeg2", "svg.", "a.svg/b"])
def test_a_picture_has_a_format_that_is_known(path: str) -> None:
    with pytest.raises(ValueError, match=r"does not end in \.svg, \.png or \.pdf"):
        picture_format(path)
    assert picture_format("A.SVG") == "svg"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "luck"}, "unknown strategy"),
        ({"budget": 0}, "budget is a count"),
        ({"rounds": True}, "rounds is a count"),
        ({"start": {"lanes": 3}}, "start is no configuration"),
        ({"dispatcher": "gpu"}, "unknown target"),
        ({"space": None}, "needs a space and a measure"),
        ({"seed": -1}, "seed is a count"),
        ({"seed": np.int64(3)}, "seed is a count"),
        ({"start": 5}, "start is a configuration"),
        ({"store": 5}, "store is a store"),
        ({"measure": 5}, "measure is a function"),
        ({"space": 3}, "a space is of factors"),
        ({"space": []}, "one product of factors at least"),
        ({"space": {"a": range(10**12)}}, "factor a has 1000000000000 values"),
        ({"space": {"a": (10**5000, 1)}}, "more than 64"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str, bowl: Space) -> None:
    def cost(config: Any) -> float:
        raise AssertionError("measured")

    arguments = {"space": bowl, "measure": cost, "store": None, **options}
    with pytest.raises(BadInputs, match=message):
        autotune("bowl", **arguments)


@pytest.mark.parametrize(
    "cost",
    [
        lambda a: -float("inf") if a == 3 else 1.0 + a,
        lambda a: 10.0 ** (15 * (a - 10)),
        lambda a: 10**400 if a else 1,
        lambda a: float("nan") if a else 1.0,
    ],
)
def test_costs_of_any_size_are_kept(cost: Callable[[int], float], store: Store) -> None:
    """What is infinite is a failure, also below; a wide span is no error, neither in the search nor in the cache."""
    space = {"a": tuple(range(20))}
    best = min(range(20), key=lambda a: cost(a) if abs(cost(a)) < float("inf") else float("inf"))
    tuning = autotune("wide", space, lambda config: cost(config["a"]), budget=20, store=store)
    assert tuning.config == {"a": best}
    assert autotune("wide", space, lambda config: cost(config["a"]), budget=20, store=store).kept


def test_a_kept_result_of_fields_that_are_gone_is_measured_again(store: Store) -> None:
    """As after a field was renamed: neither the choice nor the costs of an older space are taken."""
    autotune("k", {"turns": (1, 2, 4)}, lambda config: float(config["turns"]), store=store)
    tuning = autotune("k", {"rows": (1, 2, 4)}, lambda config: 1.0 / config["rows"], store=store)
    assert tuning.config == {"rows": 4}
    assert not tuning.kept


def test_what_cannot_be_kept_is_a_result(store: Store) -> None:
    for _ in range(2):
        tuning = autotune("infinite", {"a": (1.0, float("inf"))}, lambda config: 1.0, store=store)
        assert not tuning.kept


def test_a_measure_gives_numbers(bowl: Space) -> None:
    with pytest.raises(BadInputs, match="measure gives a number, not None"):
        autotune("k", bowl, lambda config: None, store=None)  # type: ignore[arg-type, return-value]


def test_a_search_has_the_processor_to_itself() -> None:
    """BLAS on several threads took ten times as long for its small matrices; the caller's functions keep all of them."""
    from threadpoolctl import threadpool_info

    def threads() -> list[int]:
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    before, inside = threads(), []
    original = surrogate.Surrogate.predict

    def predict(self: Any, *args: Any) -> Any:
        inside.append(threads())
        return original(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surrogate.Surrogate, "predict", predict)
        autotune(
            "k",
            {"a": tuple(range(40))},
            lambda config: inside.append(threads()) or 1.0 * config["a"],
            store=None,
        )
    assert {tuple(each) for each in inside} <= {tuple(before), tuple(1 for _ in before)}
    assert tuple(1 for _ in before) in map(tuple, inside)
    assert threads() == before
