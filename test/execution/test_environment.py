"""Variables that hold for a whole program: the target of calls that name none, and what every call checks."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import BadInputs, ProgramError
from vyre_opt.execution import environment, variables
from vyre_opt.lang import Read, ReadWrite, Write, f32, u32

ROOT = Path(__file__).parents[2]
TEXT = """vyre 2
program @halve workgroup(4) grid(1) {
  buffer @x : f32[4] read binding(0)
  buffer @y : f32[4] write binding(1)
  %i = global_id x
  %v = load @x[%i] : f32
  %zero = sub %v, %v : f32
  %w = div %zero, %v : f32
  store %w, @y[%i] : f32
}
"""


@pytest.fixture(autouse=True)
def _untold(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VYRE_TARGET", "VYRE_CHECK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(variables, "_is_checked", False)
    monkeypatch.setattr(environment, "_told", set())


def kernels() -> tuple[vyre.lang.Kernel, vyre.lang.Kernel, vyre.lang.Kernel, vyre.lang.PipelineFunction]:
    """New ones, since a kernel keeps what it was compiled for."""

    @vyre.program(workgroup=4, grid=1)
    def racing(x: Read[f32], y: Write[f32]):
        y[vyre.local_id(0) // 2] = x[vyre.local_id(0)]

    @vyre.program(workgroup=4, grid=1)
    def counting(bins: ReadWrite[u32]):
        bins[vyre.local_id(0)] += 1

    @vyre.program(workgroup=4, grid=1)
    def dividing(x: Read[f32], y: Write[f32]):
        i = vyre.local_id(0)
        scale = x[i] - 2.0
        y[i] = (x[i] - 2.0) / scale

    @vyre.pipeline
    def counted(y: Write[u32]):
        bins = vyre.buffer(u32, 4)
        counting(bins)
        counting(bins)
        copied(bins, y)

    @vyre.program(workgroup=4, grid=1)
    def copied(x: Read[u32], y: Write[u32]):
        y[vyre.local_id(0)] = x[vyre.local_id(0)]

    return racing, counting, dividing, counted


X = np.arange(4, dtype=np.float32)


@pytest.mark.filterwarnings("ignore::vyre_opt.ProgramWarning")
@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_the_target_of_calls_that_name_none(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_TARGET", target)
    y = np.zeros(4, np.float32)
    _, _, dividing, counted = kernels()
    dividing(X, y)
    assert dividing.in_place.executable([X, y]).target == target
    assert counted.executable().target == target
    assert vyre.compile(TEXT).target == target
    assert vyre.compile(TEXT, target="cpu").target == "cpu"
    assert vyre.compile(TEXT, target="ref").target == "ref"
    assert dividing.options(target="cpu").in_place.executable([X, y]).target == "cpu"
    assert np.allclose(vyre.kernels.softmax(X[None]).sum(), 1)


def test_races_and_what_nothing_has_written_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which the cpu does not look for: without the variable both calls end."""
    racing, _, _, counted = kernels()
    y = np.zeros(4, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vyre.ProgramWarning)
        racing(X, y)
        counted(y.view(np.uint32))
        monkeypatch.setenv("VYRE_CHECK", "race, uninit")
        racing, _, _, counted = kernels()
        with pytest.raises(ProgramError, match="data race on @y"):
            racing(X, y)
        with pytest.raises(
            ProgramError, match=r"program @counting: load of @bins, .* which nothing has written"
        ):
            counted(y.view(np.uint32))


def test_the_op_that_makes_a_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line, operands and invocation; whichever target VYRE_TARGET names."""
    y = np.zeros(4, np.float32)
    monkeypatch.setenv("VYRE_TARGET", "cpu")
    monkeypatch.setenv("VYRE_CHECK", "nan")
    _, _, dividing, _ = kernels()
    with pytest.raises(ProgramError) as caught:
        dividing(X, y)
    diagnostic = caught.value.diagnostic
    assert caught.value.kind == "nan"
    assert "div of 0.0 and 0.0 is NaN, by workgroup (0,0,0) local id (2,0,0)" in diagnostic.message
    assert diagnostic.loc is not None
    assert diagnostic.loc.source.text[diagnostic.loc.start : diagnostic.loc.end] == "(x[i] - 2.0) / scale"
    with pytest.raises(ProgramError, match=r"div of 0\.0 and 0\.0 is NaN"):
        vyre.run(TEXT, {"x": X, "y": y})
    dividing(X + 5, y)
    assert (y == 1).all()


@pytest.mark.parametrize(
    ("op", "operands", "faults"),
    [
        ("div", "%a, %b", True),
        ("sub", "%i, %i", True),
        ("add", "%i, %n", True),
        ("mul", "%a, %i", True),
        ("sqrt", "%m", True),
        ("log", "%m", True),
        ("max", "%q, %q", False),
        ("add", "%q, %m", False),
        ("sub", "%i, %m", False),
        ("workgroup_reduce<add>", "%one_of_each", True),
        ("subgroup_scan<inclusive, add>", "%one_of_each", True),
        ("workgroup_reduce<add>", "%q", False),
    ],
)
def test_what_is_the_first_nan(op: str, operands: str, faults: bool) -> None:
    """0 / 0, inf - inf, 0 * inf, roots of what is below 0; not what a NaN is among."""
    text = f"""vyre 2
program @p workgroup(4) grid(1) {{
  buffer @y : f32[4] write binding(0)
  %l = local_id x
  %a = const 0.0 : f32
  %b = const 0.0 : f32
  %m = const -1.0 : f32
  %i = const inf : f32
  %n = const -inf : f32
  %q = const nan : f32
  %first = eq %l, 0 : u32
  %one_of_each = select %first, %i, %n : f32
  %r = {op} {operands} : f32
  store %r, @y[%l] : f32
}}
"""
    program = vyre.parse(text).programs["p"]
    run = vyre.dispatcher("ref", nan=True).dispatch
    if faults:
        with pytest.raises(ProgramError, match="is NaN") as caught:
            run(program, [np.zeros(4, np.float32)])
        assert caught.value.diagnostic.loc is not None
        assert caught.value.diagnostic.loc.line == 13
    else:
        run(program, [np.zeros(4, np.float32)])
    vyre.dispatcher("ref").dispatch(program, [np.zeros(4, np.float32)])  # a NaN is none of its faults


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("VYRE_TARGET", "tpu", "VYRE_TARGET is ref, cpu, cuda, not 'tpu'"),
        ("VYRE_TARGET", "gpu", "VYRE_TARGET is ref, cpu, cuda, not 'gpu'; `gpu` is `cuda` here"),
        ("VYRE_CHECK", "bounds,rase", "VYRE_CHECK is some of bounds, race, uninit, nan, not 'rase'; did you mean race?"),
        ("VYRE_CHECK", "now", "VYRE_CHECK is some of bounds, race, uninit, nan; when faults of a GPU are told, VYRE_FAULTS=now says"),
    ],
)  # fmt: skip
def test_wrong_values(name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    _, _, dividing, _ = kernels()
    for call in (
        lambda: dividing(X, X.copy()),
        lambda: vyre.compile(TEXT),
        lambda: vyre.kernels.softmax(np.zeros((1, 977 + len(value)), np.float32)),  # of a new shape
    ):
        with pytest.raises(BadInputs, match="^" + re.escape(message)):
            call()


def test_a_call_that_names_a_target_is_told_what_that_does_not_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CHECK", "bounds,nan")
    with pytest.warns(UserWarning, match="VYRE_CHECK asks for nan, which cpu does not check") as told:
        outputs = [vyre.run(TEXT, {"x": X}, target="cpu") for _ in range(2)]
    assert np.isnan(outputs[1]["y"][0])
    assert [warning.filename for warning in told] == [__file__]
    monkeypatch.setenv("VYRE_CHECK", "bounds")
    monkeypatch.setattr(environment, "_told", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vyre.run(TEXT, {"x": X}, target="cpu")


def test_the_tool_takes_them_too(run_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, numbers = tmp_path / "p.vyre", tmp_path / "x.npy"
    path.write_text(TEXT)
    np.save(numbers, X)
    monkeypatch.setenv("VYRE_CHECK", "nan")
    ran = run_run(str(path), "--in", f"x={numbers}")
    assert (ran.returncode, "div of 0.0 and 0.0 is NaN" in ran.stderr) == (1, True)
    monkeypatch.setenv("VYRE_TARGET", "tpu")
    ran = run_run(str(path), "--in", f"x={numbers}")
    assert (ran.returncode, "VYRE_TARGET is ref, cpu, cuda, not 'tpu'" in ran.stderr) == (2, True)
    assert run_run(str(path), "--in", f"x={numbers}", "--target=cpu").returncode == 0


def test_the_page_has_every_variable() -> None:
    """Names in sources and scripts; click's own and one of a list of Python are none."""
    page = (ROOT / "docs/reference/environment.md").read_text()
    places = [
        p for part in ("vyre_opt", "test", "bench", "examples", "docs") for p in (ROOT / part).rglob("*.py")
    ]
    texts = [path.read_text() for path in [*places, ROOT / "Makefile", ROOT / ".ci/run"]]
    found = {name for text in texts for name in re.findall(r"\bVYRE_[A-Z_]*[A-Z]\b", text)}
    others = {"VYRE_SCAN", "VYRE_OPT_COMPLETE", "VYRE_CACHE_COMPLETE"}
    assert {name for name in found - others if f"`{name}`" not in page} == set()
    listed = set(re.findall(r"`(VYRE_[A-Z_]+)`", page))
    assert listed <= found
    assert listed == variables.VARIABLES.keys() | variables._OF_TESTS


@pytest.mark.filterwarnings("ignore:.*this is a race")
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("VYRE_THREADS", "many", "VYRE_THREADS is a number of threads from 1 up, not 'many'"),
        ("VYRE_THREADS", "0", "VYRE_THREADS is a number of threads from 1 up, not '0'"),
        ("VYRE_DEBUG_INFO", "yes", "VYRE_DEBUG_INFO is 0, 1, not 'yes'"),
        ("VYRE_FAULTS", "latr", "VYRE_FAULTS is later, now, not 'latr'; did you mean later?"),
        ("VYRE_DEBUG", "yes", "VYRE_DEBUG is 0, 1, not 'yes'"),
        ("VYRE_ZERO_MEMORY", "true", "VYRE_ZERO_MEMORY is 0, 1, not 'true'"),
        ("VYRE_REFUSED_RESULT", "1", "VYRE_REFUSED_RESULT is error, not '1'"),
        ("VYRE_PERF", "2", "VYRE_PERF is 0, 1, not '2'"),
        ("VYRE_NVTX", "on", "VYRE_NVTX is 0, 1, not 'on'"),
    ],
)
def test_the_first_call_refuses_wrong_values_of_all_variables(
    name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    racing, *_ = kernels()
    with pytest.raises(BadInputs, match=f"^{re.escape(message)}$"):
        racing(np.ones(4, np.float32), np.ones(4, np.float32))
    with pytest.raises(BadInputs, match=name):  # and the next one
        vyre.run(TEXT, [np.ones(4, np.float32)])


def test_the_first_call_warns_of_a_misspelt_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_" + "CHEK", "nan")
    monkeypatch.setenv("VYRE_" + "OF_ANOTHER_PROGRAM", "1")
    with pytest.warns(UserWarning, match="_CHEK does nothing; did you mean VYRE_CHECK") as caught:
        vyre.run(TEXT, [np.ones(4, np.float32)])
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vyre.run(TEXT, [np.ones(4, np.float32)])
