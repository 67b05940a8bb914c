"""The benchmark of calls measures every function, on results that agree, and its page holds."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import call_cases
import calls
import numpy as np
import pytest
import report

from vyre_opt import kernels

MOST_BYTES = 256


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    return list(call_cases.cases("cpu", MOST_BYTES, seed=1))


def test_every_function_is_measured(cases: list[Any]) -> None:
    assert set(call_cases.FUNCTIONS) == set(kernels.__all__)
    assert {case.name for case in cases} == {*kernels.__all__, "program", "pipeline"}
    assert set(call_cases.PEERS) == {case.name for case in cases}


@pytest.mark.parametrize("name", call_cases.FUNCTIONS)
def test_shapes_of_a_function(name: str) -> None:
    """From the smallest to the most bytes, by a seed; as many drawn ones as listed ones."""
    function, most = call_cases.FUNCTIONS[name], 1 << 30
    shapes = call_cases.shapes(function, most, random.Random(1))
    assert shapes == call_cases.shapes(function, most, random.Random(1))
    assert shapes != call_cases.shapes(function, most, random.Random(2))
    elements = [function.elements(shape) for shape, _ in shapes]
    assert elements[0] <= (call_cases.CHAIN_STEPS if name == "tt_chain" else 3)
    largest = min(most // function.element_bytes, function.max_elements)
    assert largest / 3 < elements[-1] <= largest
    drawn = sum(is_drawn for _, is_drawn in shapes)
    assert drawn == len(shapes) - drawn


def test_shapes_do_not_depend_on_the_other_functions() -> None:
    def titles(only: list[str]) -> list[str]:
        rows = call_cases.cases("cpu", MOST_BYTES, 1, only)
        return [case.shape for case in rows if case.name == "prefix_scan"]

    assert titles(["softmax", "prefix_scan"]) == titles(["prefix_scan"])


@pytest.mark.campaign
def test_results_agree_with_each_peer(cases: list[Any]) -> None:
    """Making the functions of a row compares them, and leaves the process if one differs."""
    side = calls.Host()
    for case in cases:
        runs = calls.functions_of(case, side)
        assert calls.OURS in runs
        assert any(name in runs for name in case.peers), f"{case.name} has no peer here"
        is_several = case.name == "tt_chain" and calls.launches_of_chain(side, *case.arguments) > 1
        assert (calls.PREPARED in runs) == (case.name not in ("pipeline", "decode_scan") and not is_several)


def test_a_peer_that_differs_ends_the_run(cases: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in cases if case.name == "prefix_scan" and case.bytes == 64)
    monkeypatch.setitem(case.peers, "numpy", lambda x: np.cumsum(x) + 1)
    with pytest.raises(SystemExit, match="prefix_scan of 16: ours and numpy differ"):
        calls.functions_of(case, calls.Host())


@pytest.mark.parametrize(
    ("ours", "theirs", "tolerance", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0, True),
        ([1.0, 2.0], [1.0, 2.1], 0.01, False),
        ([1.0, 2.0], [1.0, 2.1], 0.1, True),
        ([1.0, 2.0], [1.0, np.nan], 1.0, False),
        ([np.nan, 2.0], [1.0, 2.0], 1.0, False),
        ([1.0], [1.0, 2.0], 1.0, False),
    ],
)
def test_agreement(ours: list[float], theirs: list[float], tolerance: float, expected: bool) -> None:
    compare = calls.Host().comparable
    assert calls.agree(np.array(ours), np.array(theirs), tolerance, compare) is expected


def test_new_arrays_are_taken_in_turn(cases: list[Any]) -> None:
    case = next(case for case in cases if case.takes_new)
    seen: list[Any] = []
    run = calls.bound(case, seen.append, case.arguments[:2])
    for _ in range(3):
        run()
    assert [id(array) for array in seen] == [id(case.arguments[k]) for k in (0, 1, 0)]


# --- the result and the page


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("bench") / "calls_cpu.json"
    options = f"--most-bytes 64 --seconds 0.001 --only prefix_scan,program,pipeline --out {out}"
    calls.main(options.split())
    return json.loads(out.read_text(encoding="utf-8"))


def test_result_has_both_figures_of_each_function(result: dict[str, Any]) -> None:
    assert {sample["function"] for sample in result["samples"]} == {"prefix_scan", "program", "pipeline"}
    for sample in result["samples"]:
        host, device = sample["seconds"]["host"], sample["seconds"]["device"]
        assert host.keys() == device.keys() >= {"ours", "numpy"}
        assert min(*host.values(), *device.values()) > 0


def test_rows_fit_their_columns(result: dict[str, Any]) -> None:
    for table in result["tables"]:
        assert table["rows"]
        assert {len(row) for row in table["rows"]} == {len(table["columns"])}


def gpu_sample() -> dict[str, Any]:
    """As of a row on a GPU, with the widest cells."""
    seconds = {"ours": 1e-3, "torch": 2e-3, "cupy": 1.5e-3, "prepared": 5e-4, "unchecked": 4e-4}
    shape = "16,384 x 16,384"
    return {
        "function": "tt_contract_step",
        "shape": shape,
        "drawn": False,
        "bytes": 1 << 30,
        "seconds": {"host": seconds, "device": seconds},
    }


def test_rows_of_a_gpu_have_checked_and_unchecked_code() -> None:
    *_, prepared = calls.tables([gpu_sample()], 1)
    (row,) = prepared["rows"]
    cells = dict(zip(prepared["columns"][:2] + prepared["columns"][5:], row[:2] + row[5:], strict=True))
    assert cells["checked device"] == "500.0"
    assert cells["unchecked device"] == "400.0"
    assert row[-1] == "1.25"


def test_the_fastest_peer_is_the_one_beside_ours() -> None:
    _, listed, *_ = calls.tables([gpu_sample()], 1)
    (row,) = listed["rows"]
    assert row == ["tt_contract_step", "16,384 x 16,384", *["1,000", "1,500 cupy", "1.50"] * 2]
    assert len(f"| {' | '.join(row)} |") <= 110


@pytest.mark.parametrize("devices", [["cpu"], ["cuda"], ["cpu", "cuda"]])
def test_calls_stand_first_on_the_page(devices: list[str], result: dict[str, Any], tmp_path: Path) -> None:
    """With either file or both."""
    other = {**result, "name": "autotune", "title": "Another", "tables": []}
    (tmp_path / "autotune.json").write_text(json.dumps(other), encoding="utf-8")
    for device in devices:
        named = {**result, "title": f"Calls, {device}", "arguments": f"--device {device}"}
        (tmp_path / f"calls_{device}.json").write_text(json.dumps(named), encoding="utf-8")
    page = report.page(tmp_path)
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == [*(f"## Calls, {device}" for device in devices), "## Another"]
    assert all(f"`python bench/calls.py --device {device}`" in page for device in devices)
