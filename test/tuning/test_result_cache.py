"""What earlier runs found: taken as it is, gone on from, begun with elsewhere, and passed on in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vyre_opt import (
    BadInputs,
    DataType,
    Space,
    autotune,
    dispatcher,
    export_tuning,
    import_tuning,
    kernel_workload,
)
from vyre_opt.execution.cache.store import Store
from vyre_opt.execution.target import as_target
from vyre_opt.lowering.nvptx.targets import gpu
from vyre_opt.targets.cuda.device import DeviceFacts
from vyre_opt.targets.cuda.dispatcher import CudaDispatcher
from vyre_opt.targets.cuda.ptx_options import PtxOptions
from vyre_opt.tuning import result_cache
from vyre_opt.tuning.result_cache import (
    MAX_RESULTS,
    add_result,
    learnt_starts,
    result_for,
    results_of,
)
from vyre_opt.tuning.shape_class import size_class

F32 = DataType.F32


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def softmax(rows: int, columns: int = 64) -> Any:
    return kernel_workload("math.softmax", [rows * columns] * 2, [F32] * 2, {"columns": columns})


def test_classes_of_sizes() -> None:
    assert size_class(1024) == size_class(1984) == "1024+/64"
    assert len({size_class(n) for n in (1023, 1024, 1025, 1026, 2048, 0)}) == 6


def test_alike_sizes_share_a_result_and_others_begin_with_it(store: Store) -> None:
    first = autotune(softmax(64), store=store, budget=3, rounds=1)
    assert first.family == "math.softmax(f32, f32)"
    assert first.shape == "4096+/64, 4096+/64, columns 64+/64"
    alike = autotune(softmax(65), store=store, budget=3, rounds=1)
    assert alike.kept
    assert alike == first
    other = autotune(softmax(640), store=store, budget=3, rounds=1)
    assert not other.kept
    assert first.config in [each.config for each in other.measured]
    assert len(results_of(store, first.family)) == 2
    here = dispatcher("ref")
    assert not autotune(softmax(2, 64), dispatcher=here, store=store, budget=3, rounds=1).kept


def test_a_space_that_has_grown_is_gone_on_with(
    store: Store, bowl: Space, bowl_cost_of: Callable[[Any], float]
) -> None:
    """What was measured is measured no more, but for the best: only the new configurations are."""
    calls: list[Any] = []

    def cost(config: Any) -> float:
        calls.append(config)
        return 3.0 * bowl_cost_of(config)  # of a machine that is slower now

    small = Space({**bowl.factors, "unroll": (1, 2, 4, 8)})
    first = autotune("bowl", small, bowl_cost_of, store=store, budget=len(small))
    assert first.stopped in ("all of them", "nothing more promised a gain")
    grown = autotune("bowl", bowl, cost, store=store, budget=12, rounds=2)
    assert not grown.kept
    before = [each.config for each in first.measured]
    again = [config for config in calls if config in before]
    assert again[0] == first.config
    assert all(bowl_cost_of(config) <= 1.3 * first.cost for config in again), "contenders only"
    assert any(config["unroll"] == 16 for config in calls)
    assert grown.cost == pytest.approx(3 * min(map(bowl_cost_of, bowl.configs)), rel=0.05)
    assert len(grown.measured) > len(first.measured)
    assert autotune("bowl", bowl, cost, store=store, budget=12, rounds=2).kept


def test_places_of_results(
    store: Store, bowl: Space, bowl_cost_of: Callable[[Any], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result replaces that of its place; starts are of the same device first, each once, and legal."""
    tuning = autotune("bowl", bowl, bowl_cost_of, store=None)
    configs = [bowl.config(k) for k in (3, 5, 7)]
    places = [("1024+/64", "cpu b"), ("64+/64", "cpu a"), ("1024+/64", "cpu a")]
    for config, (shape, device) in zip(configs, places, strict=True):
        add_result(store, replace(tuning, config=config, shape=shape, device=device))
    add_result(store, replace(tuning, config=configs[0], shape="1024+/64", device="cpu a"))
    kept = results_of(store, "bowl")
    assert [(each.shape, each.device) for each in kept] == places
    assert result_for(kept, "64+/64", "cpu a").config == configs[1]
    assert result_for(kept, "64+/64", "cpu b") is None
    assert result_for([replace(each, version="0") for each in kept], "64+/64", "cpu a") is None
    assert learnt_starts(kept, "64+/64", "cpu a", bowl) == [configs[1], configs[0]]
    assert learnt_starts(kept, "64+/64", "cpu a", Space({"lanes": (1, 2)})) == []
    monkeypatch.setattr(result_cache, "MAX_RESULTS", 16)
    for number in range(16 + 5):
        add_result(store, replace(tuning, shape=str(number)))
    assert [each.shape for each in results_of(store, "bowl")][-1] == "20"
    assert len(results_of(store, "bowl")) == 16


def test_a_result_is_of_a_device_with_its_options() -> None:
    """A change for each option of the code; where none is changed, the text is that of the device alone."""
    target = gpu("sm_90")
    properties = DeviceFacts("H", (9, 0), target, (12, 4), (8, 4), 132, 1, 1, 1, 1)

    class Gpu(CudaDispatcher):
        facts = properties  # type: ignore[assignment]

    changes: dict[str, Any] = {
        "bounds": "none",
        "opt_level": 3,
        "ptx_version": "8.6",
        "zero_memory": True,
        "debug_info": True,
    }
    assert len(changes) == len(fields(PtxOptions))
    assert Gpu().key == properties.key
    texts = [Gpu().key, *[Gpu(**{name: value}).key for name, value in changes.items()]]
    texts += [as_target(dispatcher("cpu", workers=w, opt=opt)).key for w in (1, 2) for opt in range(4)]
    assert len(set(texts)) == len(texts)
    assert texts[-1].endswith(" 2 threads")


def test_a_file_passes_results_on(store: Store, tmp_path: Path) -> None:
    first = autotune(softmax(64), store=store, budget=4, rounds=1)
    autotune("k", Space({"a": (1, 2, 3)}), lambda c: float(c["a"]), store=store)
    path, other = tmp_path / "team.json", Store(tmp_path / "other")
    assert export_tuning(path, store) == 2
    assert import_tuning(path, other) == 2
    assert import_tuning(path, other) == 0
    assert autotune(softmax(64), store=other, budget=4, rounds=1) == first
    assert export_tuning(tmp_path / "again.json", other) == 2
    assert (tmp_path / "again.json").read_text() == path.read_text()


def test_what_is_here_stays(store: Store, tmp_path: Path) -> None:
    first = autotune("k", Space({"a": (1, 2, 3)}), lambda c: float(c["a"]), store=store)
    export_tuning(tmp_path / "mine.json", store)
    add_result(store, replace(first, cost=0.5))
    assert import_tuning(tmp_path / "mine.json", store) == 0
    assert results_of(store, "k")[0].cost == 0.5


WRONG = {
    "empty": "",
    "no JSON": "{",
    "a list": "[]",
    "a number": "7",
    "another format": '{"format": "vyre-tuning 9", "results": []}',
    "no results": '{"format": "vyre-tuning 1"}',
    "results of another type": '{"format": "vyre-tuning 1", "results": 3}',
    "a result that is none": '{"format": "vyre-tuning 1", "results": [{}]}',
    "a text": '{"format": "vyre-tuning 1", "results": ["x"]}',
    "nested": '{"format": "vyre-tuning 1", "results": ' + "[" * 100_000,
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files(name: str, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(WRONG[name])
    with pytest.raises(BadInputs, match="not results of the tuner"):
        import_tuning(path, store)
    assert not list(store.entries())


def test_one_wrong_result_takes_none(store: Store, tmp_path: Path) -> None:
    """Every field of another type is refused, with the number of the result."""
    autotune("k", Space({"a": (1, 2, 3)}), lambda c: float(c["a"]), store=store)
    export_tuning(tmp_path / "one.json", store)
    content = json.loads((tmp_path / "one.json").read_text())
    for field in content["results"][0]:
        wrong = {**content["results"][0], field: object.__name__ if field != "kernel" else 3}
        if isinstance(content["results"][0][field], str) and field != "kernel":
            wrong[field] = 3
        text = json.dumps({**content, "results": [content["results"][0], wrong]})
        (tmp_path / "wrong.json").write_text(text)
        with pytest.raises(BadInputs, match="result 2: "):
            import_tuning(tmp_path / "wrong.json", Store(tmp_path / "none"))
    missing = {k: v for k, v in content["results"][0].items() if k != "config"}
    (tmp_path / "wrong.json").write_text(json.dumps({**content, "results": [missing]}))
    with pytest.raises(BadInputs, match="result 1: "):
        import_tuning(tmp_path / "wrong.json", store)


def test_a_file_that_is_not_there(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        import_tuning(tmp_path / "none.json", store)
    with pytest.raises(FileNotFoundError):
        export_tuning(tmp_path / "none" / "x.json", store)
    assert not list(tmp_path.glob("*.partial"))


def test_outputs_are_checked_whatever_a_file_says(store: Store, tmp_path: Path) -> None:
    """A file that names another configuration as the best is believed only where it is legal."""
    autotune(softmax(64), store=store, budget=4, rounds=1)
    export_tuning(tmp_path / "team.json", store)
    text = (tmp_path / "team.json").read_text().replace('"lanes": ', '"lanes": 7')
    (tmp_path / "team.json").write_text(text)
    other = Store(tmp_path / "other")
    assert import_tuning(tmp_path / "team.json", other) == 1
    tuning = autotune(softmax(64), store=other, budget=4, rounds=1)
    assert not tuning.kept
    assert softmax(64).space("cpu").find(tuning.config) is not None
    assert np.isfinite(tuning.cost)


def exported(store: Store, tmp_path: Path, **changes: Any) -> Path:
    """A file of one result, with some fields changed."""
    autotune("k", {"a": (1, 2)}, lambda config: float(config["a"]), store=store)
    path = tmp_path / "team.json"
    export_tuning(path, store)
    content = json.loads(path.read_text())
    content["results"][0] |= changes
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"a": float("nan")}},
        {"config": {"a": [1]}},
        {"path": [[1, float("inf"), 1.0, 1.0]]},
        {"family": "\ud800"},
        {"kernel": "\x1b[31mred\x07"},
        {"config": {"a": "\x1b[0m"}},
        {"cost": None},
        {"rounds": -3},
        {"budget": 10**30},
    ],
    ids=repr,
)
def test_what_no_tuner_writes_is_refused(changes: dict[str, Any], store: Store, tmp_path: Path) -> None:
    path = exported(store, tmp_path, **changes)
    other = Store(tmp_path / "other")
    with pytest.raises(BadInputs, match="not results of the tuner"):
        import_tuning(path, other)
    assert export_tuning(tmp_path / "none.json", other) == 0


def test_imported_results_are_those_that_are_kept(store: Store, tmp_path: Path) -> None:
    """There is room for so many of a kernel; those that are here stay."""
    path = exported(store, tmp_path)
    content = json.loads(path.read_text())
    (one,) = content["results"]
    content["results"] = [one | {"shape": f"shape {number}"} for number in range(MAX_RESULTS + 36)]
    path.write_text(json.dumps(content))
    assert import_tuning(path, store) == MAX_RESULTS - 1
    assert import_tuning(path, store) == 0
    assert one["shape"] in {each.shape for each in results_of(store, one["family"])}
    assert export_tuning(tmp_path / "all.json", store) == MAX_RESULTS
