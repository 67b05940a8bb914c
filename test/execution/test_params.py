"""Runtime scalars: values of every type reach the code of every target, by every way to pass them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.quick import quick

import vyre_opt
from vyre_opt import BadInputs, DiagnosticError

TARGETS = ("ref", "cpu")

SAXPY = """vyre 2
program @saxpy workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] read_write binding(1) live_in live_out
  param @alpha : f32
  param @n : u32 = 3
  spec @beta : f32 = 1.0
  %i = global_id x
  %n = param @n : u32
  %inside = lt %i, %n : u32
  if %inside {
    %a = param @alpha : f32
    %x = load @x[%i] : f32
    %y = load @y[%i] : f32
    %m = mul %a, %x : f32
    %s = add %m, %y : f32
    store %s, @y[%i] : f32
  }
}
pipeline @main {
  buffer @x : f32[?] read
  buffer @y : f32[?] live_in live_out
  param @count : u32 = 2
  launch @saxpy grid(ceil_div(len(@x), 64)) (@x, @y) params(@alpha = 0.5, @n = @count)
  launch @saxpy grid(ceil_div(len(@x), 64)) (@x, @y) params(@n = @count, @alpha = 10)
}
"""
X = np.arange(1, 5, dtype=np.float32)
Y = np.ones(4, np.float32)


def echo(dtype: str) -> str:
    return f"""vyre 2
program @echo workgroup(32) {{
  buffer @out : {dtype}[1] write binding(0)
  param @value : {dtype}
  %i = local_id x
  %zero = const 0 : u32
  %first = eq %i, %zero : u32
  if %first {{
    %v = param @value : {dtype}
    store %v, @out[%zero] : {dtype}
  }}
}}
"""


VALUES: list[tuple[str, Any, Any]] = [
    ("bool", True, np.bool_(True)),
    ("u8", 255, np.uint8(255)),
    ("i8", -128, np.int8(-128)),
    ("i16", -2, np.int16(-2)),
    ("u32", 2**32 - 1, np.uint32(2**32 - 1)),
    ("i64", -(2**63), np.int64(-(2**63))),
    ("u64", 2**64 - 1, np.uint64(2**64 - 1)),
    ("f16", 65504.0, np.float16(65504)),
    ("bf16", 1.5, np.uint16(0x3FC0)),
    ("f32", -0.0, np.float32(-0.0)),
    ("f64", 5e-324, np.float64(5e-324)),
    ("f32", "0x7f800001", np.uint32(0x7F800001).view(np.float32)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dtype", "value", "expected"), VALUES, ids=lambda v: str(v))
def test_values_of_every_type_arrive_bit_by_bit(target: str, dtype: str, value: Any, expected: Any) -> None:
    (out,) = vyre_opt.run(echo(dtype), grid=1, target=target, params={"value": value}).values()
    assert out.tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize("target", TARGETS)
def test_a_new_value_compiles_nothing(target: str) -> None:
    dispatcher = vyre_opt.dispatcher(target)
    saxpy = vyre_opt.compile(SAXPY, entry="saxpy", target=dispatcher)
    for alpha in (2, 3.5, 2, -1):  # the second call has a plan of the first
        got = saxpy({"x": X, "y": Y}, 1, params={"alpha": alpha})["y"]
        assert got.tolist() == (Y + np.float32(alpha) * X * (np.arange(4) < 3)).tolist()
    if target == "cpu":
        assert len(dispatcher.compilations) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("passes", [None, "default"])
@pytest.mark.parametrize("target", TARGETS)
def test_launches_take_literals_and_the_params_of_their_pipeline(target: str, passes: str | None) -> None:
    """With the default passes both launches are one program, in which the literals are constants."""
    main = vyre_opt.compile(SAXPY, target=target, passes=passes)
    for count in (1, 3, 3, 4):
        got = main({"x": X, "y": Y}, params={"count": count})["y"]
        assert got.tolist() == (Y + np.float32(10.5) * X * (np.arange(4) < count)).tolist()
    assert main({"x": X, "y": Y})["y"].tolist() == [11.5, 22.0, 1.0, 1.0]
    if passes:
        assert len(main.module.pipelines["main"].stages) == 1


def test_one_executable_called_from_threads_keeps_values_apart() -> None:
    from concurrent.futures import ThreadPoolExecutor

    saxpy = vyre_opt.compile(SAXPY, entry="saxpy")

    def call(alpha: int) -> bool:
        got = saxpy({"x": X, "y": Y}, 1, params={"alpha": alpha})["y"]
        return bool(got[0] == 1 + alpha)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(400)))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (None, "needs a value for @alpha : f32; pass params={'alpha': value}"),
        ({"alhpa": 1}, "has no param @alhpa; it has @alpha, @n; did you mean @alpha?"),
        ({"alpha": 1, "n": -1}, "param @n is u32: -1 is not a u32"),
        ({"alpha": "one"}, "param @alpha is f32: 'one' is not a literal"),
        ({"alpha": True}, "param @alpha is f32: True is not a number"),
        ([1.0], "params are values by name, not list"),
        ({"beta": 3.0}, "has no param @beta: it is a spec, pass specs={'beta': 3.0}"),
    ],
)
def test_a_wrong_value_is_refused_before_anything_runs(params: Any, message: str) -> None:
    saxpy = vyre_opt.compile(SAXPY, entry="saxpy")
    for _ in range(2):  # also by a call that has a plan
        with pytest.raises(BadInputs) as caught:
            saxpy({"x": X, "y": Y}, 1, params=params)
        assert message in str(caught.value)
        saxpy({"x": X, "y": Y}, 1, params={"alpha": 1})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%a = param @alpha : f32", "%a = param @alhpa : f32", "program @saxpy has no param @alhpa"),
        ("%a = param @alpha : f32", "%a = param @alpha : f64", "@alpha is f32, not f64"),
        ("param @n : u32 = 3", "param @n : u32 = -3", "-3 does not fit in u32"),
        ("param @n : u32 = 3", "param @n : vec<4 x u32>", "it must be a scalar"),
        ("@alpha = 0.5", "@alpha = true", "@alpha: true is a bool, not an f32"),
        ("@alpha = 0.5, ", "", "needs a value for its param @alpha"),
        ("@n = @count)", "@n = @cuont)", "pipeline @main has no param @cuont"),
        ("@n = @count)", "@n = @count, @m = 1)", "program @saxpy has no param @m"),
        ("@n = @count)", "@n = @count, @n = 1)", "@n is passed twice"),
        ("param @count : u32 = 2", "param @count : i32", "@count is i32, @n is u32"),
    ],
)
def test_errors_of_texts_are_located(old: str, new: str, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        vyre_opt.compile(SAXPY.replace(old, new, 1))
    error = caught.value.diagnostics[0]
    assert message in error.message
    assert error.loc is not None


def test_a_param_of_a_type_parameter_has_its_type() -> None:
    text = echo("@T").replace("workgroup(32) {", "workgroup(32) {\n  spec @T : dtype = f32")
    text = text.replace("param @value : @T\n", "param @value : @T = 0.1\n", 1)
    for dtype, stored in (("f64", np.float64), ("f16", np.float16)):
        (out,) = vyre_opt.run(text, grid=1, specs={"T": dtype}).values()
        assert out[0] == stored(0.1)


def test_a_text_prints_the_version_that_it_needs() -> None:
    assert vyre_opt.print_program(vyre_opt.parse(SAXPY.replace("vyre 2", "vyre 1"))).startswith("vyre 2\n")
    plain = "vyre 2\nprogram @p workgroup(1) {\n  %i = local_id x\n}\n"
    assert vyre_opt.print_program(vyre_opt.parse(plain)).startswith("vyre 2\n"), "that of the text"
    assert vyre_opt.print_program(vyre_opt.parse(plain), version=1).startswith("vyre 1\n")


def test_limits_pass_values_to_the_process_of_their_own() -> None:
    with vyre_opt.compile(SAXPY, entry="saxpy", limits=vyre_opt.Limits(time=60)) as saxpy:
        assert saxpy({"x": X, "y": Y}, 1, params={"alpha": 2})["y"].tolist() == [3.0, 5.0, 7.0, 1.0]


@pytest.fixture
def run_saxpy(run_run: Any, tmp_path: Path) -> Callable[..., Any]:
    """`run_saxpy("--check")`: vyre-run on @saxpy with files of arrays."""
    (tmp_path / "saxpy.vyre").write_text(SAXPY)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    files = ("--in=x=x.npy", "--in=y=y.npy", "--out=y=out.npy", "--entry=saxpy", "--grid=1")
    return partial(run_run, "saxpy.vyre", *files, cwd=tmp_path)


@pytest.mark.parametrize(
    "options", quick([["--check"], ["--check-against=ref"], ["-O"], []], keep=3), ids=str
)
def test_the_tool_takes_values(run_saxpy: Callable[..., Any], tmp_path: Path, options: list[str]) -> None:
    ran = run_saxpy("--param=alpha=2", "--param", "@n=4", *options)
    assert ran.returncode == 0, ran.stderr
    assert np.load(tmp_path / "out.npy").tolist() == [3.0, 5.0, 7.0, 9.0]


def test_the_tool_says_how_to_pass_a_value(run_saxpy: Callable[..., Any]) -> None:
    ran = run_saxpy()
    assert ran.returncode == 1
    assert "needs a value for @alpha : f32; pass --param alpha=VALUE" in ran.stderr
