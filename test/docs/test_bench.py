"""The benchmark of the front end measures what it says it does."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from vyre_opt import PassManager, parse


@pytest.fixture
def inputs(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "bench/frontend_inputs.py"))


@pytest.fixture
def measure(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "bench/measure.py"))


def test_straight_body_has_as_many_ops_as_it_says(inputs: dict[str, Any]) -> None:
    module = parse(inputs["straight_vyre"](1000))
    assert sum(1 for _ in module.programs["f"].walk()) == 1000 + 3  # two ids and the store


def test_nested_body_has_as_many_ops_as_it_says(inputs: dict[str, Any]) -> None:
    module = parse(inputs["nested_vyre"](20))
    assert sum(1 for _ in module.programs["f"].walk()) == inputs["nested_ops"](20) + 3


@pytest.mark.parametrize("make", ["straight_vyre", "nested_vyre"])
def test_cse_has_work_and_dead_code_removal_has_none(inputs: dict[str, Any], make: str) -> None:
    """A peer whose cse also removes dead ops must not get more to do than vyre-opt's."""
    module = parse(inputs[make](100))
    assert not PassManager("dce").run(module)
    assert PassManager("cse").run(module)


def test_both_languages_have_the_same_ops(inputs: dict[str, Any]) -> None:
    """Op by op, by the names of the .vyre language."""
    vyre = [
        line.split()[2]
        for line in inputs["straight_vyre"](200).splitlines()
        if "%v" in line and " = " in line
    ]
    mlir = [
        line.split()[2]
        for line in inputs["straight_mlir"](200).splitlines()
        if "%v" in line and " = " in line
    ]
    assert [f"arith.{name}i" for name in vyre] == [n if n.endswith("i") else f"{n}i" for n in mlir]


def test_a_failing_command_is_an_error_and_not_a_fast_run(measure: dict[str, Any]) -> None:
    with pytest.raises(measure["CommandFailed"], match=r"exit .*3"):
        measure["run_once"]([sys.executable, "-c", "raise SystemExit(3)"])


def test_rounds_interleave_and_the_first_is_not_counted(measure: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = "import sys; open(sys.argv[1], 'a').write(sys.argv[2])"
    commands = {name: [sys.executable, "-c", child, str(log), name] for name in "ab"}
    samples = measure["interleaved"](commands, 2, lambda line: None)
    assert log.read_text() == "ababab"
    assert {name: len(runs) for name, runs in samples.items()} == {"a": 2, "b": 2}
    assert all(sample.seconds > 0 for runs in samples.values() for sample in runs)


@pytest.mark.parametrize("mebibytes", [1, 32])
def test_peak_memory_is_that_of_the_command_alone(measure: dict[str, Any], mebibytes: int) -> None:
    """Not that of this process, which is larger than the smaller command."""
    sample = measure["run_once"]([sys.executable, "-c", f"b = bytearray({mebibytes} << 20)"])
    assert mebibytes << 20 < sample.rss < (mebibytes + 24) << 20
