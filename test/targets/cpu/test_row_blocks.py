"""Rows that run together in loops that load the same for all of them: the bits of sums in order, ends of rows, and faults."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from vyre_opt.ir import parse
from vyre_opt.lowering.host.lane_facts import LaneFacts
from vyre_opt.lowering.host.legalization import legal_program
from vyre_opt.lowering.host.row_blocks import row_blocks
from vyre_opt.lowering.host.row_runs import FIRST_IDS, row_runs


def _product(workgroup: str, body: str = "", store: str = "%s", dtype: str = "f32", more: str = "") -> str:
    return f"""program @p workgroup({workgroup}) {{
      buffer @a : {dtype}[?, ?] read binding(0)
      buffer @b : {dtype}[?, ?] read binding(1)
      buffer @c : {dtype}[?, ?] read_write binding(2) live_in live_out
      {more}
      %j = global_id x
      %i = global_id y
      %rows = len @c, 0
      %columns = len @c, 1
      %n = len @a, 1
      %zero = const 0 : u32
      %none = cast %zero : u32 -> {dtype}
      %p = lt %i, %rows : u32
      %q = lt %j, %columns : u32
      %pq = and %p, %q : bool
      %z = global_id z
      %first = eq %z, %zero : u32
      %inside = and %pq, %first : bool
      if %inside {{
        %s = for %k = 0 to %n step 1 iter(%t = %none : {dtype}) {{
          %v = load @a[%i, %k] : {dtype}
          %w = load @b[%k, %j] : {dtype}
          %vw = mul %v, %w : {dtype}
          %u = add %t, %vw : {dtype}
          yield %u
        }}
        {body}
        store {store}, @c[%i, %j] : {dtype}
      }}
    }}"""


def rows_of(text: str, register_bytes: int = 64) -> int:
    module = parse(f"vyre 1\n{text}")
    program = legal_program(module.programs["p"], module)
    runs = row_runs(program, {}, LaneFacts(program).proven)
    assert runs is not None
    blocks = row_blocks(runs.program, runs.facts, FIRST_IDS[1:], program.workgroup[1], register_bytes)
    return 1 if blocks is None else blocks.rows


def _expected(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sums of rounded products, in order."""
    total = np.zeros((len(a), b.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        total += a[:, k : k + 1] * b[k : k + 1]
    return total


@pytest.mark.parametrize("workgroup", ["16, 16", "32, 8", "8, 4, 2", "5, 6", "64, 3"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "u32", "f16"])
def test_products(agree: Any, workgroup: str, dtype: str) -> None:
    kind = np.dtype(f"{dtype[0]}{int(dtype[1:]) // 8}")
    rng, sizes = random.Random(workgroup + dtype), [int(n) for n in workgroup.split(",")]
    for rows, columns, depth in (
        (1, 1, 1),
        (16, 32, 5),
        (17, 33, 0),
        (rng.randint(1, 40), rng.randint(32, 150), 9),
    ):
        generator = np.random.default_rng(rows)
        a, b = (generator.random(s) * 9 for s in ((rows, depth), (depth, columns)))
        a, b = a.astype(kind), b.astype(kind)
        grid = -(-columns // sizes[0]), -(-rows // sizes[1])
        (c,) = agree(_product(workgroup, dtype=dtype), [a, b, np.ones((rows, columns), kind)], grid)
        assert np.array_equal(c, _expected(a, b))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (_product("16, 16"), 8),
        (_product("16, 4"), 4),
        (_product("256"), 1),
        (_product("16, 16", dtype="f64"), 4),
        # what is stored is loaded, so that an invocation may not run twice
        (_product("16, 16", "%o = load @c[%i, %j] : f32 %so = add %s, %o : f32", "%so"), 1),
        # loops of other lengths in other rows
        (_product("16, 16").replace("0 to %n", "0 to %i"), 1),
        # nothing that rows share
        (_product("16, 16").replace("@b[%k, %j]", "@b[%i, %j]"), 1),
    ],
    ids=["16", "4", "one", "long", "in place", "triangle", "own"],
)
def test_how_many(text: str, rows: int) -> None:
    assert rows_of(text) == rows


def test_fewer_where_registers_are_short() -> None:
    assert rows_of(_product("16, 16"), 32) == 2


@pytest.mark.parametrize(
    ("body", "store"),
    [
        ("%o = load @c[%i, %j] : f32 %so = add %s, %o : f32", "%so"),
        ("%r = cast %i : u32 -> f32 %sr = add %s, %r : f32", "%sr"),
        ("%jj = cast %j : u32 -> f32 %sj = mul %s, %jj : f32", "%sj"),
    ],
    ids=["in place", "row", "column"],
)
def test_what_comes_after_the_loop(agree: Any, body: str, store: str) -> None:
    generator = np.random.default_rng(2)
    a, b, c = (generator.random(shape, np.float32) for shape in ((21, 6), (6, 70), (21, 70)))
    (after,) = agree(_product("16, 16", body, store), [a, b, c], (5, 2))
    total, (i, j) = _expected(a, b), np.indices(c.shape, np.float32)
    assert np.array_equal(after, {"%so": total + c, "%sr": total + i, "%sj": total * j}[store])


def test_loops_in_loops_and_values_that_rows_share(agree: Any) -> None:
    """A value that loops carry and that is the same in all rows, one that differs, and one that is swapped with it."""
    text = """program @p workgroup(32, 8) {
      buffer @x : f32[?] read binding(0)
      buffer @y : f32[?, ?] write binding(1) live_out
      %j = global_id x
      %i = global_id y
      %zero = const 0.0 : f32
      %row = cast %i : u32 -> f32
      %half = const 0.5 : f32
      %a, %b = for %k = 0 to 3 step 1 iter(%p = %zero : f32, %q = %row : f32) {
        %m = for %l = 0 to 4 step 1 iter(%n = %p : f32) {
          %kl = add %k, %l : u32
          %at = add %kl, %j : u32
          %v = load @x[%at] : f32
          %w = add %n, %v : f32
          yield %w
        }
        %h = mul %q, %half : f32
        yield %h, %m
      }
      %s = sub %a, %b : f32
      store %s, @y[%i, %j] : f32
    }"""
    x = np.random.default_rng(1).random(96 + 8, np.float32)
    (y,) = agree(text, [x, np.zeros((16, 96), np.float32)], (3, 2))
    p, q = np.zeros((16, 96), np.float32), np.repeat(np.arange(16, dtype=np.float32)[:, None], 96, 1)
    for k in range(3):
        m = p
        for step in range(4):
            m = m + x[k + step : k + step + 96]
        p, q = q * np.float32(0.5), m
    assert np.array_equal(y, p - q)


@pytest.mark.parametrize(("rows", "depth", "columns"), [(19, 9, 80), (20, 8, 80), (20, 9, 79)])
def test_a_fault_is_that_of_the_first_workgroup(faults: Any, rows: int, depth: int, columns: int) -> None:
    a, b = np.ones((rows, 9), np.float32), np.ones((depth, columns), np.float32)
    faults(_product("16, 16"), [a, b, np.zeros((20, 80), np.float32)], (5, 2))


@pytest.mark.parametrize("seed", range(12))
def test_random_sums(agree: Any, seed: int) -> None:
    rng = random.Random(seed)
    lines: list[str] = []
    values = ["%v", "%w", "%t"]
    for number in range(rng.randint(1, 5)):
        op = rng.choice(["add", "sub", "mul", "min", "max"])
        lines.append(f"%e{number} = {op} {rng.choice(values)}, {rng.choice(values)} : f32")
        values.append(f"%e{number}")
    text = _product(rng.choice(["16, 16", "32, 8", "8, 2"]))
    text = text.replace("%u = add %t, %vw : f32", f"{' '.join(lines)} %u = add %vw, {values[-1]} : f32")
    generator, depth = np.random.default_rng(seed), rng.randint(0, 7)
    rows, columns = rng.randint(1, 40), rng.randint(1, 100)
    a, b = (generator.random(shape, np.float32) for shape in ((rows, depth), (depth, columns)))
    sizes = [int(n) for n in text.partition("workgroup(")[2].partition(")")[0].split(",")]
    agree(
        text, [a, b, np.zeros((rows, columns), np.float32)], (-(-columns // sizes[0]), -(-rows // sizes[1]))
    )
