"""Buffers of several dimensions: elements in row-major order, bounds along each dimension, shapes of arrays at calls."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.quick import quick

import vyre_opt
from vyre_opt import PassManager, dispatcher, parse, print_program
from vyre_opt.execution import BadInputs, BadLaunch, ProgramError
from vyre_opt.execution.shapes import result_shape
from vyre_opt.ir import DiagnosticError

TARGETS = pytest.mark.parametrize("target", ["ref", "cpu"])

GATHER = """vyre 2
program @gather workgroup(32) {
  buffer @x : f32[?, 64] read binding(0)
  buffer @at : DTYPE[?] read binding(1)
  buffer @y : f32[?] write binding(2)
  %i = global_id x
  %row = const 1 : DTYPE
  %c = load @at[%i] : DTYPE
  %v = load @x[%row, %c] : f32
  store %v, @y[%i] : f32
}
"""
X = np.arange(3 * 64, dtype=np.float32).reshape(3, 64)


def gather(target: str, at: np.ndarray, dtype: str) -> np.ndarray:
    compiled = vyre_opt.compile(GATHER.replace("DTYPE", dtype), target=target)
    y: np.ndarray = compiled({"x": X, "at": at}, 1, lengths={"y": 32})["y"]
    return y


@TARGETS
@pytest.mark.parametrize("dtype", quick(["u8", "i32", "u64", "i8", "u16", "i16", "u32", "i64"], keep=3))
def test_an_index_of_any_type(target: str, dtype: str) -> None:
    at = np.arange(32)[::-1] * 2
    stored = np.dtype({"u": "uint", "i": "int"}[dtype[0]] + dtype[1:])
    assert np.array_equal(gather(target, at.astype(stored), dtype), X[1, at])


@TARGETS
@pytest.mark.parametrize(
    ("dtype", "index", "shown"),
    [
        ("u32", 64, 64),
        ("i32", -1, -1),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("i64", -(2**40), -(2**40)),
        ("u8", 255, 255),
    ],
)
def test_an_index_beyond_its_row_is_out_of_bounds(target: str, dtype: str, index: int, shown: int) -> None:
    """Though the next row has an element there, and the row before has one at -1."""
    at = np.zeros(32, np.dtype({"u": "uint", "i": "int"}[dtype[0]] + dtype[1:]))
    at[7] = index
    place = rf"index \(1, {shown}\), shape \(3, 64\), outside along dimension 1"
    message = rf"@x: {place}, by workgroup \(0,0,0\) local id \(7,0,0\)"
    with pytest.raises(ProgramError, match=message) as caught:
        gather(target, at, dtype)
    assert caught.value.kind == "bounds"


VECTORS = """vyre 2
program @vectors workgroup(8) {
  buffer @x : u32[?, ?] read binding(0)
  buffer @y : u32[?, 8] write binding(1)
  %l = local_id x
  %two = const 2 : u32
  %c = mul %l, %two : u32
  %r = workgroup_id x
  %v = load @x[%r, %c] : vec<4 x u32>
  %s = extract %v[3] : vec<4 x u32>
  store %s, @y[%r, %l] : u32
}
"""


@TARGETS
@pytest.mark.parametrize("columns", [18, 17])
def test_a_vector_stays_in_its_row(target: str, columns: int) -> None:
    x = np.arange(3 * columns, dtype=np.uint32).reshape(3, columns)
    compiled = vyre_opt.compile(VECTORS, target=target)
    if columns == 18:
        assert np.array_equal(compiled({"x": x}, 3, lengths={"y": (3, 8)})["y"], x[:, 3:18:2])
        return
    with pytest.raises(
        ProgramError, match=r"elements \(\d, 14\) to \(\d, 17\), shape \(3, 17\), outside along dimension 1"
    ):
        compiled({"x": x}, 3, lengths={"y": (3, 8)})


CUBE = """vyre 2
program @cube workgroup(4, 2, 2) {
  buffer @x : u16[?, 3, ?] read binding(0)
  buffer @sums : u32[3, ?] read_write binding(1) live_in live_out
  buffer @t : u32[2, 2, 4] workgroup
  %i = global_id z
  %j = global_id y
  %k = global_id x
  %a = local_id z
  %b = local_id y
  %c = local_id x
  %ni = len @x, 0
  %nj = len @x, 1
  %nk = len @x, 2
  %zero = const 0 : u32
  %pi = lt %i, %ni : u32
  %pj = lt %j, %nj : u32
  %pk = lt %k, %nk : u32
  %pij = and %pi, %pj : bool
  %p = and %pij, %pk : bool
  %v = if %p -> u32 {
    %narrow = load @x[%i, %j, %k] : u16
    %wide = cast %narrow : u16 -> u32
    yield %wide
  } else {
    yield %zero
  }
  store %v, @t[%a, %b, %c] : u32
  barrier workgroup
  %one = const 1 : u32
  %other = sub %one, %a : u32
  %w = load @t[%other, %b, %c] : u32
  if %p {
    %old = atomic_add @sums[%j, %k], %w : u32
  }
}
"""


@TARGETS
def test_three_dimensions_and_atomics(target: str) -> None:
    x = np.random.default_rng(0).integers(0, 1000, (4, 3, 7), np.uint16)
    sums = np.zeros((3, 7), np.uint32)
    compiled = vyre_opt.compile(CUBE, target=target)
    for _ in range(2):
        out = compiled({"x": x, "sums": sums}, (2, 2, 2))["sums"]
        assert np.array_equal(out, x.sum(0, dtype=np.uint32))
    out = dispatcher(target).dispatch(parse(CUBE).programs["cube"], [x, sums], (2, 2, 2))[0]
    assert out.shape == (3, 7)


CALLS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another shape": (
        {"x": X[:, :60]},
        {"y": 32},
        "(3, 60), and @x is f32[?, 64]: it has 60 along dimension 1, not 64",
    ),
    "flat": ({"x": X.reshape(-1)}, {"y": 32}, "and @x is f32[?, 64]; pass array.reshape(-1, 64)"),
    "bytes of no whole rows": (
        {"x": bytes(100)},
        {"y": 32},
        "100 bytes are no f32[?, 64], whose rows take 256 bytes",
    ),
}


@TARGETS
@pytest.mark.parametrize("case", CALLS)
def test_a_shape_that_the_buffer_does_not_have(target: str, case: str) -> None:
    arrays, lengths, message = CALLS[case]
    compiled = vyre_opt.compile(GATHER.replace("DTYPE", "u32"), target=target)
    with pytest.raises(BadInputs, match=re.escape(message)):
        compiled({"at": np.zeros(32, np.uint32), **arrays}, 1, lengths=lengths)


@TARGETS
def test_bytes_are_rows_where_only_their_number_is_open(target: str) -> None:
    at = np.arange(32, dtype=np.uint32)
    compiled = vyre_opt.compile(GATHER.replace("DTYPE", "u32"), target=target)
    assert np.array_equal(compiled({"x": X.tobytes(), "at": at}, 1, lengths={"y": 32})["y"], X[1, :32])


RACE = """vyre 2
program @race workgroup(32) {
  buffer @t : u32[2, 40] read_write binding(0) live_out
  %l = local_id x
  %r = const 1 : u32
  %h = const 2 : u32
  %c = div %l, %h : u32
  store %l, @t[%r, %c] : u32
}
"""


def test_a_race_names_the_element() -> None:
    with pytest.raises(ProgramError, match=r"data race on @t, index \(1, 0\), shape \(2, 40\)"):
        vyre_opt.run(RACE, {"t": np.zeros((2, 40), np.uint32)}, 1, target="ref")


def test_a_read_of_what_nobody_wrote_names_the_element() -> None:
    text = RACE.replace("store %l, @t[%r, %c] : u32", "%v = load @t[%r, %c] : u32").replace("live_out", "")
    with pytest.raises(ProgramError, match=r"index \(1, 0\), shape \(2, 40\), which nothing has written"):
        vyre_opt.run(text, {"t": np.zeros((2, 40), np.uint32)}, 1, target="ref")


PROBLEMS = {
    "%v = load @x[%i] : f32": "@x has 2 dimensions, 1 index given",
    "%v = load @x[%i, %i, %i] : f32": "@x has 2 dimensions, 3 indices given",
    "%v = load @y[%i, %i] : f32": "@y has 1 dimension, 2 indices given",
    "%n = len @x": "write len @x, 0 for the first extent",
    "%n = len @x, 2": "@x has 2 dimensions, and no dimension 2",
    "%n = len @y, 1": "@y has 1 dimension, and no dimension 1",
}


@pytest.mark.parametrize("line", PROBLEMS)
def test_indices_and_dimensions_are_verified(line: str) -> None:
    text = f"""vyre 2
    program @p workgroup(1) {{
      buffer @x : f32[?, 64] read binding(0)
      buffer @y : f32[?] read binding(1)
      %i = global_id x
      {line}
    }}
    """
    with pytest.raises(DiagnosticError, match=re.escape(PROBLEMS[line])):
        vyre_opt.compile(text)


def test_a_text_has_the_first_version_that_has_all_of_it() -> None:
    """One dimension prints as it always did; the length of one may be written with its dimension."""
    plain = "vyre 1\n\nprogram @p workgroup(1) {\n  buffer @x : f32[?] read binding(0)\n\n  %n = len @x\n}\n"
    assert print_program(parse(plain)) == plain
    assert print_program(parse(plain.replace("len @x", "len @x, 0"))).startswith("vyre 2\n")
    several = plain.replace("f32[?]", "f32[?, 2]").replace("len @x", "len @x, 1")
    assert print_program(parse(several)).startswith("vyre 2\n")


def test_an_extent_of_several_has_31_bits() -> None:
    text = "vyre 2 program @p workgroup(1) { buffer @x : u8[1, 2147483648] read binding(0) }"
    with pytest.raises(DiagnosticError, match="of several dimensions each has at most 2\\^31-1"):
        vyre_opt.compile(text)


def test_the_shape_of_a_result() -> None:
    """As an operator of torch gives it before it runs: fixed extents, those of `lengths`, and the lanes of vectors."""
    text = """vyre 2
    program @p workgroup(1) {
      buffer @a : f32[6] write binding(0)
      buffer @b : vec<2 x f32>[?] write binding(1)
      buffer @c : f32[3, 4] write binding(2)
      buffer @d : vec<4 x f32>[?, 5, ?] write binding(3)
    }
    """
    buffers = parse(text).programs["p"].buffers
    lengths = {"b": 7, "d": [2, 5, 9]}
    shapes = {name: result_shape(buffer, lengths.get(name)) for name, buffer in buffers.items()}
    assert shapes == {"a": (6,), "b": (7, 2), "c": (3, 4), "d": (2, 5, 9, 4)}
    passed = {name: tuple(length) if isinstance(length, list) else length for name, length in lengths.items()}
    outputs = vyre_opt.run(text, {}, 1, lengths=passed)
    assert {name: array.shape for name, array in outputs.items()} == shapes


KERNEL = """vyre 2
ITEM {
  buffer @x : f32[SHAPE] read BINDING(0)
  buffer @y : f32[512] write BINDING(1)
  math.softmax(@x, @y) PARAMS
}
"""
ITEMS = {"program @main workgroup(32) grid(2)": "binding", "pipeline @main": ""}


def kernel_text(item: str, shape: str, params: str = "") -> str:
    bindings = re.sub(r"BINDING(\(\d\))", rf"{ITEMS[item]}\1" if ITEMS[item] else "", KERNEL)
    return bindings.replace("ITEM", item).replace("SHAPE", shape).replace("PARAMS", params)


@TARGETS
@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize(("shape", "params"), [("2, 4, 64", ""), ("?, 64", ""), ("?, ?", "{columns = 64}")])
def test_a_named_kernel_takes_elements_row_by_row(target: str, item: str, shape: str, params: str) -> None:
    x = (
        np.random.default_rng(1)
        .standard_normal((2, 4, 64) if shape[0] == "2" else (8, 64))
        .astype(np.float32)
    )
    powers = np.exp(x.astype(np.float64)).reshape(8, 64)
    y = vyre_opt.compile(kernel_text(item, shape, params), target=target)({"x": x})["y"]
    assert np.allclose(y.reshape(8, 64), powers / powers.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("item", ITEMS)
def test_an_extent_that_contradicts_a_parameter_is_refused(item: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        vyre_opt.compile(kernel_text(item, "8, 64", "{columns = 32}"))
    (error,) = caught.value.diagnostics
    assert error.message == "math.softmax: columns is 32, and a row of @x has 64"
    assert error.loc is not None
    assert (error.loc.line, error.loc.column) == (5, 16)


def test_an_open_extent_is_looked_at_when_it_is_known() -> None:
    text = kernel_text("pipeline @main", "?, ?", "{columns = 64}").replace("f32[512]", "f32[?]")
    compiled = vyre_opt.compile(text, target="cpu")
    with pytest.raises(BadLaunch, match="columns is 64, and a row of @x has 32"):
        compiled({"x": np.zeros((16, 32), np.float32)}, lengths={"y": 512})
    assert compiled({"x": np.zeros((0, 64), np.float32)}, lengths={"y": 0})["y"].shape == (0,)
    with pytest.raises(DiagnosticError, match="needs its parameter columns"):
        vyre_opt.compile(kernel_text("program @main workgroup(32) grid(2)", "?, ?"))


def test_a_stage_on_rows_stays_for_the_plan() -> None:
    """No pass sees a launch that takes the rows of a buffer as one."""
    module = parse(kernel_text("pipeline @main", "8, 64"))
    before = print_program(module)
    result = PassManager("expand_kernels", target="cpu").run(module)
    assert print_program(module) == before
    (remark,) = result.remarks
    assert remark.message == (
        "math.softmax is not expanded: @x has rows, which its program takes as one; the plan of a call expands it"
    )


APART = """vyre 2
program @apart workgroup(32) grid(2) {
  buffer @at : DTYPE[64] read binding(0)
  buffer @y : u32[SHAPE] read_write binding(1) live_in live_out
  %g = global_id x
  %i = load @at[%g] : DTYPE
  COLUMNS
  %row = div %i, %c : DTYPE
  %column = rem %i, %c : DTYPE
  store %g, @y[%row, %column] : u32
}
"""


@TARGETS
@pytest.mark.parametrize(
    ("dtype", "shape", "columns"),
    [
        ("u32", "?, ?", "%c = len @y, 1"),
        ("i64", "5, 13", "%c = const 13 : i64"),
        ("i64", "?, ?", "%n = len @y, 1 : u64\n  %c = cast %n : u64 -> i64"),
    ],
)
@pytest.mark.parametrize("outside", [None, 65, -1, -13])
def test_an_index_taken_apart(target: str, dtype: str, shape: str, columns: str, outside: int | None) -> None:
    at = np.random.default_rng(3).permutation(65)[:64].astype({"u32": np.uint32, "i64": np.int64}[dtype])
    text = APART.replace("DTYPE", dtype).replace("SHAPE", shape).replace("COLUMNS", columns)
    compiled = vyre_opt.compile(text, target=target)
    y = np.full((5, 13), 99, np.uint32)
    if outside is None:
        expected = y.reshape(-1).copy()
        expected[at.astype(np.int64)] = np.arange(64)
        assert np.array_equal(compiled({"at": at, "y": y})["y"].reshape(-1), expected)
        return
    at[40:41] = np.array([outside]).astype(at.dtype)
    index = int(at[40])
    place = (index // 13, index % 13) if index >= 0 else (-(-index // 13), -(-index % 13))
    with pytest.raises(ProgramError, match=re.escape(f"({place[0]}, {place[1]})")):
        compiled({"at": at, "y": y})


HANDED_OVER = """vyre 2
program @fill workgroup(32) {
  buffer @y : u32[2, 64] write binding(0)
  %i = global_id x
  %one = const 1 : u32
  store %i, @y[%one, %i] : u32
}
program @next workgroup(32) {
  buffer @x : u32[2, 64] read binding(0)
  buffer @y : u32[64] write binding(1)
  %i = global_id x
  %one = const 1 : u32
  %left = sub_sat %i, %one : u32
  %v = load @x[%one, %INDEX] : u32
  store %v, @y[%i] : u32
}
pipeline @main {
  buffer @m : u32[2, 64]
  buffer @y : u32[64] write
  launch @fill grid(2) (@m)
  launch @next grid(2) (@m, @y)
}
"""


def test_a_halo_of_several_dimensions_is_refused_in_words() -> None:
    result = PassManager("launch_fusion").run(parse(HANDED_OVER.replace("%INDEX", "%left")))
    (refused,) = [
        remark
        for remark in result.remarks
        if remark.kind == "refused" and remark.pass_name == "launch_fusion"
    ]
    assert "@m has 2 dimensions: halos are made of buffers of one" in refused.message


def test_a_tile_of_several_dimensions_is_refused_in_words() -> None:
    """What an invocation hands to itself in @m is joined; it would be a tile, were @m of one dimension."""
    result = PassManager("launch_fusion,decode_scan_fuse").run(parse(HANDED_OVER.replace("%INDEX", "%i")))
    messages = [remark.message for remark in result.remarks if remark.kind == "refused"]
    assert "@m has 2 dimensions: tiles are made of buffers of one" in messages
