"""Buffers of a pipeline whose sizes are runtime scalars: as text, in calls one after the other, and what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_gpu import CupyArray, Fake, numpy
from support.each import each
from support.tools_inside import call_opt, call_run

import vyre_opt
from vyre_opt import BadInputs, DiagnosticError, PassManager, PipelineBuilder, parse, print_program
from vyre_opt.ir.structure import check_structure

TEXT = """vyre 2

program @scale workgroup(4) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)

  %i = global_id x
  %n = len @y
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @x[%i] : f32
    %s = mul %v, 2.0 : f32
    store %s, @y[%i] : f32
  }
}

pipeline @main {
  buffer @x : f32[?] read
  buffer @m : f32[@n]
  buffer @y : f32[len(@m)] live_out
  buffer @t : f32[ceil_div(@n, 4), len(@x)] live_out
  param @n : i64

  launch @scale grid(ceil_div(@n, 4)) (@x, @m)
  launch @scale grid(ceil_div(@n, 4)) (@m, @y)
  fill(@t, 1.0)
}
"""
X = np.arange(20, dtype=np.float32)


def check(call: Callable[..., Any], n: int) -> None:
    """The call with n and nothing else new gives what it should."""
    out = call({"x": X}, params={"n": n})
    np.testing.assert_array_equal(out["y"], 4 * X[:n])
    np.testing.assert_array_equal(out["t"], np.ones((-(-n // 4), 20), np.float32))


def test_text() -> None:
    """It is printed as it was read by either parser, and every tool shows the size."""
    module = parse(TEXT)
    assert print_program(module) == print_program(parse(TEXT, parser="lark")) == TEXT
    first = TEXT.replace("vyre 2", "vyre 1").replace("2.0 :", "%v :")
    assert print_program(parse(first)).startswith("vyre 2")
    assert not check_structure(module)
    assert vyre_opt.fingerprint(module) != vyre_opt.fingerprint(
        parse(TEXT.replace("f32[@n]", "f32[len(@x)]"))
    )
    shown = json.loads(call_opt("--emit=json", text=TEXT).stdout)["pipelines"][0]["buffers"]
    assert [b["sizes"] for b in shown] == [[], ["@n"], ["len(@m)"], ["ceil_div(@n, 4)", "len(@x)"]]
    assert "@m : f32[@n]" in call_opt("--emit=dot", text=TEXT).stdout


def test_a_builder() -> None:
    p = PipelineBuilder("main")
    n = p.param("n", "u32")
    y = p.buffer("y", "u32", n, live_out=True)
    p.fill(y, 7)
    assert vyre_opt.run(p.finish(), params={"n": 3})["y"].tolist() == [7, 7, 7]


WRONG = (
    ("f32[@n]", "f32[@k]", "pipeline @main has no param @k", "declare param @k : u32"),
    ("f32[@n]", "f32[@x]", "pipeline @main has no param @x", "write len(@x)"),
    ("@n : i64", "@n : f32", "@n is f32, and a size is a whole number", None),
    (
        "@y : f32[?] write",
        "@y : f32[@n] write",
        "the size of a program's buffer is a number or ?",
        "write [?]",
    ),
)


def test_wrong_texts() -> None:
    def check(case: tuple[str, str, str, str | None]) -> None:
        old, new, message, help = case
        with pytest.raises(DiagnosticError) as caught:
            parse(TEXT.replace(old, new, 1))
        error = caught.value.diagnostics[0]
        assert message in error.message
        assert error.loc is not None
        assert (error.help or "").startswith(help or "")

    each(WRONG, check)


@pytest.mark.parametrize("passes", [None, "default"])
@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_calls_with_one_size_after_another(target: str, passes: str | None) -> None:
    """A plan of an earlier call is taken for the same size only."""
    call = vyre_opt.compile(TEXT, target=target, passes=passes)
    for n in (5, 9, 5, 9, 9, 0, 5, *random.Random(1).choices(range(21), k=8)):
        check(call, n)


def test_calls_on_a_gpu(gpu: Fake) -> None:
    for passes in (None, "default"):
        call = vyre_opt.compile(TEXT, target=gpu, passes=passes)
        for n in (5, 9, 5, 9, 9, 5):
            check(call, n)
            out = call({"x": CupyArray(X.copy())}, params={"n": n})
            np.testing.assert_array_equal(numpy(out["y"]), 4 * X[:n])


def test_launches_are_joined() -> None:
    """Nothing but equal expressions says that the hand-off is as long as the output: it goes."""
    for text in (TEXT, TEXT.replace("f32[len(@m)]", "f32[@n]")):
        module = parse(text)
        PassManager("default").run(module)
        assert [*module.pipelines["main"].buffers] == ["x", "y", "t"]
        assert vyre_opt.verify(module) == []


BAD = (
    (-1, r"error: pipeline @main: the size of @m, @n, is -1; a size is 0 to 2\^48 \(@n is -1\)"),
    (1 << 60, rf"the size of @m, @n, is {1 << 60}; a size is 0 to 2\^48 \(@n is {1 << 60}\)"),
    (
        1 << 40,
        rf"the size of @t, ceil_div\(@n, 4\), is {1 << 38}; a size is 0 to 2\^31-1 \(@n is {1 << 40}\)",
    ),
    (None, "pipeline @main needs a value for @n : i64; pass params={'n': value}"),
)


@pytest.mark.parametrize("passes", [None, "default"])
def test_refused_values(passes: str | None) -> None:
    """As written and after passes that removed the buffer, before a good call and after it."""
    call = vyre_opt.compile(TEXT, passes=passes)

    def refused(case: tuple[int | None, str]) -> None:
        n, message = case
        for _ in range(2):
            with pytest.raises(BadInputs, match=message):
                call({"x": X}, params={} if n is None else {"n": n})
            check(call, 5)

    each(BAD, refused)


GONE = (
    TEXT.replace("f32[len(@m)]", "f32[20]")
    .replace("ceil_div(@n, 4), len(@x)", "1")
    .replace("grid(ceil_div(@n, 4))", "grid(5)")
)


def test_a_size_that_passes_removed() -> None:
    """A value is refused after passes as before, whatever was planned for another."""
    assert "@n" not in print_program(_optimized(GONE)).partition("launch")[2]
    call = vyre_opt.compile(GONE, passes="default")
    for n in (20, 24, 20):
        assert call({"x": X}, params={"n": n})["y"].shape == (20,)
        with pytest.raises(BadInputs, match=r"the size of @m, @n, is -3"):
            call({"x": X}, params={"n": -3})


def _optimized(text: str) -> vyre_opt.Module:
    module = parse(text)
    PassManager("default").run(module)
    return module


def test_inputs_of_that_size() -> None:
    text = "vyre 2\npipeline @main {\n  buffer @x : f64[@n] read\n  buffer @y : f64[len(@x)] live_out\n  param @n : u32\n  fill(@y, 1.0)\n}\n"
    call = vyre_opt.compile(text)
    for x in ([1.0, 2.0, 3.0], np.ones(3)):  # a list has a length, too
        assert call([x], params={"n": 3})["y"].tolist() == [1.0, 1.0, 1.0]
        with pytest.raises(BadInputs, match=r"@x has 3 elements, and its size is @n, which is 5 here"):
            call([x], params={"n": 5})


def test_vyre_run(tmp_path: Any) -> None:
    np.save(tmp_path / "x.npy", X)
    inputs = f"--in=x={tmp_path / 'x.npy'}"
    for options in ((), ("-O",), ("--check",)):
        ran = call_run("-", inputs, "--param=n=3", *options, text=TEXT)
        assert (ran.returncode, "@y : f32[3] = 0.0 4.0 8.0" in ran.stdout) == (0, True), ran.stderr
    ran = call_run("-", inputs, text=TEXT)
    assert ran.returncode != 0
    assert "needs a value for @n : i64; pass --param n=VALUE" in ran.stderr
