"""A stage that fills a buffer, as text and as every tool shows it, and what is no such stage."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.each import each
from support.tools_inside import call_opt, call_run

import vyre_opt
from vyre_opt import DiagnosticError, PipelineBuilder, parse, print_program
from vyre_opt.ir import Fill
from vyre_opt.ir.structure import check_structure

TEXT = """vyre 2

pipeline @main {
  buffer @x : u32[?] live_out
  buffer @v : vec<2 x f32>[4, 8] live_out

  fill(@x, 0xff)
  repeat 2 {
    fill(@v, [1.0, -inf])
  }
}
"""


def test_text() -> None:
    """It is printed as it was read, in both forms, and a text of version 1 that has one is of version 2."""
    module = parse(TEXT)
    assert print_program(module) == TEXT
    assert print_program(parse(TEXT.replace("vyre 2", "vyre 1"))) == TEXT
    assert print_program(parse(print_program(module, generic=True))) == TEXT
    located = print_program(module, locations=True)
    assert 'fill(@x, 0xff) loc("<string>":7:3)' in located
    assert print_program(parse(located)) == TEXT
    assert vyre_opt.fingerprint(module) != vyre_opt.fingerprint(parse(TEXT.replace("0xff", "0xfe")))


def test_a_builder() -> None:
    p = PipelineBuilder("main")
    x = p.buffer("x", "u32", None, live_out=True)
    v = p.buffer("v", "vec<2 x f32>", 4, live_out=True)
    p.fill(x)
    with p.repeat(2):
        p.fill(v, [1.0, 0.5])
    p.fill("x", 7)
    module = p.finish()
    assert [s.shown for s in module.pipelines["main"].walk() if isinstance(s, Fill)] == [
        "0",
        "[1.0, 0.5]",
        "7",
    ]
    with pytest.raises(ValueError, match="has no buffer @y"):
        p.fill("y", 0)
    with pytest.raises(TypeError, match="is a bool, an int or a float"):
        p.fill(x, "0")  # type: ignore[list-item]


def test_what_tools_show() -> None:
    shown = json.loads(call_opt("--emit=json", text=TEXT).stdout)["pipelines"][0]["stages"]
    assert (shown[0]["fill"], shown[0]["value"]) == ("x", "0xff")
    assert (shown[1]["stages"][0]["fill"], shown[1]["stages"][0]["value"]) == ("v", "[1.0, -inf]")
    for form in ("dot", "html"):
        assert "all elements are 0xff" in call_opt(f"--emit={form}", text=TEXT).stdout
    assert "2  fill" in call_opt("--print-op-stats", text=TEXT).stderr
    ran = call_run("-", "--len", "x=3", text=TEXT)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "@x : u32[3] = 255 255 255" in ran.stdout
    lowered = call_opt("--emit=llvm", text=TEXT)
    assert lowered.returncode == 0
    assert "; program @fill_u32\n" in lowered.stdout


def test_a_wrong_object() -> None:
    module = parse(TEXT)
    module.pipelines["main"].stages[0] = Fill("x", ())
    assert [d.message for d in check_structure(module)] == [
        "pipeline @main, a stage: value is a tuple of literals, not the tuple ()"
    ]


WRONG = [
    # a declaration, a stage, where the error is, and what it says
    ("u32[8]", "fill(@y, 0)", "@y", "pipeline @main has no buffer @y"),
    ("u32[8]", "fill(@r, 0)", "@r", "@r is read-only, and a fill writes it"),
    ("u32[8]", "fill(@x, 1.5)", "fill(@x, 1.5)", "the value of a fill: 1.5 is a float, not a u32"),
    ("f16[8]", "fill(@x, 70000)", "fill(@x, 70000)", "the value of a fill: 70000 does not fit in f16, and would be inf"),
    ("vec<4 x f32>[8]", "fill(@x, [1])", "fill(@x, [1])", "a list has a value for each lane of a vector"),
    ("u8[8]", "fill(@x, 256)", "fill(@x, 256)", "the value of a fill: 256 does not fit in u8 (0 to 255)"),
    ("u32[8]", "fill(@x, -1)", "fill(@x, -1)", "the value of a fill: -1 does not fit in u32 (0 to 4294967295)"),
    ("bool[8]", "fill(@x, 0)", "fill(@x, 0)", "the value of a fill: a bool is true or false, not 0"),
    ("f32[8]", "fill(@x, true)", "fill(@x, true)", "the value of a fill: true is a bool, not an f32"),
    ("i4[8]", "fill(@x, 0)", "fill(@x, 0)", "the value of a fill: no constant of i4 exists"),
    ("vec<4 x f32>[8]", "fill(@x, [1, 2])", "fill(@x, [1, 2])", "the value of a fill: vec<4 x f32> has 4 lanes, 2 given"),
    ("u32[8] workgroup", "fill(@x, 0)", None, "buffer @x: a pipeline's buffers are in storage, not workgroup memory"),
    ("u32[8]", "fill(@x, 0, 1)", ", 1", "a fill has a buffer and a value"),
    ("u32[8]", "fill @x, 0", "@x", "a fill has a buffer and a value"),
    ("u32[8]", "fill(x, 0)", "x", "a fill has a buffer and a value"),
    ("u32[8]", "fill(0, @x)", "0", "a fill has a buffer and a value"),
    ("u32[8]", "fill(@x, zero)", "zero", "a fill has a buffer and a value"),
    ("u32[8]", "fill(@x[0], 0)", "[", "a fill has a buffer and a value"),
    ("u32[8]", "fill(@x, @k)", "@k", "a fill has a buffer and a value"),
    ("u32[8]", "cudaMemset(@x, 0)", "cudaMemset", "expected a buffer, a launch, a fill, a host_read or a kernel"),
    ("u32[8]", "memset @x, 0", "memset", "expected a buffer, a launch, a fill, a host_read or a kernel"),
]  # fmt: skip


def test_what_is_wrong() -> None:
    """One error each, at the place; and a program has no such op."""

    def check(case: tuple[str, str, str | None, str]) -> None:
        declared, stage, place, message = case
        text = f"vyre 2\npipeline @main {{\n  buffer @r : u32[8] read\n  buffer @x : {declared} live_out\n  {stage}\n}}\n"
        with pytest.raises(DiagnosticError) as caught:
            parse(text)
        (error,) = caught.value.diagnostics
        assert error.message == message
        assert error.loc is not None
        if place is not None:
            assert (error.loc.line, error.loc.column) == (5, 3 + stage.index(place))
        if message.startswith("a fill has"):
            assert error.help == "write fill(@x, 0)"
        if message.startswith("expected"):
            assert str(error.help).endswith("is `fill(@x, 0)` here")

    each(WRONG, check)
    with pytest.raises(DiagnosticError, match="a fill is a stage of a pipeline, and no op"):
        parse("vyre 2 program @p workgroup(64) { buffer @x : u32[8] write binding(0) fill(@x, 0) }")


# --- what it does

VALUES = [
    ("u8", "200", 200), ("i8", "-3", -3), ("u16", "7", 7), ("i16", "-7", -7), ("u32", "0xffffffff", 2**32 - 1),
    ("i32", "-1", -1), ("u64", "12345678901234", 12345678901234), ("i64", "-5", -5), ("f16", "0.5", 0.5),
    ("f32", "inf", np.inf), ("f32", "3", 3), ("f64", "1e-300", 1e-300), ("bool", "true", True),
    ("vec<4 x f32>", "[1.0, 2.0, 3.0, 4.0]", [1, 2, 3, 4]), ("vec<2 x u8>", "9", [9, 9]),
]  # fmt: skip
SHAPES = [((300,), "300"), ((3, 70), "3, 70"), ((2, 3, 40), "2, 3, 40"), ((0,), "0"), ((0, 4), "0, 4")]


def test_values_and_shapes() -> None:
    """Every element has the value: of each type, with an extent that is known or open, on ref and cpu, optimised or not."""

    def check(case: tuple[str, str, object, tuple[int, ...], str]) -> None:
        dtype, literal, value, shape, declared = case
        lanes = np.shape(value)
        for extents in (declared, ", ".join("?" * len(shape))):
            text = f"vyre 2 pipeline @m {{ buffer @x : {dtype}[{extents}] live_out fill(@x, {literal}) }}"
            lengths = {"x": shape if len(shape) > 1 else shape[0]} if "?" in extents else {}
            for target, passes in (("ref", None), ("cpu", None), ("cpu", "default")):
                got = vyre_opt.run(text, {}, lengths=lengths, target=target, passes=passes)["x"]
                assert got.shape == (*shape, *lanes)
                assert np.array_equal(got, np.broadcast_to(np.array(value, got.dtype), got.shape))

    short = [("u32", "7", 7), *VALUES[-2:]]
    each([(*v, *SHAPES[0]) for v in VALUES] + [(*v, *s) for v in short for s in SHAPES[1:]], check)


def test_an_extent_beyond_a_grid() -> None:
    """65535 workgroups along y are of 8 rows, and these are more."""
    text = "vyre 2 pipeline @m { buffer @x : u8[?, ?] live_out fill(@x, 3) }"
    got = vyre_opt.run(text, {}, lengths={"x": (8 * 65535 + 9, 2)})["x"]
    assert (got == 3).all()
