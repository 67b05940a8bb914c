"""Ops, kernels and passes of other packages: as an installer leaves them, good ones and broken ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from support.packages import run_opt_with
from support.quick import quick

OPS = """
from vyre_opt import register_op

@register_op("mylib.square", "unary", "a * a.", types="num", fold_int=lambda a, t: a * a)
def square(b, a):
    return b.mul(a, a)
"""
KERNELS = """
from dataclasses import dataclass
from vyre_opt import Builder, Expansion, register_kernel

@dataclass(frozen=True)
class Schedule:
    lanes: int = 64

@register_kernel("mylib.squares", "y = x * x.", "x:read y:write", types={"x": ["f32"], "y": ["f32"]},
                 params={"offset": 0}, schedule="lanes")
def squares(request):
    schedule = request.at(Schedule())
    b = Builder("squares", schedule.lanes)
    x = b.buffer("x", "f32", None, "read", 0)
    y = b.buffer("y", "f32", None, "write", 1, live_out=True)
    with b.for_(b.global_id("x"), b.len(x), b.global_size("x")) as loop:
        square = b.op("mylib.square", b.load(x, loop.index))
        b.store(b.add(square, float(request.params["offset"])), y, loop.index)
    count = request.count(0)
    return Expansion(b.finish(), schedule, None if count is None else -(-count // schedule.lanes))
"""
TEXT = """vyre 2

program @p workgroup(32) {
  buffer @x : f32[32] read binding(0)
  buffer @y : f32[32] write binding(1) live_out

  %i = local_id x
  %v = load @x[%i] : f32
  %s = mylib.square %v : f32
  store %s, @y[%i] : f32
}

program @k workgroup(32) {
  buffer @x : f32[32] read binding(0)
  buffer @y : f32[32] write binding(1) live_out

  mylib.squares(@x, @y) {offset = 2}
}

pipeline @main {
  buffer @x : f32[?] read
  buffer @y : f32[len(@x)] write live_out

  mylib.squares(@x, @y) {schedule_lanes = 32}
}
"""


def install(folder: Path, package: str, points: str, **modules: str) -> None:
    """A package with entry points, as an installer leaves it."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(dedent(points))


POINTS = """\
    [vyre_opt.ops]
    mylib.square = mylib_ops:square
    [vyre_opt.kernels]
    mylib.squares = mylib_kernels
"""


@pytest.fixture
def mylib(tmp_path: Path) -> Path:
    install(tmp_path, "mylib", POINTS, mylib_ops=OPS, mylib_kernels=KERNELS)
    (tmp_path / "text.vyre").write_text(TEXT)
    return tmp_path


def run(folder: Path, *command: str, expected: int = 0) -> str:
    """What a Python command prints that finds the packages of a folder; both streams."""
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, "PYTHONPATH": str(folder), "NO_COLOR": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == expected, done.stdout
    return done.stdout


def opt(folder: Path, *args: str, expected: int = 0) -> str:
    """What vyre-opt prints that finds the packages of a folder, forked from a process that has imported it."""
    ((code, printed),) = run_opt_with(folder, args)
    assert code == expected, printed
    return printed


def test_texts_read_back(mylib: Path) -> None:
    printed = run(mylib, "-m", "vyre_opt", "text.vyre", "--verify-roundtrip")
    assert printed.split("\n", 1)[1] == TEXT.split("\n", 1)[1]
    generic = opt(mylib, "text.vyre", "--print-generic", "--verify-roundtrip")
    assert '%s = "mylib.square"(%v) : (f32) -> (f32)' in generic
    (mylib / "generic.vyre").write_text(generic)
    assert opt(mylib, "generic.vyre") == TEXT


def test_every_target_has_what_the_op_means(mylib: Path) -> None:
    (mylib / "op.vyre").write_text(TEXT[: TEXT.index("program @k")])
    words = {
        "llvm": "fmul", "asm": "mulps", "ptx --target=sm_90": "mul.rn.f32", "mlir": "arith.mulf",
    }  # fmt: skip
    ran = run_opt_with(mylib, *(["op.vyre", *f"--emit={emit}".split()] for emit in words))
    for (code, written), expected in zip(ran, words.values(), strict=True):
        assert code == 0, written
        assert expected in written
        assert "mylib.square" not in written


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_from_python(mylib: Path, target: str) -> None:
    """Compiled, dispatched as it is, in a pipeline of any length, and built."""
    script = f"""
        import numpy as np, vyre_opt
        text = open("text.vyre").read()
        x = np.arange(32, dtype=np.float32)
        target = "{target}"
        for entry, grid, expected in (("p", 1, x * x), ("k", 2, x * x + 2), ("main", None, x * x)):
            y = np.empty_like(x)
            assert (vyre_opt.run(text, {{"x": x}}, grid, entry=entry, target=target)["y"] == expected).all(), entry
        module = vyre_opt.parse(text)
        for _ in range(2):
            (y,) = vyre_opt.dispatcher(target).dispatch(module.programs["p"], [x, y], (1, 1, 1))
            assert (y == x * x).all()
        assert "mylib.square" in str(module), "a caller's module is not changed"
        b = vyre_opt.Builder("built", 32)
        r = b.buffer("r", "i32", 32, "write", 0, live_out=True)
        b.store(b.op("mylib.square", b.cast(b.local_id("x"), "i32")), r, b.local_id("x"))
        assert (vyre_opt.run(b.finish(), {{}}, 1, target=target)["r"] == np.arange(32) ** 2).all()
        p = vyre_opt.PipelineBuilder("q")
    """
    run(mylib, "-c", dedent(script))


def test_passes_that_look_into_ops_see_none_of_another_package(mylib: Path) -> None:
    expanded = opt(mylib, "text.vyre", "--pass=canonicalize,store_forward", "--stats")
    assert "1  expand_ops: ops expanded" in expanded
    assert "%s = mul %v, %v : f32" in expanded
    assert "mylib.square" in opt(mylib, "text.vyre", "--pass=canonicalize,cse,dce")


def test_kernels_without_a_space_are_not_tuned(mylib: Path) -> None:
    printed = opt(mylib, "text.vyre", "--pass=tune", "--remarks")
    assert "refused" in printed
    assert "mylib.squares" in printed
    assert "it is of another package, and nothing says which schedules to try" in printed


def test_constants_fold(mylib: Path) -> None:
    text = TEXT[: TEXT.index("  %v =")] + "  %c = const 300 : u8\n".replace("300", "20")
    text = text.replace("f32", "u8") + "  %s = mylib.square %c : u8\n  store %s, @y[%i] : u8\n}\n"
    (mylib / "fold.vyre").write_text(text)
    assert "store 144, @y[%i] : u8" in opt(mylib, "fold.vyre", "--pass=fold")


def test_the_cache_serves_no_code_of_an_earlier_version(mylib: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text, and an op and a kernel that mean something else by now."""
    monkeypatch.setenv("VYRE_CACHE_DIR", str(mylib / "cache"))
    script = """
        import numpy as np, vyre_opt
        x = np.full(32, 3, np.float32)
        for entry in ("p", "main"):
            print(vyre_opt.run(open("text.vyre").read(), {"x": x}, 1 if entry == "p" else None, entry=entry)["y"][0])
    """
    assert run(mylib, "-c", dedent(script)).split() == ["9.0", "9.0"]
    (mylib / "mylib_ops.py").write_text(OPS.replace("b.mul(a, a)", "b.mul(b.mul(a, a), a)"))
    assert run(mylib, "-c", dedent(script)).split() == ["27.0", "27.0"]


def test_nothing_is_looked_up_for_a_text_without_them(mylib: Path) -> None:
    """Looking through what is installed takes milliseconds of every start."""
    script = """
        import sys, vyre_opt
        vyre_opt.parse(open("plain.vyre").read())
        vyre_opt.PassManager("canonicalize,cse").run(vyre_opt.parse("vyre 1"))
        assert "importlib.metadata" not in sys.modules
    """
    (mylib / "plain.vyre").write_text(TEXT[: TEXT.index("program @k")].replace("mylib.square", "neg"))
    run(mylib, "-c", dedent(script))


# --- broken ones

LINE = 9
"""Of the op in `TEXT`."""


@pytest.mark.parametrize(
    ("ops", "message"),
    quick([
        ("import no_such_module_here", "ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("square = 3", "registers no op of this name"),
        (OPS.replace("mylib.square", "mylib.cube"), "registers no op of this name"),
        (OPS.replace('"unary"', '"load"'), "ValueError: op mylib.square: the format of a plugin's op is unary, binary"),
        (OPS.replace('types="num"', 'types="u32"'), "ValueError: op mylib.square: types are int, float, num, bits or any"),
        (OPS.replace("mylib.square", "math.softmax"), "ValueError: math.softmax is built in; mylib_ops must give"),
        (OPS.replace("mylib.square", "square"), "ValueError: 'square' is no name of a plugin's op or kernel"),
    ], keep=2),
)  # fmt: skip
def test_a_broken_package_is_an_error_at_the_op(mylib: Path, ops: str, message: str) -> None:
    (mylib / "mylib_ops.py").write_text(ops)
    printed = opt(mylib, "text.vyre", expected=1)
    first = printed.splitlines()[0]
    assert first.startswith(f"text.vyre:{LINE}:8: error: op mylib.square does not load: ")
    assert "entry point mylib.square = mylib_ops:square of package mylib 1.0" in first
    assert message in first
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("ops", "message"),
    quick([
        ("return b.mul(a)", "TypeError: mul takes 2 operands, 1 given"),
        ("raise RuntimeError('not today')", "RuntimeError: not today"),
        ("return 3", "it returns 3, and no value"),
        ("return b.gt(a, a)", "pattern expansion of mylib.square replaces (f32), the results of mylib.square, by (bool)"),
        ("return b.op('mylib.square', a)", "patterns still apply after 256 rewrites of one op"),
    ], keep=3),
)  # fmt: skip
def test_a_broken_expansion_is_an_error_at_the_op(mylib: Path, ops: str, message: str) -> None:
    (mylib / "mylib_ops.py").write_text(OPS.replace("return b.mul(a, a)", ops))
    printed = opt(mylib, "text.vyre", "--pass=expand_ops", expected=1)
    assert printed.splitlines()[0].startswith(f"text.vyre:{LINE}:3: error: ")
    assert message in printed.splitlines()[0]
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("change", "message"),
    quick([
        (("return Expansion(b.finish(), schedule,", "return (b.finish(), schedule,"), "returns an Expansion of a Program, and not"),
        (('"f32", None', '"f64", None'), "returns a program whose buffers are @x f64, @y f64, for @x f32, @y f32"),
        (("schedule = request.at(Schedule())", "raise ValueError('too late')"), "mylib.squares is not expanded: too late"),
        (("schedule = request.at(Schedule())", "raise RuntimeError('not today')"), "the function of mylib.squares in mylib_kernels fails: RuntimeError: not today"),
        (("schedule, None if", "3, None if"), "returns a schedule that is no dataclass: 3"),
    ], keep=3),
)  # fmt: skip
def test_a_broken_kernel_is_an_error_at_its_use(mylib: Path, change: tuple[str, str], message: str) -> None:
    (mylib / "mylib_kernels.py").write_text(KERNELS.replace(*change))
    printed = opt(
        mylib,
        "text.vyre",
        "--pass=expand_kernels",
        "--remarks",
        expected=0 if "too late" in str(change) else 1,
    )
    assert message in printed
    assert "text.vyre:17:3: " in printed
    assert "Traceback" not in printed


def test_two_packages_with_one_name(mylib: Path) -> None:
    install(mylib, "other", "[vyre_opt.ops]\nmylib.square = other_ops:square\n", other_ops=OPS)
    printed = opt(mylib, "text.vyre", expected=1)
    assert "op mylib.square is of several packages: entry point mylib.square = " in printed
    assert "of package mylib 1.0" in printed
    assert "of package other 1.0" in printed


def test_a_broken_pass_names_its_package(mylib: Path) -> None:
    install(
        mylib,
        "other",
        "[vyre_opt.passes]\nother = other_pass\nempty = mylib_ops\n",
        other_pass="import nothing_here",
    )
    assert opt(mylib, "--pass=other", "text.vyre", expected=1).splitlines()[-1] == (
        "error: pass other does not load: entry point other = other_pass of package other 1.0: "
        "ModuleNotFoundError: No module named 'nothing_here'"
    )
    assert "registers no pass of this name" in opt(mylib, "--pass=empty", "text.vyre", expected=1)
    assert "cannot be loaded: pass other does not load" in opt(mylib, "--list-passes")


def test_wrong_uses_are_errors_as_of_any_op(mylib: Path) -> None:
    wrong = [
        (TEXT.replace("mylib.square ", "mylib.sqare "), "unknown op mylib.sqare"),
        (TEXT.replace("mylib.squares(", "mylib.squarez("), "unknown kernel mylib.squarez"),
        (
            TEXT.replace("mylib.squares(", "mylib.square("),
            "help: mylib.square is an op: %r = mylib.square %a : num",
        ),
        (
            TEXT.replace("mylib.square %v : f32", "mylib.square %v, %v : f32"),
            "mylib.square: takes 1 operand, 2 given",
        ),
        (TEXT.replace("mylib.square %v : f32", "mylib.square %i : f32"), "mylib.square: %i is u32, not f32"),
        (TEXT.replace("offset = 2", "offse = 2"), "offset"),
        (TEXT.replace("x : f32[?]", "x : u32[?]"), "mylib.squares"),
    ]
    for number, (text, _) in enumerate(wrong):
        (mylib / f"wrong-{number}.vyre").write_text(text)
    ran = run_opt_with(mylib, *([f"wrong-{number}.vyre"] for number in range(len(wrong))))
    for (code, printed), (_, message) in zip(ran, wrong, strict=True):
        assert code == 1, printed
        assert message in printed
        if "unknown" in message:
            assert "did you mean mylib.square" in printed


def test_limits_refuse_them(mylib: Path) -> None:
    printed = run(mylib, "-m", "vyre_opt", "--limits=time=60", "text.vyre", expected=1)
    assert printed.splitlines()[0].startswith(
        f"text.vyre:{LINE}:8: error: op mylib.square is of another package"
    )
    assert opt(mylib, "--limits=time=60,plugins=true", "text.vyre") == TEXT
