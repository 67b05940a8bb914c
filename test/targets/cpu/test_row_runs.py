"""Workgroups that run along rows of their launch, and loops whose rows are moved in tiles: odd extents, edges and faults."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import vyre_opt
from vyre_opt import Read, Write, dispatcher, f32
from vyre_opt.execution import ProgramError
from vyre_opt.ir import parse
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

WORKGROUPS = ((16, 16), (32, 8), (8, 4, 2), (64, 2), (5, 3))
Oracle = Callable[[np.ndarray], np.ndarray]


def _grid(workgroup: tuple[int, ...], columns: int, rows: int) -> tuple[int, int]:
    return -(-columns // workgroup[0]), -(-rows // workgroup[1])


def _size(workgroup: tuple[int, ...]) -> str:
    return ", ".join(map(str, workgroup))


def _stencil(workgroup: tuple[int, ...]) -> str:
    return f"""program @p workgroup({_size(workgroup)}) {{
      buffer @x : f32[?, ?] read binding(0)
      buffer @y : f32[?, ?] read_write binding(1) live_in live_out
      %j = global_id x
      %i = global_id y
      %k = global_id z
      %c0 = const 0 : u32
      %c1 = const 1 : u32
      %z = eq %k, %c0 : u32
      %up = gt %i, %c0 : u32
      %left = gt %j, %c0 : u32
      %i1 = add %i, %c1 : u32
      %j1 = add %j, %c1 : u32
      %rows = len @x, 0
      %columns = len @x, 1
      %down = lt %i1, %rows : u32
      %right = lt %j1, %columns : u32
      %a = and %up, %left : bool
      %b = and %down, %right : bool
      %ab = and %a, %b : bool
      %inside = and %ab, %z : bool
      if %inside {{
        %im = sub %i, %c1 : u32
        %jm = sub %j, %c1 : u32
        %m = load @x[%i, %j] : f32
        %n = load @x[%im, %j] : f32
        %s = load @x[%i1, %j] : f32
        %w = load @x[%i, %jm] : f32
        %e = load @x[%i, %j1] : f32
        %mn = add %m, %n : f32
        %mns = add %mn, %s : f32
        %mnsw = add %mns, %w : f32
        %v = add %mnsw, %e : f32
        store %v, @y[%i, %j] : f32
      }}
    }}"""


@pytest.mark.parametrize("workgroup", WORKGROUPS, ids=str)
def test_a_stencil_keeps_its_edges(agree: Any, workgroup: tuple[int, ...]) -> None:
    rng = random.Random(repr(workgroup))
    for rows, columns in [(1, 1), (3, 3), (17, 65), (rng.randint(2, 60), rng.randint(2, 200))]:
        x = np.random.default_rng(rows).random((rows, columns), np.float32)
        before = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        (after,) = agree(_stencil(workgroup), [x, before], _grid(workgroup, columns, rows))
        expected = before.copy()
        expected[1:-1, 1:-1] = x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        assert np.array_equal(after, expected)


@pytest.mark.parametrize("workgroup", [(16, 16), (32, 8)], ids=str)
@pytest.mark.parametrize("shape", [(40, 68), (38, 70), (17, 200), (40, 0), (200, 33)], ids=str)
def test_the_first_fault_is_that_of_the_first_workgroup(
    faults: Any, workgroup: tuple[int, ...], shape: tuple[int, int]
) -> None:
    """Where y is too small, workgroups beside and below each other are at fault, in other rows of each."""
    rows, columns = 40, 70
    x, y = np.ones((rows, columns), np.float32), np.ones(shape, np.float32)
    error = faults(_stencil(workgroup), [x, y], _grid(workgroup, columns, rows))
    assert "store out of bounds of @y" in str(error)


def test_an_unsigned_index_below_zero_is_a_fault(faults: Any) -> None:
    text = """program @p workgroup(16, 4) {
      buffer @x : u32[?, ?] read binding(0)
      buffer @y : u32[?, ?] write binding(1)
      %j = global_id x
      %i = global_id y
      %c3 = const 3 : u32
      %left = sub %j, %c3 : u32
      %v = load @x[%i, %left] : u32
      store %v, @y[%i, %j] : u32
    }"""
    arrays = [np.ones((8, 32), np.uint32), np.zeros((8, 32), np.uint32)]
    assert "index (0, 4294967293)" in str(faults(text, arrays, (2, 2)))


@pytest.mark.parametrize(
    ("start", "condition", "columns"),
    [
        ("-20", "lt %s, %c9 : i32", range(29)),
        ("-20", "ge %s, %c9 : i32", range(29, 64)),
        ("-20", "gt %c9, %s : i32", range(29)),
        ("2147483600", "gt %s, %c9 : i32", range(48)),
        ("2147483600", "le %s, %c9 : i32", range(48, 64)),
        ("-3", "lt %u, %v9 : u32", range(3, 12)),
        ("-3", "gt %u, %v9 : u32", [0, 1, 2, *range(13, 64)]),
        ("-3", "ge %v9, %u : u32", range(3, 13)),
        ("-3", "lt %u, %most : u32", [0, 1, *range(3, 64)]),
        ("2147483600", "gt %u, %v9 : u32", range(64)),
        ("2147483600", "lt %u, %half : u32", range(58)),
    ],
)
def test_conditions_at_the_ends_of_a_type(
    agree: Any, start: str, condition: str, columns: Sequence[int]
) -> None:
    """A sum that is negative in the first invocations, or wraps in the last ones."""
    text = f"""program @p workgroup(16, 2) {{
      buffer @y : u32[?, ?] read_write binding(0) live_in live_out
      %j = global_id x
      %i = global_id y
      %g = cast %j : u32 -> i32
      %start = const {start} : i32
      %c9 = const 9 : i32
      %s = add %g, %start : i32
      %u = cast %s : i32 -> u32
      %v9 = const 9 : u32
      %most = const 4294967295 : u32
      %half = const 2147483658 : u32
      %p = {condition}
      if %p {{ store %j, @y[%i, %j] : u32 }}
    }}"""
    (after,) = agree(text, [np.full((4, 64), 99, np.uint32)], (4, 2))
    expected = np.full((4, 64), 99, np.uint32)
    expected[:, columns] = columns
    assert np.array_equal(after, expected)


def test_a_branch_inside_has_a_mask(agree: Any) -> None:
    text = """program @p workgroup(8, 8) {
      buffer @x : u32[?, ?] read binding(0)
      buffer @y : u32[?] read_write binding(1) live_in live_out
      %j = global_id x
      %i = global_id y
      %columns = len @x, 1
      %p = lt %j, %columns : u32
      if %p {
        %v = load @x[%i, %j] : u32
        %c2 = const 2 : u32
        %c0 = const 0 : u32
        %odd = rem %v, %c2 : u32
        %q = ne %odd, %c0 : u32
        %row = mul %i, %columns : u32
        %at = add %row, %j : u32
        if %q { store %v, @y[%at] : u32 }
      }
    }"""
    x = np.random.default_rng(1).integers(0, 100, (16, 37)).astype(np.uint32)
    (after,) = agree(text, [x, np.zeros(x.size, np.uint32)], (5, 2))
    assert np.array_equal(after.reshape(x.shape), np.where(x % 2, x, 0))


# --- tiles


def _rows(body: str, dtype: str = "f32") -> str:
    return f"""program @p workgroup(64) {{
      buffer @x : {dtype}[?, ?] read binding(0)
      buffer @y : {dtype}[?, ?] read_write binding(1) live_in live_out
      %i = global_id x
      %rows = len @x, 0
      %n = len @x, 1
      %p = lt %i, %rows : u32
      if %p {{
        %zero = const 0{".0" if dtype[0] == "f" else ""} : {dtype}
        {body}
      }}
    }}"""


SCALED = """
  %t = for %c = 0 to %n step 1 iter(%a = %zero : {dtype}) {{
    %v = load @x[%i, %c] : {dtype}
    %w = load @x[%i, %c] : {dtype}
    %vw = mul %v, %w : {dtype}
    %b = add %a, %vw : {dtype}
    yield %b
  }}
  for %c = 0 to %n step 1 {{
    %v = load @x[%i, %c] : {dtype}
    %o = load @y[%i, %c] : {dtype}
    %tv = mul %t, %v : {dtype}
    %s = add %tv, %o : {dtype}
    store %s, @y[%i, %c] : {dtype}
  }}"""


@pytest.mark.parametrize("dtype", ["f32", "u32", "i32", "f16", "f64"])
def test_a_row_a_lane(agree: Any, dtype: str) -> None:
    """Sums keep the order of each row; elements of 32 bits are moved in tiles."""
    kind = {"f": np.dtype(f"f{int(dtype[1:]) // 8}"), "u": np.dtype("u4"), "i": np.dtype("i4")}[dtype[0]]
    rng = random.Random(dtype)
    for rows, columns in [(1, 1), (64, 16), (33, 100), (rng.randint(2, 200), rng.randint(2, 70)), (70, 0)]:
        generator = np.random.default_rng(columns)
        x, y = ((generator.random((rows, columns)) * 8).astype(kind) for _ in range(2))
        (after,) = agree(_rows(SCALED.format(dtype=dtype), dtype), [x, y], -(-rows // 64))
        total = np.zeros(rows, kind)
        for column in range(columns):
            total += x[:, column] * x[:, column]
        assert np.array_equal(after, total[:, None] * x + y)


@pytest.mark.parametrize("shape", [(69, 40), (70, 39), (5, 1)], ids=str)
def test_a_fault_in_a_loop_of_rows(faults: Any, shape: tuple[int, int]) -> None:
    x, y = np.ones((70, 40), np.float32), np.zeros(shape, np.float32)
    error = faults(_rows(SCALED.format(dtype="f32")), [x, y], 2)
    assert "load out of bounds of @y" in str(error)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # each iteration reads what the one before wrote
        (
            """%m = sub %n, %one : u32
            for %c = 0 to %m step 1 {
              %v = load @y[%i, %c] : u32
              %d = add %c, %one : u32
              store %v, @y[%i, %d] : u32
            }""",
            lambda x, y: np.repeat(y[:, :1], y.shape[1], 1),
        ),
        # an element that is written twice, and read in between
        (
            """for %c = 0 to %n step 1 {
              %v = load @x[%i, %c] : u32
              store %v, @y[%i, %c] : u32
              %w = load @y[%i, %c] : u32
              %ww = add %w, %w : u32
              store %ww, @y[%i, %c] : u32
            }""",
            lambda x, y: 2 * x,
        ),
        # bounds that are not those of a row
        (
            """%m = sub %n, %one : u32
            for %c = 3 to %m step 1 {
              %v = load @x[%i, %c] : u32
              store %v, @y[%i, %c] : u32
            }""",
            lambda x, y: np.concatenate([y[:, :3], x[:, 3:-1], y[:, -1:]], 1),
        ),
        # some lanes, and a branch in the loop
        (
            """%odd = rem %i, %two : u32
            %q = eq %odd, %one : u32
            if %q {
              for %c = 0 to %n step 1 {
                %v = load @x[%i, %c] : u32
                %r = gt %v, %two : u32
                if %r { store %v, @y[%i, %c] : u32 }
              }
            }""",
            lambda x, y: np.where((x > 2) & (np.arange(len(x)) % 2 == 1)[:, None], x, y),
        ),
        # in every second row only, whole
        (
            """%odd = rem %i, %two : u32
            %q = eq %odd, %one : u32
            if %q {
              for %c = 0 to %n step 1 {
                %v = load @x[%i, %c] : u32
                store %v, @y[%i, %c] : u32
              }
            }""",
            lambda x, y: np.where((np.arange(len(x)) % 2 == 1)[:, None], x, y),
        ),
    ],
    ids=("carried by memory", "twice", "a part", "a branch", "some rows"),
)
def test_what_loops_do_to_rows(
    agree: Any, body: str, expected: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> None:
    head = "%one = const 1 : u32 %two = const 2 : u32 "
    x, y = np.random.default_rng(3).integers(0, 9, (2, 75, 37)).astype(np.uint32)
    (after,) = agree(_rows(head + body, "u32"), [x, y], 2)
    assert np.array_equal(after, expected(x, y))


def test_rows_begin_anywhere(agree: Any) -> None:
    """What is the same in 32 invocations that begin at a multiple of 32 is not in those of a row."""
    text = """program @p workgroup(32, 2) {
      buffer @y : u32[?, ?] read_write binding(0) live_in live_out
      %j = global_id x
      %i = global_id y
      %c5 = const 5 : u32
      %c31 = const 31 : u32
      %c40 = const 40 : u32
      %p = gt %j, %c40 : u32
      if %p {
        %quotient = shr %j, %c5 : u32
        %digit = and %j, %c31 : u32
        %c100 = const 100 : u32
        %high = mul %quotient, %c100 : u32
        %v = add %high, %digit : u32
        store %v, @y[%i, %j] : u32
      }
    }"""
    (after,) = agree(text, [np.zeros((2, 128), np.uint32)], (4, 1))
    columns = np.arange(128)
    assert np.array_equal(after[0], np.where(columns > 40, columns // 32 * 100 + columns % 32, 0))


def _random_program(rng: random.Random, workgroups: Sequence[str], row: str) -> str:
    """A body of loads and a store beside each other, behind guards that may wrap, hold nowhere, or leave accesses at fault."""
    lines = [f"program @p workgroup({rng.choice(workgroups)}) {{"]
    lines += ["buffer @x : u32[?, ?] read binding(0)", "buffer @w : u32[?] read binding(1)"]
    lines += ["buffer @y : u32[?, ?] read_write binding(2) live_in live_out"]
    lines += ["%j = global_id x", f"%i = {row}", "%n = len @x, 1", "%m = len @x, 0"]

    def emit(name: str, *operands: str) -> str:
        lines.append(f"%v{len(lines)} = {name} {', '.join(operands)} : u32")
        return f"%v{len(lines) - 1}"

    def near(value: str) -> str:
        name = rng.choice(["", "", "add", "sub"])
        far = rng.choice([1, 2, 5, (1 << 31) - 40])
        return emit(name, value, emit("const", str(far))) if name else value

    guards = [emit("lt", "%j", "%n"), emit("lt", "%i", "%m")][: rng.choice([1, 2, 2, 2])]
    for _ in range(rng.randint(0, 2)):
        limit = rng.choice(["%n", "%m", emit("const", str(rng.choice([3, 40, (1 << 32) - 3])))])
        pair = near(rng.choice("%i %j".split())), limit
        guards.append(emit(rng.choice(["lt", "le", "gt", "ge"]), *rng.sample(pair, 2)))
    condition = guards[0]
    for guard in guards[1:]:
        lines.append(f"%v{len(lines)} = and {condition}, {guard} : bool")
        condition = f"%v{len(lines) - 1}"
    lines.append(f"if {condition} {{")
    total = emit("shr", "%j", emit("const", "4"))
    for at in (f"@x[{near('%i')}, {near('%j')}]", f"@x[%i, {near('%j')}]", f"@w[{rng.choice(['%i', '%j'])}]"):
        total = emit("add", total, emit("load", at)) if rng.random() < 0.7 else total
    return "\n".join([*lines, f"store {total}, @y[%i, %j] : u32", "} }"])


@pytest.mark.parametrize("seed", range(36))
def test_random_guards(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are the interpreter's, and faults, of which it may see another first, those of runs by workgroups."""
    rng, is_line = random.Random(seed), seed % 3 == 0
    workgroups = ("64", "256", "33", "7") if is_line else ("16, 16", "32, 8", "5, 3", "33, 2")
    text = _random_program(rng, workgroups, "const 0 : u32" if is_line else "global_id y")
    module = parse(f"vyre 1\n{text}")
    program = module.programs["p"]
    rows, columns = 1 if is_line else rng.randint(1, 40), rng.randint(1, 90)
    columns *= rng.choice([1, 9]) if is_line else 1
    shape = rng.choice([(rows, columns), (rows, columns), (max(0, rows - 2), max(0, columns - 5))])
    x = np.random.default_rng(seed).integers(0, 99, (rows, columns)).astype(np.uint32)
    arrays = [x, np.arange(rng.choice([30, 200]), dtype=np.uint32), np.zeros(shape, np.uint32)]
    grid = _grid(program.workgroup, columns, rows)
    cpu = CpuDispatcher(opt=0, cache=False)
    outcome = _outcome(lambda: cpu.dispatch(program, arrays, grid, module=module))
    if isinstance(outcome, str):
        monkeypatch.setattr("vyre_opt.lowering.host.program.row_runs", lambda *_: None)
        monkeypatch.setattr("vyre_opt.targets.cpu.compiler._LOADED", OrderedDict())
        cpu = CpuDispatcher(opt=0, cache=False)
        assert outcome == _outcome(lambda: cpu.dispatch(program, arrays, grid, module=module))
    else:
        (expected,) = dispatcher("ref").dispatch(program, arrays, grid, module=module)
        assert np.array_equal(outcome, expected)


def _outcome(run: Callable[[], list[np.ndarray]]) -> np.ndarray | str:
    """The only output of a run, or its fault in words."""
    try:
        return run()[0]
    except ProgramError as error:
        return str(error)


@vyre_opt.program
def twice(x: Read[f32], y: Write[f32]) -> None:
    i = vyre_opt.global_id(0)
    if i < len(y):
        y[i] = x[i] * 2.0 + 1.0


@vyre_opt.program(workgroup=(32, 8))
def twice_rows(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    j, i = vyre_opt.global_id(0), vyre_opt.global_id(1)
    if i < len(y) and j < y.shape[1]:
        y[i, j] = x[i, j] * 2.0 + 1.0


@pytest.mark.parametrize("length", [1, 31, 32, 33, 47, 64, 100, 1000])
def test_rows_begin_anywhere_in_a_line(length: int) -> None:
    """Wherever an array lies, each of its elements is written, and nothing beside it; in place, too, each once."""
    for behind in range(17):
        space = np.full(length + 64, -7, np.float32)
        x, y = np.arange(length, dtype=np.float32), space[behind : behind + length]
        twice.options(target="cpu")[-(-length // 256)](x, y)
        np.testing.assert_array_equal(y, x * 2 + 1)
        twice.options(target="cpu")[-(-length // 256)](y, y)
        np.testing.assert_array_equal(y, (x * 2 + 1) * 2 + 1)
        assert (space[:behind] == -7).all() and (space[behind + length :] == -7).all()  # noqa: PT018
    rows = np.full((5, length), -7, np.float32)
    block = np.arange(5 * length, dtype=np.float32).reshape(5, length)
    twice_rows.options(target="cpu")[-(-length // 32), 1](block, rows)
    np.testing.assert_array_equal(rows, block * 2 + 1)
