"""Numbers that calls of kernels and pipelines leave out."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.modules import written_module

import vyre_opt
import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32, u32

NONE = np.float32(0)


@vyre.program(workgroup=32)
def line(x: Read[f32], y: Write[f32], slope: f32 = 2.0, offset: f32 = NONE, *, on: bool = True) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = slope * x[i] + offset if on else -1.0


@vyre.pipeline
def once(x: Read[f32], y: Write[f32], groups: u32 = 1, slope: f32 = 7) -> None:
    line[groups](x, y, slope)


@vyre.pipeline
def twice(x: Read[f32], y: Write[f32], slope: f32 = 5) -> None:
    t = vyre.buffer(f32, len(x))
    once(y=t, x=x, slope=slope)
    line[1](t, y, offset=1)


@vyre.tunable(lanes=(32, 64))
def tuned(lanes: int) -> Any:
    @vyre.program(workgroup=lanes)
    def kernel(x: Read[f32], y: Write[f32], slope: f32 = 3.0) -> None:
        i = vyre.global_id(0)
        if i < len(y):
            y[i] = slope * x[i]

    return kernel


Call = Callable[[Any, Any], Any]

CALLS: dict[str, tuple[Call, list[float]]] = {
    "all left out": (lambda x, y: line[1](x, y), [2, 4]),
    "one given by its place": (lambda x, y: line[1](x, y, 3), [3, 6]),
    "by its name, others left out": (lambda x, y: line[1](x, y, offset=1), [3, 5]),
    "arrays by name": (lambda x, y: line[1](y=y, x=x), [2, 4]),
    "a keyword alone": (lambda x, y: line[1](x, y, on=False), [-1, -1]),
    "on the interpreter": (lambda x, y: line.options(target="ref", passes=None)[1](x, y, slope=4), [4, 8]),
    "a pipeline": (lambda x, y: once(x, y), [7, 14]),
    "a number that sizes a grid": (lambda x, y: once(x, y, slope=1), [1, 2]),
    "a pipeline of a pipeline": (lambda x, y: twice(x, y), [11, 21]),
    "its own default replaced": (lambda x, y: twice(x, y, 1), [3, 5]),
    "after pickling": (lambda x, y: pickle.loads(pickle.dumps(line))[1](x, y), [2, 4]),
    "a tunable": (lambda x, y: tuned[1](x, y), [3, 6]),
    "a tunable by name": (lambda x, y: tuned[1](x, y=y), [3, 6]),
    "compiled, by its module": (
        lambda x, y: np.copyto(y, vyre_opt.compile(line.module)({"x": x}, 1, lengths={"y": 2})["y"]),
        [2, 4],
    ),
    "run as text": (
        lambda x, y: np.copyto(y, vyre_opt.run(twice.text(), {"x": x}, lengths={"y": 2})["y"]),
        [11, 21],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_left_out_numbers_have_their_default(name: str) -> None:
    call, expected = CALLS[name]
    x, y = np.array([1, 2], np.float32), np.zeros(2, np.float32)
    call(x, y)
    assert y.tolist() == expected


def test_reports_take_calls_that_leave_numbers_out() -> None:
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    assert "256 B of @y" in str(line[2].report(x, y))
    assert "128 B of @y" in str(twice.report(x, y=y))
    assert not y.any()


def test_what_has_no_default_is_asked_for() -> None:
    with pytest.raises(
        TypeError,
        match=r"^line\(\): missing a required argument: 'y'\nhelp: it is line\(x, y, slope, offset, on\); pass an array for y, which it writes, such as y=np\.zeros_like\(x\)$",
    ):
        line[1](np.ones(2, np.float32))


WRONG = {
    "a: f32 = 'x'": "the default of a, which is f32: 'x' is no number",
    "a: f32 = None": "the default of a, which is f32: None is no number",
    "a: u8 = 256": "256 does not fit in u8 (0 to 255)",
    "a: u32 = -1": "-1 does not fit in u32",
    "a: f32 = 1e50": "1e+50 does not fit in f32",
    "a: u32 = 1.5": "1.5 is a float, not a u32",
    "a: bool = 1": "a bool is true or false, not 1",
    "a: i32 = True": "true is a bool, not an i32",
    "*, a: Read[f32] = None": "a is an array, and only numbers have a default",
}


def test_defaults_that_are_wrong_are_told_at_their_place(tmp_path: Path) -> None:
    """Where the function is decorated."""
    kinds = {"program": "y[0] = 1.0", "pipeline": "vyre.fill(y, 0)"}

    def check(argument: str) -> None:
        for kind, body in kinds.items():
            text = f"import vyre_opt as vyre\nfrom vyre_opt.lang import *\n@vyre.{kind}\ndef wrong(y: Write[f32], {argument}):\n    {body}\n"
            with pytest.raises(vyre_opt.DiagnosticError) as caught:
                written_module(tmp_path, text, f"{kind}_{[*WRONG].index(argument)}").wrong.text()
            (diagnostic,) = caught.value.diagnostics
            assert WRONG[argument] in diagnostic.message
            assert diagnostic.loc is not None
            place = diagnostic.loc.source.text[diagnostic.loc.start : diagnostic.loc.end]
            assert place == argument.split(" = ")[1]

    each(WRONG, check)


def test_a_call_of_a_pipeline_in_another_is_checked(tmp_path: Path) -> None:
    text = (
        "import vyre_opt as vyre\nfrom vyre_opt.lang import *\n"
        "@vyre.pipeline\ndef inner(y: Write[f32], n: u32 = 1):\n    vyre.fill(y, 0)\n"
        "@vyre.pipeline\ndef outer(y: Write[f32]):\n    inner(y, m=2)\n"
    )
    with pytest.raises(
        vyre_opt.DiagnosticError, match=r"inner\(\): got an unexpected keyword argument 'm'"
    ) as caught:
        written_module(tmp_path, text, "calls").outer.text()
    assert caught.value.diagnostics[0].help == "it is inner(y, n)"
