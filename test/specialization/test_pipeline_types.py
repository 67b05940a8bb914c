"""Type parameters of pipelines: bound by name with those of the programs, in calls and by every tool; what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.tools_inside import call_opt, call_run

import vyre_opt
from vyre_opt import BadInputs, DataType, DiagnosticError, PassManager, parse, print_program, verify
from vyre_opt.ir.structure import check_structure
from vyre_opt.lsp.analysis import Analyzer
from vyre_opt.lsp.hover import hover
from vyre_opt.lsp.navigation import name_at, places, rename
from vyre_opt.rewriting.cloning import copy_module

PROGRAM = """
program @scale workgroup(4) {
  spec @T : dtype = f32
  buffer @x : @T[?] read binding(0)
  buffer @y : @T[?] write binding(1)
  param @k : @T

  %i = global_id x
  %n = len @y
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @x[%i] : @T
    %k = param @k : @T
    %s = mul %v, %k : @T
    store %s, @y[%i] : @T
  }
}
"""
PIPELINE = """
pipeline @main {
  spec @T : dtype = f32
  buffer @x : @T[?] read
  buffer @m : @T[len(@x)]
  buffer @s : @T[len(@x)] live_out
  buffer @y : @T[len(@x)] live_out
  buffer @f : vec<2 x @T>[2] live_out
  param @k : @T = 0.1

  fill(@f, [0.1, 2.0])
  repeat 2 {
    launch @scale grid(ceil_div(len(@x), 4)) (@x, @m) params(@k = @k)
    launch @scale grid(ceil_div(len(@x), 4)) (@m, @y) params(@k = 3.0)
    host_read @y
  }
  math.softmax(@x, @s) {columns = 4}
}
"""
TEXT = f"vyre 2\n{PROGRAM}{PIPELINE}"
NUMPY: dict[str, Any] = {"f32": np.float32, "f16": np.float16}


@pytest.mark.parametrize("passes", [None, "default"])
@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_calls(dtype: str, target: str, passes: str | None) -> None:
    """All is of the type: buffers, what fills them, kernels, launches, params, of which 0.1 is that type's own."""
    of = NUMPY[dtype]
    x = np.arange(20, dtype=of)
    reads: list[Any] = []
    call = vyre_opt.compile(TEXT, specs={"T": dtype}, target=target, passes=passes)
    out = call({"x": x}, on_host_read=lambda name, array: reads.append(array))
    for y in (out["y"], *reads):
        assert y.dtype == of
        assert (y == x * of(0.1) * of(3)).all()
    assert len(reads) == 2
    assert (out["f"] == np.array([0.1, 2.0], of)).all()
    np.testing.assert_allclose(out["s"].reshape(5, 4).sum(1, dtype=np.float64), 1, rtol=2e-3)
    assert (call({"x": x}, params={"k": 2})["y"] == x * of(6)).all()
    other = np.float16 if dtype == "f32" else np.float32
    with pytest.raises(BadInputs, match=f"{dtype} elements"):
        call({"x": x.astype(other)})


def test_text_and_copies() -> None:
    module = parse(TEXT)
    assert print_program(module) == print_program(parse(TEXT, parser="lark")) == TEXT
    assert print_program(parse(print_program(module, generic=True, locations=True))) == TEXT
    assert not check_structure(module)
    bound = parse(TEXT.replace("dtype = f32", "dtype = f16"))
    assert vyre_opt.fingerprint(module.pipelines["main"]) != vyre_opt.fingerprint(bound.pipelines["main"])
    vyre_opt.compile(module, specs={"T": "f16"})
    copy_module(module).pipelines["main"].specs["T"].default = DataType.F16
    assert print_program(module) == TEXT


def test_specialize() -> None:
    """The pass puts the type in its place in pipelines too; other passes wait for that."""
    with pytest.raises(
        DiagnosticError, match="pipeline @main is open in its type @T, and pass cse needs it fixed"
    ):
        PassManager("cse").run(parse(f"vyre 2\n{PIPELINE.replace('launch', '// launch')}"))
    module = parse(TEXT)
    assert PassManager("specialize{only=T}").run(module)
    assert "@T" not in print_program(module)
    assert verify(module) == []
    assert not PassManager("specialize").run(module)


def test_tools() -> None:
    shown = call_opt("--spec", "T=bf16", "--pass=specialize", text=TEXT)
    assert "buffer @f : vec<2 x bf16>[2] live_out" in shown.stdout
    assert "program @scale" in call_opt("--spec", "T=bf16", "-O", "--pass=specialize", text=TEXT).stdout
    (pipeline,) = json.loads(call_opt("--emit=json", text=TEXT).stdout)["pipelines"]
    assert [(s["name"], s["dtype"], s["default"]) for s in pipeline["specs"]] == [("T", "dtype", "f32")]
    assert [(p["name"], p["dtype"], p["default"]) for p in pipeline["params"]] == [("k", "@T", "0.1")]
    ran = call_run("-", "--spec=T=f16", "--len=y=4", text=FILLED)
    assert (ran.returncode, "@y : f16[4] = 0.1 0.1 0.1 0.1" in ran.stdout) == (0, True), ran.stderr


def test_an_editor() -> None:
    """A name of a type in a pipeline is its parameter's; decisions are told of the types by default."""
    analysis = Analyzer("a.vyre").analyze(TEXT)
    assert analysis.diagnostics == []
    at = TEXT.index("@T[len(@x)]\n  buffer @s")
    assert len(places(name_at(TEXT, at + 1))) == 7
    renamed = rename(TEXT, name_at(TEXT, at + 1), "U")
    assert len(renamed) == TEXT.count("@T")
    text, _ = hover(analysis, at + 1) or ("", None)
    assert "spec @T : dtype = f32" in text
    text, _ = hover(analysis, TEXT.index("launch @scale") + 1) or ("", None)
    assert "launches" in text


FILLED = """vyre 2
pipeline @main {
  spec @T : dtype = f32
  buffer @y : @T[?] live_out
  fill(@y, 0.1)
}
"""
KERNEL = """
pipeline @main {
  spec @T : dtype = f32
  buffer @x : @T[64] read
  buffer @y : @T[64] live_out
  math.softmax(@x, @y) {columns = 4}
}
"""
PLAIN = PIPELINE.replace("  spec @T : dtype = f32\n", "").replace("@T", "f32")
ALIKE = "write the same type behind spec @T : dtype in both"
WRONG: tuple[tuple[str, dict[str, str], str, str], ...] = (
    # only the program has it: the pipeline's plain types fit what it is by default, and nothing else
    (PROGRAM + PLAIN, {"T": "f16"}, "@x holds f32, @x is @T (f16)", "declare spec @T : dtype = f16 in the pipeline too"),
    (PROGRAM.replace("@T", "f32").replace("  spec f32 : dtype = f32\n", "") + PIPELINE, {},
     "@x holds @T (f32), @x is f32", "declare spec @T : dtype = f32 in program @scale too"),
    (PROGRAM + PIPELINE.replace("@T", "@U"), {}, "@x holds @U (f32), @x is @T (f32)", "call it @T in both"),
    (PROGRAM + PIPELINE.replace("= f32", "= f16"), {}, "@x holds @T (f16), @x is @T (f32)", ALIKE),
    (PROGRAM + PIPELINE.replace("param @k : @T", "param @k : f16"), {}, "@k is f16, @k is @T (f32)", "declare spec @T"),
    (PROGRAM + PIPELINE.replace("  spec @T : dtype = f32\n", ""), {}, "@T is no type", "declare spec @T : dtype = f32 above"),
    (PROGRAM + PIPELINE.replace("dtype = f32", "dtype"), {}, "the type parameter @T stands for no type", "write spec @T"),
    (PROGRAM + PIPELINE.replace("= f32\n", "= f32\n  spec @q : u32 = 3\n", 1), {},
     "spec @q is a u32; a pipeline has type parameters alone", "declare param @q : u32"),
    (TEXT[7:], {"T": "u32"}, "with @T = u32: 0.1 is a float, not a u32", ""),
    (FILLED[7:], {"T": "u32"}, "the value of a fill: 0.1 is a float, not a u32", ""),
    (KERNEL, {"T": "u32"}, "math.softmax: x holds f32", ""),
    (FILLED[7:], {"T": "f17"}, "spec @T is a type parameter: unknown type f17; did you mean f16?", ""),
)  # fmt: skip


def test_wrong_types() -> None:
    """Each error is located, and says what to write."""

    def check(case: tuple[str, dict[str, str], str, str]) -> None:
        text, specs, message, help = case
        with pytest.raises(DiagnosticError) as caught:
            vyre_opt.compile(f"vyre 2\n{text}", specs=specs)
        error = caught.value.diagnostics[0]
        assert message in error.message
        assert error.loc is not None
        assert (error.help or "").startswith(help)

    each(WRONG, check)


def test_plain_buffers_fit_a_default() -> None:
    assert verify(parse(f"vyre 2\n{PROGRAM}{PLAIN}")) == []


def test_a_type_that_nothing_declares() -> None:
    """In what Python built: such a text would not be read again."""
    for name in ("scale", "main"):
        module = parse(TEXT)
        item = module.programs.get(name) or module.pipelines[name]
        del item.specs["T"]
        first = verify(module)[0]
        assert first.message == f"@x is @T (f32), a type parameter that @{name} does not declare"
