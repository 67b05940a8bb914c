"""Tracebacks of a caller's mistakes show the caller's lines alone; a bug of the package keeps its frames."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_opt
import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32, program_translation, u32
from vyre_opt.targets.cuda import device, driver

TEXT = """vyre 1
program @p workgroup(1) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[4] write binding(1)
  %i = global_id x
  %v = load @x[%i] : f32
  store %v, @y[%i] : f32
}
"""


@vyre.program
def wrong(x: Read[f32], y: Write[f32]):
    y[0] = x[0] + u32(1)


@vyre.program
def copy(n: u32, x: Read[f32], y: Write[f32]):
    i = vyre.global_id(0)
    y[i] = x[i] + f32(n)


@vyre.program(grid=1)
def fixed(x: Read[f32], y: Write[f32]):
    y[0] = x[1 << 20]


@vyre.pipeline
def launches(x: Read[f32], y: Write[f32]):
    fixed(x, y)


@vyre.pipeline
def launches_wrong(x: Read[f32], y: Write[f32]):
    wrong[1](x, missing)  # noqa: F821


@vyre.tunable(lanes=(32, 64))
def tuned(lanes):
    return fixed


with vyre.profile() as PROFILE:
    pass
X, Y = np.zeros(4, np.float32), np.zeros(4, np.float32)
CALLS: dict[str, tuple[Callable[[], Any], type[BaseException]]] = {
    "translation": (lambda: wrong[1](X, Y), vyre.DiagnosticError),
    "text": (lambda: wrong.text(), vyre.DiagnosticError),
    "module": (lambda: wrong.module, vyre.DiagnosticError),
    "report": (lambda: wrong[1].report(X, Y), vyre.DiagnosticError),
    "fault": (lambda: copy[1](1, X, Y), vyre.ProgramError),
    "number": (lambda: copy[1](-1, X, Y), vyre.BadInputs),
    "type": (lambda: copy[1](1, X.astype(np.float64), Y), vyre.BadInputs),
    "too few arguments": (lambda: copy[1](1, X), TypeError),
    "no grid": (lambda: copy(1, X, Y), TypeError),
    "wrong grid": (lambda: copy["a"](1, X, Y), vyre.BadInputs),
    "own grid": (lambda: fixed(X, Y), vyre.ProgramError),
    "target": (lambda: fixed.options(target="tpu")(X, Y), vyre.BadInputs),
    "pipeline": (lambda: launches(X, Y), vyre.ProgramError),
    "pipeline's text": (lambda: launches_wrong(X, Y), vyre.DiagnosticError),
    "tunable": (lambda: tuned(X, Y), vyre.ProgramError),
    "choice": (lambda: tuned.at(lanes=3), vyre.BadInputs),
    "no such argument": (lambda: vyre.run(TEXT, y=1), TypeError),  # type: ignore[call-overload]
    "no kernel to debug": (lambda: vyre.debug(3), TypeError),
    "debugged without a grid": (lambda: vyre.debug(copy)(1, X, Y), TypeError),
    "debugged, of no invocation": (lambda: vyre.debug(copy, local="x"), vyre.BadInputs),
    "debugged, too few arguments": (lambda: vyre.debug(copy)[1](1, X), TypeError),
    "debugged, of a wrong type": (lambda: vyre.debug(copy)[1](1, X.astype(np.int64), Y), vyre.BadInputs),
    "debugged pipeline with a grid": (lambda: vyre.debug(launches)[1], TypeError),
    "no such name": (lambda: vyre.jit, AttributeError),
    "trace": (lambda: PROFILE.trace("/nonexistent/x.json"), FileNotFoundError),
    "parse": (lambda: vyre.parse("program {"), vyre.DiagnosticError),
    "compile": (lambda: vyre.compile(TEXT, entry="q"), vyre.BadInputs),
    "run": (lambda: vyre.run(TEXT, {"z": X}, grid=1), vyre.BadInputs),
    "compiled": (lambda: vyre.compile(TEXT)({"x": X[:1]}, grid=2), vyre.ProgramError),
}


def test_a_machine_without_a_gpu_is_told_at_the_callers_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    monkeypatch.setattr(device, "_devices", {})
    driver.load.cache_clear()
    with pytest.raises(vyre.BackendError, match="the cuda target needs the package pycuda") as caught:
        fixed.options(target="cuda")(X, Y)
    assert files_of(caught.value) == [__file__]


def files_of(error: BaseException) -> list[str]:
    """The file of each frame that a traceback shows."""
    shown = traceback.TracebackException.from_exception(error)
    assert shown.__cause__ is None
    assert shown.__suppress_context__ or shown.__context__ is None
    return [frame.filename for frame in shown.stack]


@pytest.mark.parametrize("name", CALLS)
def test_a_traceback_ends_at_the_callers_line(name: str) -> None:
    """Two frames of this file: the test, and the line that calls."""
    call, kind = CALLS[name]
    for _ in range(2):  # a later call may go another way
        with pytest.raises(kind) as caught:
            call()
        assert files_of(caught.value) == [__file__, __file__]


def test_frames_of_a_callers_function_are_shown() -> None:
    """A kernel that is called where this package calls the caller's function: both lines of the caller's."""

    def read(name: str, array: Any) -> None:
        copy[1](1, X, Y)

    text = (
        TEXT.replace("binding(1)", "binding(1)").replace("%i = global_id x", "%i = const 0 : u32")
        + "pipeline @m {\n  buffer @x : f32[4] read\n  buffer @y : f32[4] write\n  launch @p grid(1) (@x, @y)\n  host_read @y\n}\n"
    )
    with pytest.raises(vyre.ProgramError) as caught:
        vyre.compile(text)({"x": X}, on_host_read=read)
    assert files_of(caught.value) == [__file__, __file__]


def test_a_bug_of_the_package_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    @vyre.program
    def fresh(y: Write[f32]):
        y[0] = 1.0

    def broken(*_: Any) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(program_translation, "translate_program", broken)
    with pytest.raises(KeyError) as caught:
        fresh[1](Y)
    assert any(file.startswith(vyre_opt.__path__[0]) for file in files_of(caught.value))


def test_all_frames_are_shown_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_DEBUG", "1")
    with pytest.raises(vyre.DiagnosticError) as caught:
        wrong[1](X, Y)
    assert any(file.startswith(vyre_opt.__path__[0]) for file in files_of(caught.value))
