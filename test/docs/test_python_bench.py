"""The benchmarks of examples/python count and compare what they say."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
import python_kernels
import python_lines
from support.python_examples import NAMES, call_of, load


def test_lines_are_those_of_code() -> None:
    source = '''
SIZE = (
    1,  # a comment behind code
)


@decorator
def kernel(x):
    """A docstring
    of two lines."""
    # a comment

    text = """

    a text that is no docstring
    """
    return text


KERNEL = r"""
// a comment
void f() {

}
"""
a, b = f(1), 2
'''
    counted = {name: python_lines.lines_of(source, [name]) for name in ("SIZE", "kernel", "KERNEL", "a,b")}
    assert counted == {"SIZE": 3, "kernel": 7, "KERNEL": 2, "a,b": 1}
    with pytest.raises(KeyError):
        python_lines.lines_of(source, ["other"])


def test_the_table_of_lines_is_up_to_date() -> None:
    written = json.loads((python_lines.RESULTS / "python_lines.json").read_text())["samples"]
    counted = {name: list(both) for name, both in python_lines.counts().items()}
    assert written == counted, "run: python bench/python_lines.py"
    assert sorted(counted) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_lines_are_at_most_as_many_as_promised(name: str) -> None:
    ours, peer = python_lines.counts()[name]
    assert ours <= python_lines.MOST * peer


@pytest.mark.parametrize("name", NAMES)
def test_all_that_a_launch_needs_is_counted(name: str) -> None:
    """Guards against a helper or a constant that is left out of a count."""
    row = python_lines.ROWS[name]
    for folder, names in ((python_lines.OURS, row.ours), (python_lines.PEERS, row.peer)):
        tree = ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))
        defined = {python_lines._name(node) for node in tree.body} - {"", "main", "reference"}
        assert defined == set(names.split())


@pytest.mark.parametrize("name", NAMES)
def test_a_peer_takes_the_arguments_of_the_example(name: str) -> None:
    tree = ast.parse((python_lines.PEERS / f"{name}.py").read_text(encoding="utf-8"))
    run = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run")
    example = load(name)
    launch = example.run if hasattr(example, "run") else call_of(name, (1,)).kernel.function
    assert [argument.arg for argument in run.args.args] == list(inspect.signature(launch).parameters)


def test_kernels_are_timed_beside_numpy(root: Path, tmp_path: Path) -> None:
    """It stops if results differ."""
    script = root / "bench" / "python_kernels.py"
    command = [sys.executable, str(script), "--quick", "--drawn", "1", "--results", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    result = json.loads((tmp_path / "python_kernels_cpu.json").read_text())
    assert {each["example"] for each in result["samples"]} == {w.example for w in python_kernels.WORKLOADS}
    assert sum(each["drawn"] for each in result["samples"]) == len(python_kernels.WORKLOADS)
    for each in result["samples"]:
        assert set(each["seconds"]["called"]) == {"ours", "NumPy"}


def test_a_kernel_that_is_wrong_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_kernels, "ours", lambda example: lambda *_: None)
    workload = next(w for w in python_kernels.WORKLOADS if w.example == "saxpy")
    with pytest.raises(SystemExit, match="saxpy by ours is wrong"):
        python_kernels.sample(workload, (100,), False, python_kernels.Host(), 0.001)
