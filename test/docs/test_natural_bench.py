"""The benchmark of kernels as first written compares results before it measures, and its result has what the page needs."""

from __future__ import annotations

import ast
import inspect
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import natural
import numpy as np
import pytest
from call_timing import Host
from natural_kernels import KERNELS, Natural
from natural_peers import Peer, installed
from natural_peers import numpy as by_numpy
from report import section

import vyre_opt as vyre
from vyre_opt import Read, Write, f32

BY_NAME = {each.name: each for each in KERNELS}
SMALL = natural.Size(100, is_drawn=False, is_large=True)


def numpys() -> Peer:
    return installed(["numpy"])[0][0]


def erf(x: np.ndarray, y: np.ndarray) -> None:
    y[...] = [math.erf(value) for value in x]


@pytest.mark.parametrize("each", KERNELS, ids=lambda each: str(each.name))
def test_a_kernel_gives_what_numpy_gives(each: Natural) -> None:
    """At a size that no workgroup and no tile divides; the interpreter would report a fault or a race."""
    arguments = each.arguments(np.random.default_rng(1), 1_301)
    expected, checked = (Host().arrays(arguments) for _ in range(2))
    each.bound(arguments)()
    each.bound(checked, "ref")()
    returned = (by_numpy.__dict__ | {"erf": erf})[each.peers_name](*expected)
    wanted = np.ravel(expected[-1] if returned is None else returned)
    for actual in (arguments, checked):
        assert Host().error(actual[-1].ravel(), wanted) <= each.tolerance


def peer_functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted((Path(natural.__file__).parent / "natural_peers").glob("[!_]*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield path.stem, node


@pytest.mark.parametrize(("library", "function"), list(peer_functions()), ids=lambda v: getattr(v, "name", v))
def test_a_peer_takes_the_arguments_of_its_kernel(library: str, function: ast.FunctionDef) -> None:
    """Of libraries that are not installed as well."""
    parameters = inspect.signature(BY_NAME[function.name].kernel.function).parameters
    assert [argument.arg for argument in function.args.args] == list(parameters)


def test_kernels_are_timed_beside_numpy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--quick", "--drawn", "1", "--peers", "numpy", "--only", "exp,erf,matmul"]
    natural.main([*options, "--results", str(tmp_path)])
    written = json.loads((tmp_path / "natural_cpu.json").read_text())
    assert [each["kernel"] for each in written["samples"]] == ["exp"] * 3 + ["matmul"] * 3
    assert all(each["seconds"]["ours"] > 0 < each["seconds"]["numpy"] for each in written["samples"])
    assert written["absent"] == ["a peer for erf"]
    assert written["arguments"].endswith("--quick --only exp,erf,matmul --peers numpy")
    page = "\n".join(section(written))
    assert "| exp | 1 |" in page
    assert "| exp 1,000 |" in page
    assert len(capsys.readouterr().out.splitlines()) == 6


def test_unknown_names_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        natural.main(["--only", "exp,affin"])
    assert "--only: affin: there are affine, add" in capsys.readouterr().err


def measured(each: Natural, *peers: Peer) -> dict[str, Any]:
    return natural.sample(each, SMALL, Host(), peers or (numpys(),), 0.0002)


def row_of(each: dict[str, Any]) -> list[str]:
    args = natural.natural_options().parse_args([])
    made = natural.result(args, Host(), [each], [numpys()], [])
    assert made["targets"] == []
    row: list[str] = made["tables"][0]["rows"][0]
    return row


@vyre.program
def affine(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x) - 1:
        y[i] = x[i] * 2.0 + 1.0


def test_a_wrong_result_is_a_loss_and_not_measured() -> None:
    """The last element is missing."""
    wrong = measured(replace(BY_NAME["affine"], kernel=affine))
    assert wrong["seconds"].keys() == {"numpy"}
    assert row_of(wrong)[2].startswith("failed: it is wrong, relative error")


def test_an_exception_is_a_loss_and_not_the_end() -> None:
    failed = measured(replace(BY_NAME["affine"], grid=lambda shape: -1))
    assert failed["seconds"].keys() == {"numpy"}
    assert row_of(failed)[2].startswith("failed: ")


def test_a_peer_that_fails_is_absent() -> None:
    def fail(x: np.ndarray, y: np.ndarray) -> None:
        raise RuntimeError("no driver | no peer\nand more")

    module = ModuleType("broken")
    module.affine = fail  # type: ignore[attr-defined]
    each = measured(BY_NAME["affine"], numpys(), Peer("broken", "1", module))
    assert each["seconds"].keys() == {"ours", "numpy"}
    args = natural.natural_options().parse_args([])
    made = natural.result(args, Host(), [each], [numpys()], ["other: there is none"])
    assert made["absent"] == [
        "other: there is none",
        "broken for affine: RuntimeError: no driver / no peer",
    ]


def test_a_library_that_is_missing_is_absent() -> None:
    peers, absent = installed(["numpy", "nothing_of_this_name"])
    assert [peer.name for peer in peers] == ["numpy"]
    assert absent == ["nothing_of_this_name: No module named 'natural_peers.nothing_of_this_name'"]


def test_the_best_peer_is_compared_with() -> None:
    each = {"kernel": "exp", "elements": 10, "seconds": {"ours": 2.0, "a": 4.0, "b": 3.0}, "failed": {}}
    assert natural.best(each) == (1.5, "b")
    assert natural.cells(each, ["a", "b", "c"])[1:] == [
        "2000000.0",
        "4000000.0",
        "3000000.0",
        "",
        "b",
        "1.50",
    ]


def test_sizes_are_listed_and_drawn() -> None:
    chosen = list(natural.sizes(natural.QUICK, 4, 7))
    assert [size.elements for size in chosen if not size.is_drawn] == [1_000, 100_000]
    assert all(100 < size.elements <= natural.QUICK for size in chosen if size.is_drawn)
    assert [size.is_large for size in chosen[:2]] == [False, True]
    assert chosen == list(natural.sizes(natural.QUICK, 4, 7))
