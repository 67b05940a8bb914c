"""Rows of a workgroup: what NumPy makes of them, and sums that have the same bits for every schedule and target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vyre_opt import compile, dispatcher, parse, verify
from vyre_opt.execution import ProgramError
from vyre_opt.ir import Diagnostic, DiagnosticError, Program, print_program
from vyre_opt.passes import PassManager

Array = np.ndarray[Any, Any]

SUM = """vyre 2
program @p workgroup(1) {{
  buffer @x : {dtype}[{extent}] read binding(0)
  buffer @z : {dtype}[1] write binding(1)
  %row = slice_load @x[0] : slice<?x{dtype}>
  %sum = slice_reduce<{combine}> %row[0] : {dtype}
  store %sum, @z[0]
}}
"""
FORMS = ["lower_slices{lanes=64}", "lower_slices{lanes=128},canonicalize,cse,dce", "lower_slices{lanes=1024}"]


def program_of(text: str, passes: str = "") -> Program:
    module = parse(text)
    if passes:
        PassManager(passes).run(module)
    (program,) = module.programs.values()
    return program


def in_order(values: Array) -> Array:
    """A sum as language.md has it, position by position: of those 4,096 apart, then pairs of neighbours, then halves."""
    columns: list[Any] = []
    for column in range(4096):
        total = values.dtype.type(-0.0)
        for value in values[column::4096]:
            total = total + value
        columns.append(total)
    for _ in range(2):
        columns = [columns[k] + columns[k + 1] for k in range(0, len(columns), 2)]
    while len(columns) > 1:
        half = len(columns) // 2
        columns = [columns[k] + columns[k + half] for k in range(half)]
    return np.array(columns, values.dtype)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 127, 600, 4096, 4099, 9001])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_one_order_of_sums(dtype: str, length: int) -> None:
    """On ref, and for all schedules, of fixed and of open extents."""
    x = np.random.default_rng(length).standard_normal(length).astype(f"f{int(dtype[1:]) // 8}")
    x *= np.exp2(np.random.default_rng(1).integers(-20, 20, length)).astype(x.dtype)
    expected = in_order(x)
    text = SUM.format(dtype=dtype, extent="?", combine="add")
    fixed = SUM.format(dtype=dtype, extent=length, combine="add")
    found = {"ref": dispatcher("ref").dispatch(program_of(text), [x, x[:1].copy()], 1)[0]}
    for passes in ("", *FORMS):
        for name, each in (("open", text), ("fixed", fixed)):
            program = program_of(each, passes)
            found[f"{name} {passes}"] = dispatcher("cpu").dispatch(program, [x, x[:1].copy()], 1)[0]
    bits = {name: array.tobytes() for name, array in found.items()}
    assert bits == dict.fromkeys(bits, expected.tobytes())


@pytest.mark.parametrize(
    ("combine", "empty"),
    [("add", -0.0), ("mul", 1.0), ("max", np.nan), ("min", np.nan)],
    ids=lambda each: str(each),
)
def test_no_elements(combine: str, empty: float) -> None:
    x, z = np.zeros(0, np.float32), np.ones(1, np.float32)
    for target in ("ref", "cpu"):
        (found,) = dispatcher(target).dispatch(
            program_of(SUM.format(dtype="f32", extent="?", combine=combine)), [x, z], 1
        )
        assert found.tobytes() == np.float32(empty).tobytes() or (np.isnan(empty) and np.isnan(found[0]))


NORM = """vyre 2
program @norm workgroup(1) {
  buffer @x : f32[?, ?] read binding(0)
  buffer @w : f32[?] read binding(1)
  buffer @y : f32[?, ?] write binding(2) live_out
  %r = workgroup_id x
  %row = slice_load @x[%r, 0] : slice<?xf32>
  %w = slice_load @w[0] : slice<?xf32>
  %squares = mul %row, %row
  %sum = slice_reduce<add> %squares[0] : f32
  %n = slice_len %row[0]
  %count = cast %n : u32 -> f32
  %mean = div %sum, %count
  %scale = rsqrt %mean
  %scales = slice_broadcast %scale, %row : slice<?xf32>
  %scaled = mul %row, %scales
  %y = mul %scaled, %w
  slice_store %y, @y[%r, 0] : slice<?xf32>
}
"""


@pytest.mark.parametrize("shape", [(1, 1), (3, 30), (2, 1000), (1, 5000)])
def test_a_norm(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(shape[1]).astype(np.float32)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide * wide).mean(1, keepdims=True)) * w
    for target in ("ref", "cpu"):
        (y,) = dispatcher(target).dispatch(program_of(NORM), [x, w, np.zeros_like(x)], (shape[0], 1, 1))
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_extents_that_differ(target: str) -> None:
    """Rows of other lengths are told, and not cut."""
    x, w = np.ones((2, 8), np.float32), np.ones(9, np.float32)
    with pytest.raises(ProgramError, match="takes slices of the same extents"):
        dispatcher(target).dispatch(program_of(NORM), [x, w, np.zeros_like(x)], (2, 1, 1))
    with pytest.raises(ProgramError, match="slice"):
        dispatcher(target).dispatch(program_of(NORM), [x, w[:8], np.zeros((2, 7), np.float32)], (2, 1, 1))


def errors_of(text: str) -> list[Diagnostic]:
    try:
        return [each for each in verify(parse(text)) if each.severity == "error"]
    except DiagnosticError as error:
        return list(error.diagnostics)


WRONG = [
    ("%v = slice_load @x[0] : slice<?xf32>", "2 dimensions, 1 index given"),
    ("%v = slice_load @x[0, 0] : slice<?xu32>", "@x holds f32, not u32"),
    ("%v = slice_load @x[0, 0] : f32", "moves a slice, not f32"),
    ("%v = slice_load @w[0] : slice<4x4xf32>", "@w one dimension"),
    ("%v = slice_load<filled> @x[0, 0], %one : slice<?xf32>", "an open extent ends where its dimension does"),
    ("%v = slice_load<filled> @x[0, 0], %n : slice<8xf32>", "is u32, not f32"),
    ("%v = slice_broadcast %one : slice<?xf32>", "takes a slice that has the extents"),
    ("%v = slice_broadcast %n, %row : slice<?xf32>", "not of f32"),
    ("%v = slice_broadcast %eight, %row : slice<?xf32>", "does not broadcast"),
    ("%v = slice_reduce<add> %row[1] : f32", "has no axis 1"),
    ("%v = slice_reduce<and> %row[0] : f32", "cannot combine f32 by and"),
    ("%v = slice_reduce<add> %row[0] : f64", "gives f32 or slice<1xf32>, not f64"),
    ("%v = slice_reduce<add> %one[0] : f32", "is f32, not a slice"),
    ("%v = add %row, %eight : slice<?xf32>", "not slice<"),
    ("%v = cast %row : slice<?xf32> -> f32", "different shapes"),
    ("%v = bitcast %row : slice<?xf32> -> slice<?xu64>", "different sizes"),
    ("%v = subgroup_reduce<add> %row : slice<?xf32>", "write slice_reduce"),
    ("%v = const 1.0 : slice<8xf32>", "write slice_broadcast"),
    ("slice_store %row, @x[0, 0] : slice<?xf32>", "read-only"),
    ('debug_print "%f" %row', "print elements"),
]


@pytest.mark.parametrize(("line", "message"), WRONG, ids=[line for line, _ in WRONG])
def test_what_is_wrong_is_told_at_its_place(line: str, message: str) -> None:
    text = f"""vyre 2
program @p workgroup(1) {{
  buffer @x : f32[?, ?] read binding(0)
  buffer @w : f32[?] read_write binding(1) live_in live_out
  %one = const 1.0 : f32
  %n = len @w
  %row = slice_load @x[0, 0] : slice<?xf32>
  %eight = slice_load @w[0] : slice<8xf32>
  {line}
}}
"""
    errors = errors_of(text)
    assert any(message in each.message for each in errors), [each.message for each in errors]
    assert all(each.loc is not None and line.split()[0] in each.loc.source.text for each in errors)


def test_slices_are_of_workgroups() -> None:
    text = SUM.format(dtype="f32", extent="?", combine="add")
    errors = errors_of(text.replace("workgroup(1)", "workgroup(64)"))
    assert any("write workgroup(1), and lower_slices" in each.message for each in errors)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%a = slice_load @w[0, 0] : slice<4x?xf32>\n  slice_store %a, @w[0, 0] : slice<4x?xf32>", "is of any length"),
        ("%m = for %k = 0 to 4 iter(%a = %o : slice<?xf32>) {\n    yield %a\n  }", "is of any length"),
        ("%m = slice_scan<inclusive, add> %o[0] : slice<?xf32>\n  slice_store %m, @w[1, 0]", "is of any length"),
        ("slice_store %o, @w[1, 0] : slice<?xf32>\n  %s = slice_reduce<add> %o[0] : f32\n  store %s, @w[0, 0]", "load it again"),
        ("slice_store %o, @w[0, 0] : slice<?xf32>", "at other places"),
        ("for %k = 0 to 4 {\n    %s = slice_reduce<add> %o[0] : f32\n    store %s, @w[1, %k]\n  }", "load it again"),
    ],
    ids=["blocks", "carried", "scanned", "overwritten", "moved", "overwritten in a loop"],
)  # fmt: skip
def test_what_has_no_form_yet_is_told(body: str, message: str) -> None:
    text = f"""vyre 2
program @p workgroup(1) {{
  buffer @w : f32[?, ?] read_write binding(0) live_in live_out
  %o = slice_load @w[1, 0] : slice<?xf32>
  %v = slice_load @w[0, 0] : slice<4xf32>
  {body}
}}
"""
    with pytest.raises(DiagnosticError, match=message):
        PassManager("lower_slices").run(parse(text))


def test_what_is_beyond_an_edge_stands_in_place() -> None:
    text = SUM.format(dtype="f32", extent="?", combine="add").replace(
        "slice_load @x[0] : slice<?xf32>", "slice_load<filled> @x[2], 0.5 : slice<8xf32>"
    )
    assert print_program(parse(text)).count("slice_load<filled> @x[2], 0.5 : slice<8xf32>") == 1
    program = program_of(text)
    x = np.arange(5, dtype=np.float32)
    for target in ("ref", "cpu"):
        (found,) = dispatcher(target).dispatch(program, [x, x[:1].copy()], 1)
        assert found[0] == 2 + 3 + 4 + 5 * 0.5


NAMED = """vyre 2
program @p workgroup(1) grid(2) {
  buffer @x : f32[2, 100] read binding(0)
  buffer @y : f32[2] write binding(1)
  %w = workgroup_id x
  %z = const 0 : u32
  %r = slice_load @x[%w, %z] : slice<100xf32>
  %s = slice_reduce<add> %r[0] : f32
  store %s, @y[%w]
}
"""


def test_the_interpreter_runs_passes_of_slices_that_are_named() -> None:
    """And slices as they are without a name, to the same bits."""
    x = np.random.default_rng(3).standard_normal((2, 100)).astype(np.float32)
    (plain,) = compile(NAMED, target="ref", passes="default")({"x": x}).values()
    for lanes in (32, 64):
        executable = compile(NAMED, target="ref", passes=f"lower_slices{{lanes={lanes}}}")
        assert f"a workgroup has {lanes} invocations for its slices" in str(executable.report({"x": x}))
        assert executable({"x": x})["y"].tobytes() == plain.tobytes()
