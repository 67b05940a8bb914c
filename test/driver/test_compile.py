"""`vyre_opt.compile` and `vyre_opt.run`: what they take, what they give, and what they say of mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_opt
from vyre_opt import BackendError, BadInputs, DiagnosticError, ProgramError, dispatcher, parse, print_program
from vyre_opt.ir import Program
from vyre_opt.lang import Write, f32


@vyre_opt.program(workgroup=8)
def kernel(y: Write[f32]):
    y[vyre_opt.global_id(0)] = 1.0


SCALE = """vyre 1

program @scale workgroup(4) {
  buffer @y : f32[?] write binding(7) live_out
  buffer @x : f32[8] read  binding(2)
  spec @k : f32 = 2.0
  %g = global_id x
  %k = spec @k : f32
  %x = load @x[%g] : f32
  %r = mul %x, %k : f32
  store %r, @y[%g] : f32
}
"""
TWO = (
    SCALE
    + """
program @fill workgroup(4) grid(2) {
  buffer @out : vec<2 x u32>[8] write binding(0) live_out
  %g = global_id x
  %v = splat %g : vec<2 x u32>
  store %v, @out[%g] : vec<2 x u32>
}

pipeline @main {
  buffer @x : f32[8] read
  buffer @y : f32[8] write live_out
  launch @scale grid(2) (@x, @y)
}
"""
)
CALLS = """vyre 1

func @twice(%a : u32) -> u32 {
  %r = add %a, %a : u32
  yield %r
}

program @p workgroup(4) grid(1) {
  buffer @y : u32[4] write binding(0) live_out
  %g = global_id x
  %r = call @twice(%g) : (u32) -> u32
  store %r, @y[%g] : u32
}
"""
SOFTMAX = """vyre 1

program @s workgroup(32) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  math.softmax(@x, @y) {columns = 10}
}
"""
X = np.arange(8, dtype=np.float32)
TARGETS = ("ref", "cpu")


@pytest.mark.parametrize("target", TARGETS)
def test_every_kind_of_source(target: str, tmp_path: Path) -> None:
    """Text, a path, a module, a program and the name of one in a module run alike."""
    path = tmp_path / "scale.vyre"
    path.write_text(SCALE)
    module = parse(TWO)
    for source in (SCALE, path, parse(SCALE), module.programs["scale"]):
        outputs = vyre_opt.run(source, {"x": X}, 2, lengths={"y": 8}, target=target)
        assert list(outputs) == ["y"]
        assert np.array_equal(outputs["y"], 2 * X)
    again = vyre_opt.run(module, [X], 2, entry="@scale", lengths={"@y": 8}, target=dispatcher(target))
    assert np.array_equal(again["y"], 2 * X)


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_by_name_and_in_order(target: str) -> None:
    """A sequence follows the bindings, with outputs or without; an array for an output is never
    written, keeps what is not written, and gives the result its shape."""
    compiled = vyre_opt.compile(SCALE, target=target)
    out = np.full((5, 2), -1.0, np.float32)
    expected = [*(2 * X), -1.0, -1.0]
    for inputs in ({"x": X, "y": out}, {"@x": X, "@y": out}, [X, out], (X.tobytes(), out)):
        y = compiled(inputs, grid=(2, 1, 1))["y"]
        assert y.shape == (5, 2)
        assert y.reshape(-1).tolist() == expected
    assert (out == -1).all()
    assert compiled([X], 2, lengths={"y": 8})["y"].shape == (8,)
    pairs = vyre_opt.run(TWO, entry="fill", target=target)["out"]
    assert pairs.tolist() == [[i, i] for i in range(8)]


def test_specs_are_values_or_literals() -> None:
    for value, factor in ((3, 3.0), (np.float32(0.5), 0.5), ("1.5", 1.5), ("0x40400000", 3.0)):
        y = vyre_opt.run(SCALE, [X], 2, lengths={"y": 8}, specs={"@k": value}, target="ref")["y"]
        assert np.array_equal(y, X * np.float32(factor)), value


def test_the_source_stays_as_it_is() -> None:
    """Constants, passes and expansions work on a copy, with the functions that it calls."""
    module = parse(TWO)
    before = print_program(module)
    vyre_opt.compile(module, entry="scale", specs={"k": 9.0}, passes="canonicalize,dce")
    assert print_program(module) == before
    calls = parse(CALLS)
    before = print_program(calls)
    for passes in (None, "inline"):
        assert vyre_opt.run(calls, passes=passes)["y"].tolist() == [0, 2, 4, 6]
    assert print_program(calls) == before


def test_passes_run_before() -> None:
    """The program that a compiled one shows, and runs, is the one that the passes left."""
    text = (Path(__file__).resolve().parents[2] / "examples" / "base64_scan.vyre").read_text()
    plain = vyre_opt.compile(text)
    fused = vyre_opt.compile(text, passes="decode_scan_fuse")
    assert not any(b.is_workgroup for b in plain.program.buffers.values())
    assert any(b.is_workgroup for b in fused.program.buffers.values())


@pytest.mark.parametrize("target", TARGETS)
def test_named_kernels_are_expanded_where_they_must_be(target: str) -> None:
    """The cpu gets a program for the kernel, ref runs the kernel itself: both are softmax."""
    compiled = vyre_opt.compile(SOFTMAX, target=target)
    kernels = [op for op in compiled.program.walk() if op.definition.kernel is not None]
    assert len(kernels) == (target == "ref")
    x = np.random.default_rng(3).standard_normal((7, 10)).astype(np.float32)
    y = compiled({"x": x, "y": np.zeros_like(x)}, grid=2)["y"]
    wide = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    assert y.shape == x.shape
    assert np.allclose(y, wide / wide.sum(axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.usefixtures("own_cache")
def test_it_compiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls, and another compilation of the same text, find what the first call compiled."""
    from vyre_opt.targets.cpu import host_code as compiler

    lowered: list[Program] = []
    lower = compiler.lower

    def counted(program: Program, *rest: Any, **more: Any) -> Any:
        lowered.append(program)
        return lower(program, *rest, **more)

    monkeypatch.setattr(compiler, "lower", counted)
    unique = SCALE.replace("@scale", "@compiled_once")
    compiled = vyre_opt.compile(unique)
    for _ in range(3):
        compiled([X], 2, lengths={"y": 8})
    vyre_opt.run(unique, [X], 2, lengths={"y": 8})
    assert len(lowered) == 1
    vyre_opt.run(unique, [X], 2, lengths={"y": 8}, specs={"k": 3.0})
    assert len(lowered) == 2


def test_the_code_as_text() -> None:
    """`llvm` and `ptx` need neither a GPU nor a call."""
    assert "define" in vyre_opt.compile(SCALE).llvm()
    for_gpu = vyre_opt.compile(SCALE, target="cuda", specs={"k": 3.0})
    assert "nvptx" in for_gpu.llvm()
    assert ".target sm_90" in for_gpu.ptx("sm_90")
    assert ".entry scale" in for_gpu.ptx()
    with pytest.raises(BadInputs, match="did you mean sm_90"):
        for_gpu.ptx("sm_9")
    for wrong in (vyre_opt.compile(SCALE), vyre_opt.compile(SCALE, target="ref")):
        with pytest.raises(BadInputs, match="compile it for cuda"):
            wrong.ptx()
    with pytest.raises(BadInputs, match="ref compiles nothing"):
        vyre_opt.compile(SCALE, target="ref").llvm()


def _call(inputs: Any = None, grid: Any = 2, lengths: Any = None, **options: Any) -> Callable[[], Any]:
    def run() -> Any:
        arrays = [X] if inputs is None else inputs
        return vyre_opt.run(SCALE, arrays, grid, lengths={"y": 8} if lengths is None else lengths, **options)

    return run


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "two programs": (
        lambda: vyre_opt.compile(TWO.partition("pipeline")[0]),
        "there are 2 programs here; choose a program with entry=: @scale, @fill",
    ),
    "no program": (lambda: vyre_opt.compile("vyre 1\n"), "there is no program here"),
    "a near entry": (
        lambda: vyre_opt.compile(TWO, entry="scal"),
        "there is no program or pipeline @scal; did you mean @scale?",
    ),
    "another entry": (
        lambda: vyre_opt.compile(TWO, entry="zzz"),
        "no program or pipeline @zzz; choose a program or pipeline with entry=: @scale, @fill, @main",
    ),
    "the name of a file": (lambda: vyre_opt.compile("scale.vyre"), "pass pathlib.Path('scale.vyre')"),
    "a kernel of Python": (
        lambda: vyre_opt.compile(kernel),
        "not Kernel: write kernel[grid](x, y), which compiles it, or pass kernel.text()",
    ),
    "a function of Python": (
        lambda: vyre_opt.compile(_call),
        "not function: write @vyre.program above def _call",
    ),
    "no source": (lambda: vyre_opt.compile(3), "a source is a text, a Path, a Module or a Program, not int"),
    "an unknown target": (_call(target="gpu"), "unknown target 'gpu'"),
    "an unknown pass": (_call(passes="csee"), "did you mean cse?"),
    "an unknown spec": (_call(specs={"kk": 1}), "has no spec @kk; it has @k; did you mean @k?"),
    "a param as a spec": (
        lambda: vyre_opt.compile(SCALE.replace("spec", "param"), specs={"k": 3}),
        "has no spec @k; it has none: @k is a param, pass params={'k': 3}",
    ),
    "a spec of a wrong type": (_call(specs={"k": [1]}), "spec @k is f32: [1] is not a number"),
    "a spec that is no literal": (_call(specs={"k": "two"}), "'two' is not a literal; write 7, 0x1f"),
    "a missing spec": (
        lambda: vyre_opt.compile(SCALE.replace(" = 2.0", "")),
        "spec @k has no default; pass specs={'k': value}",
    ),
    "an unknown buffer": (
        _call({"xx": X}),
        "inputs['xx']: program @scale has no bound buffer @xx; it has @x, @y; did you mean @x?",
    ),
    "an unknown length": (_call(lengths={"z": 8}), "lengths['z']: program @scale has no bound buffer @z"),
    "a missing input": (
        _call({}),
        "program @scale reads @x : f32[8], which nothing gives; pass inputs={'x': array}",
    ),
    "too many inputs": (
        _call([X, X, X]),
        "3 inputs given; program @scale reads @x, and binds @x, @y",
    ),
    "an array for inputs": (_call(X), "inputs is a mapping of names to arrays or a list of arrays"),
    "no length": (
        _call(lengths={}),
        "buffer @y has an open size: pass lengths={'y': 8}, or an array for it",
    ),
    "a length that is none": (_call(lengths={"y": -1}), "lengths['y']=-1: -1 is not a count of elements"),
    "a length that is a float": (_call(lengths={"y": 8.0}), "8.0 is not a count of elements"),
    "two lengths": (
        _call({"x": X, "y": X}, lengths={"y": 9}),
        "lengths['y']=9, but inputs['y'] holds 8 elements",
    ),
    "a wrong length": (_call(lengths={"y": 8, "x": 7}), "lengths['x']=7, but inputs['x'] holds 8 elements"),
    "a wrong type": (_call([X.astype(np.float64)]), "float32, the array is float64; convert it"),
    "no array": (_call([{}]), "inputs['x'] is not an array of numbers"),
    "no grid": (
        _call(grid=None),
        "program @scale does not fix its grid: pass grid=(x, y, z), counts of workgroups of 4x1x1 "
        "invocations; grid=2 is an invocation for each of 8 output elements",
    ),
    "a wrong grid": (_call(grid=-1), "grid x is -1"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str) -> None:
    """Each is BadInputs, which says what is wrong and how to pass it."""
    call, said = MISTAKES[case]
    with pytest.raises(BadInputs) as caught:
        call()
    assert said in str(caught.value)


def test_programs_that_are_wrong() -> None:
    """Errors of the text and of the run are located; a kernel without a program says why."""
    with pytest.raises(DiagnosticError, match=r"<string>:9:13: error: program @scale has no buffer @z"):
        vyre_opt.run(SCALE.replace("load @x", "load @z"), [X], 2, lengths={"y": 8})
    for target in TARGETS:
        with pytest.raises(ProgramError, match=r"<string>:9:\d+: error: .*out of bounds of @x"):
            vyre_opt.run(SCALE, [X], 3, lengths={"y": 12}, target=target)
    with pytest.raises(DiagnosticError, match=r"(?s)<string>:6:3: error: .*columns is 1 to \d+, not 0"):
        vyre_opt.compile(SOFTMAX.replace("columns = 10", "columns = 0"))
    lonely = parse(CALLS).programs["p"]
    with pytest.raises(DiagnosticError, match="twice"):
        vyre_opt.compile(lonely)
    with pytest.raises(FileNotFoundError):
        vyre_opt.compile(Path("no_such_file.vyre"))


def test_cuda_without_a_gpu_says_so_when_it_is_called() -> None:
    from vyre_opt.targets.cuda import CudaDispatcher

    class NoGpu(CudaDispatcher):
        @property
        def device(self) -> Any:
            raise BackendError("no GPU here")

    compiled = vyre_opt.compile(SCALE, target=NoGpu())
    with pytest.raises(BackendError, match="no GPU here"):
        compiled([X], 2, lengths={"y": 8})
