"""The pass specialize: it computes what the constants would have, and instantiates what is generic."""

from __future__ import annotations

import numpy as np
import pytest
from support import Settings, random_program
from support.properties import baseline, check_pipeline
from support.quick import quick

import vyre_opt
from vyre_opt import (
    DataType,
    DiagnosticError,
    PassManager,
    SpecMap,
    SpecValue,
    dispatcher,
    parse,
    print_program,
)
from vyre_opt.specialization.binding import bind

GENERIC = """vyre 1

program @scale workgroup(64) {
  spec @T : dtype = f32
  buffer @x : @T[?] read binding(0)
  buffer @y : @T[?] write binding(1)
  spec @k : @T = 3

  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %k = spec @k : @T
    %one = const 1 : @T
    %pair = vector %k, %one : vec<2 x @T>
    %a = extract %pair[0] : vec<2 x @T>
    %v = load @x[%i] : @T
    %m = mul %v, %a : @T
    %s = add %m, %one : @T
    store %s, @y[%i] : @T
  }
}
"""
NUMPY = {
    "u8": np.uint8,
    "i16": np.int16,
    "u32": np.uint32,
    "i64": np.int64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}


@pytest.mark.parametrize("seed", quick(range(400, 420), keep=2))
def test_keeps_random_programs(seed: int) -> None:
    """Outputs before and after are the same, bit by bit, and no constant is left."""
    sample = random_program(seed, Settings(statements=5, depth=2))
    check_pipeline(sample, "specialize", baseline(sample, seed))
    module = parse(print_program(sample.module))
    PassManager("specialize").run(module)
    assert not any(program.specs for program in module.programs.values())


@pytest.mark.parametrize("name", NUMPY)
def test_generic_program_computes_in_its_type(name: str) -> None:
    """One text, seven types, two targets; the literals are read anew for each."""
    module = parse(GENERIC)
    bind(module, {"T": name, "k": "5"})
    PassManager("specialize").run(module)
    program = module.programs["scale"]
    assert {b.dtype.name for b in program.buffers.values()} == {name}
    assert not program.specs
    x = np.arange(40).astype(NUMPY[name])
    want = (x * NUMPY[name](5) + NUMPY[name](1)).astype(NUMPY[name])
    for target in ("ref", "cpu"):
        (y,) = dispatcher(target).dispatch(program, [x, np.zeros_like(x)], 1)
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_compile_instantiates(target: str) -> None:
    """A SpecMap, texts and Python's values bind types and constants; the source stays as it was."""
    module = parse(GENERIC)
    for specs in (
        SpecMap({"T": SpecValue.dtype(DataType.I32), "k": SpecValue.i32(-2)}),
        {"T": "i32", "k": "-2"},
        {"T": DataType.I32, "k": -2},
    ):
        compiled = vyre_opt.compile(module, target=target, specs=specs)
        y = compiled({"x": np.int32([1, 2, 3])}, 1, lengths={"y": 3})["y"]
        np.testing.assert_array_equal(y, np.int32([-1, -3, -5]))
    assert print_program(module) == print_program(parse(GENERIC))
    y = vyre_opt.run(GENERIC, {"x": np.float32([1, 2])}, 1, target=target, lengths={"y": 2})["y"]
    np.testing.assert_array_equal(y, np.float32([4, 7]))


def test_runs_twice() -> None:
    """The second run in a pipeline has nothing to do, and says so."""
    module = parse(GENERIC)
    assert not PassManager("specialize").run(parse("vyre 1\n\nprogram @p workgroup(1) {\n}\n"))
    assert PassManager("specialize{only=k},specialize,specialize").run(module)
    assert not PassManager("specialize").run(module)


def test_literals_are_read_again_not_converted() -> None:
    """0.1 as an f64 is not the f32 nearest to 0.1, and 16777217 is no f32 at all."""
    text = GENERIC.replace("const 1 :", "const 16777217 :").replace("= 3\n", "= 0.1\n")
    module = parse(text)
    bind(module, {"T": "f64"})
    PassManager("specialize").run(module)
    printed = print_program(module)
    assert "const 0.1 : f64" in printed
    assert "const 16777217.0 : f64" in printed


@pytest.mark.parametrize(
    ("specs", "says", "line"),
    [
        ({"T": "f61"}, "unknown type f61; did you mean f64?", 4),
        ({"T": "vec"}, "type vec is written vec<N x TYPE>", 4),
        ({"T": "bytes"}, "stands for a bool, an integer or a float, not bytes", 4),
        ({"T": SpecValue.u32(1)}, "1 is not a type", 4),
        ({"T": SpecValue.dtype(DataType.FP4)}, "not fp4", 4),
        ({"T": "u8", "k": "300"}, "spec @k is u8: 300 does not fit in u8", 7),
        ({"T": "bool", "k": "true"}, "with @T = bool: a bool is true or false, not 1", 14),
        ({"k": SpecValue.u32(1)}, "SpecValue.u32(1) is a u32, not an f32", 7),
        ({"k": "true"}, "true is a bool, not a", 7),
        ({"kk": "1"}, "no program has a spec @kk; there are @T, @k; did you mean @k?", 3),
    ],
)
def test_wrong_values_are_located(specs: dict, says: str, line: int) -> None:
    """An unknown, ill-typed or misspelt binding points at the declaration that it does not fit."""
    with pytest.raises(DiagnosticError) as caught:
        bind(parse(GENERIC), specs)
    first = caught.value.diagnostics[0]
    assert says in first.message
    assert first.loc.line == line


def test_type_that_an_op_does_not_take() -> None:
    """What holds of floats only is found when the type is bound, and says which type."""
    text = GENERIC.replace("mul %v, %a", "fma %v, %a, %a")
    with pytest.raises(DiagnosticError) as caught:
        bind(parse(text), {"T": "u32"})
    first = caught.value.diagnostics[0]
    assert "fma" in first.message
    assert ("@T = u32", 4) in [(note, loc.line) for note, loc in first.notes]


def test_specs_of_types_that_no_value_has() -> None:
    """A SpecValue binds a narrower or wider constant where it holds it exactly, and no other."""
    text = "vyre 1\n\nprogram @p workgroup(1) {\n  spec @s : %s = 0\n}\n"

    def bound(dtype: str, value: SpecValue) -> int:
        module = parse(text % dtype)
        bind(module, SpecMap({"s": value}))
        return module.programs["p"].specs["s"].default

    assert bound("u8", SpecValue.u32(255)) == 255
    assert bound("u64", SpecValue.u32(7)) == 7
    assert bound("i8", SpecValue.i32(-128)) == -128
    assert bound("f64", SpecValue.f32(0.5)) == 0x3FE0000000000000
    assert bound("f32", SpecValue.f32_bits(0x7FC00001)) == 0x7FC00001
    assert bound("bf16", SpecValue.f32(1.5)) == 0x3FC0
    for dtype, value in (
        ("u8", SpecValue.u32(256)),
        ("u8", SpecValue.i32(1)),
        ("i32", SpecValue.u32(1)),
        ("f16", SpecValue.f32(1e-20)),
        ("bf16", SpecValue.f32(1.001)),
        ("u32", SpecValue.bool(True)),
        ("u32", SpecValue.dtype(DataType.U32)),
    ):
        with pytest.raises(DiagnosticError, match="spec @s is"):
            bound(dtype, value)


def test_open_program_is_refused_where_types_matter() -> None:
    """A fact about f32 may be false of f16, so other passes, and targets, wait until types are fixed."""
    module = parse(GENERIC)
    for name in ("fold", "cse", "canonicalize"):
        with pytest.raises(DiagnosticError, match="is open in its type @T"):
            PassManager(name).run(module)
    x = np.zeros(3, np.float32)
    for target in ("ref", "cpu"):
        with pytest.raises(vyre_opt.BadInputs, match="is open in its type @T"):
            dispatcher(target).dispatch(module.programs["scale"], [x, x], 1)


SOFTMAX = """vyre 1

program @p workgroup(64) {
  spec @T : dtype = f32
  buffer @x : @T[64] read binding(0)
  buffer @y : @T[64] write binding(1)
  math.softmax(@x, @y) {columns = 8}
}
"""


@pytest.mark.parametrize("name", ["f32", "f16"])
def test_named_kernel_instantiates(name: str) -> None:
    """A kernel over buffers of a type parameter is expanded at the type that it is bound to."""
    x = (np.arange(64) % 7).astype(NUMPY[name])
    results = [
        vyre_opt.run(SOFTMAX, {"x": x}, target=t, grid=1, specs={"T": name})["y"] for t in ("cpu", "ref")
    ]
    assert results[0].dtype == NUMPY[name]
    np.testing.assert_allclose(*results, rtol=1e-6 if name == "f32" else 2e-3)
    with pytest.raises(DiagnosticError, match="x holds f32 or f16 or bf16"):
        vyre_opt.compile(SOFTMAX, specs={"T": "f64"})


def test_pipeline_of_a_generic_program() -> None:
    """Its buffers have types of their own, which the types that the program is bound to must be."""
    text = GENERIC + (
        "\npipeline @main {\n  buffer @a : f32[?] read\n  buffer @b : f32[?] write live_out\n"
        "  launch @scale grid(1) (@a, @b)\n}\n"
    )
    y = vyre_opt.run(text, {"a": np.float32([1, 2])}, lengths={"b": 2})["b"]
    np.testing.assert_array_equal(y, np.float32([4, 7]))
    with pytest.raises(DiagnosticError, match="@a holds f32, @x is"):
        vyre_opt.compile(text, specs={"T": "f16"})
