"""Products of blocks on matrix units: of small integers, whose sums have one value in any order; and the order of those without."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from support.quick import quick

import vyre_opt
from vyre_opt import Read, Write, dispatcher, f32, parse
from vyre_opt.ir import DiagnosticError, Module, Program
from vyre_opt.passes import PassManager

Array = np.ndarray[Any, Any]

TEXT = """vyre 2
program @p workgroup(1) {{
  buffer @a : {dtype}[{a}] read binding(0)
  buffer @b : {dtype}[{b}] read binding(1)
  buffer @row : f32[{n}] read binding(2)
  buffer @c : f32[?, {n}] write binding(3) live_out
  %w = workgroup_id x
  %v = workgroup_id y
  %i = mul %w, {rows} : u32
  %j = mul %v, {columns} : u32
  %none = const 0.0 : {dtype}
  %zero = const 0.0 : f32
  %start = slice_broadcast %zero : slice<{rows}x{columns}xf32>
  %bias = slice_load<filled> @row[%j], %zero : slice<{columns}xf32>
  %biases = slice_broadcast %bias : slice<{rows}x{columns}xf32>
  %sum = for %k = {lower} to {k} step {depth} iter(%t = %start : slice<{rows}x{columns}xf32>) {{
    %from = sub %k, {before} : u32
    %x = {x}
    %y = {y}
    %n = slice_dot %x, %y, {total} : slice<{rows}x{columns}xf32>
    yield %n
  }}
  %two = const 2.0 : f32
  %twos = slice_broadcast %two : slice<{rows}x{columns}xf32>
  %scaled = fma %sum, %twos, %biases : slice<{rows}x{columns}xf32>
  slice_store<clipped> %scaled, @c[%i, %j] : slice<{rows}x{columns}xf32>
}}
"""


class Product:
    """One with edges: c = 2 a b + row, in which each round may double the sum before it."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.rows, self.columns = rng.choice([16, 32, 64, 128]), rng.choice([8, 16, 64, 128])
        self.depth, self.dtype = rng.choice([16, 32, 64]), rng.choice(["f16", "bf16"])
        self.m, self.n, self.k = rng.randint(1, 150), rng.randint(1, 150), rng.randint(1, 150)
        if rng.random() < 0.5:  # whole pieces of 16 bytes
            self.n, self.k = -8 * (-self.n // 8), -8 * (-self.k // 8)
        self.turns = rng.random() < 0.3, rng.random() < 0.3
        self.doubles, self.lower = (
            rng.random() < 0.3,
            rng.choice([0, 0, self.depth, 400]),
        )  # of 400 there is no round
        self.stages, self.units = rng.choice([1, 2, 3, 4]), rng.choice(["subgroups", "warpgroups"])
        self.before = rng.choice([0, 0, 0, 5, 8])  # elements before the first one that the first round begins
        draw = np.random.default_rng(seed)
        self.a, self.b = draw.integers(-3, 4, (self.m, self.k)), draw.integers(-3, 4, (self.k, self.n))
        self.row = draw.integers(-99, 99, self.n).astype(np.float32)

    @property
    def passes(self) -> str:
        return f"lower_slices{{units={self.units} stages={self.stages}}}"

    def program(self) -> Program:
        loads = []
        extents = ((self.rows, self.depth, "%i, %from"), (self.depth, self.columns, "%from, %j"))
        for (height, width, at), name, own, turn in zip(extents, "ab", ("%x", "%y"), self.turns, strict=True):
            text = f"slice_load<filled> @{name}[{at}], %none : slice<{height}x{width}x{self.dtype}>"
            if turn:
                back = ", ".join(at.split(", ")[::-1])
                text = f"slice_load<filled> @{name}[{back}], %none : slice<{width}x{height}x{self.dtype}>\n    {own}t = slice_transpose {own} : slice<{height}x{width}x{self.dtype}>"
            loads.append(text)
        shapes = [
            f"{e[1]}, {e[0]}" if turn else f"{e[0]}, {e[1]}"
            for e, turn in zip(((self.m, self.k), (self.k, self.n)), self.turns, strict=True)
        ]
        text = TEXT.format(
            a=shapes[0], b=shapes[1], n=self.n, k=self.k, x=loads[0], y=loads[1], total="%t", lower=self.lower, before=self.before,
            rows=self.rows, columns=self.columns, depth=self.depth, dtype=self.dtype,
        )  # fmt: skip
        text = text.replace("slice_dot %x,", f"slice_dot %x{'t' * self.turns[0]},")
        text = text.replace(", %y, %t", f", %y{'t' * self.turns[1]}, {'%u' if self.doubles else '%t'}")
        if self.doubles:
            text = text.replace(
                "    %n = ", f"    %u = add %t, %t : slice<{self.rows}x{self.columns}xf32>\n    %n = "
            )
        return parse(text).programs["p"]

    def lowered(self) -> Program:
        module = Module()
        module.add(self.program())
        PassManager(self.passes, verify_each=True).run(module)
        return module.programs["p"]

    @property
    def grid(self) -> tuple[int, int, int]:
        return -(-self.m // self.rows), -(-self.n // self.columns), 1

    def arrays(self) -> list[Array]:
        def stored(x: Array, turn: bool) -> Array:
            x = np.ascontiguousarray(x.T if turn else x)
            return x.astype(np.float16) if self.dtype == "f16" else x.astype(np.float32).view(np.uint32) >> 16

        factors = [stored(x, turn) for x, turn in zip((self.a, self.b), self.turns, strict=True)]
        factors = [x if x.dtype == np.float16 else x.astype(np.uint16) for x in factors]
        return [*factors, self.row, np.zeros((self.m, self.n), np.float32)]

    def expected(self) -> Array:
        total = np.zeros((self.m, self.n))
        a, b = np.pad(self.a, ((0, 0), (self.before, 0))), np.pad(self.b, ((self.before, 0), (0, 0)))
        for k in range(self.lower, self.k, self.depth):
            total = total * (2 if self.doubles else 1) + a[:, k : k + self.depth] @ b[k : k + self.depth]
        return (2 * total + self.row).astype(np.float32)


@pytest.mark.parametrize("seed", quick(range(2000), keep=6))
def test_products_with_edges(seed: int) -> None:
    case = Product(seed)
    program = case.lowered()
    assert any(op.name == "matrix_mul_add" for op in program.walk())
    (c,) = dispatcher("cpu").dispatch(program, case.arrays(), case.grid)
    assert (c.reshape(case.m, case.n) == case.expected()).all()


@pytest.mark.parametrize(
    ("units", "stages", "lower"),
    [
        ("warpgroups", 3, 0),
        ("warpgroups", 1, 0),
        ("subgroups", 3, 0),
        ("subgroups", 4, 64),
        ("subgroups", 2, 0),
    ],
)
def test_the_interpreter_finds_no_fault(units: str, stages: int, lower: int) -> None:
    """In rings of stages, with no round too, factors that are written at once, and sums that leave the matrices by strips: no race, and
    nothing is read that nobody wrote."""
    case = Product(3)
    case.m, case.n, case.k, case.rows, case.columns, case.depth = 20, 24, 60, 32, 32, 16
    draw = np.random.default_rng(1)
    case.a, case.b = draw.integers(-3, 4, (case.m, case.k)), draw.integers(-3, 4, (case.k, case.n))
    case.row, case.units, case.stages, case.lower = np.arange(24, dtype=np.float32), units, stages, lower
    (c,) = dispatcher("ref").dispatch(case.lowered(), case.arrays(), case.grid)
    assert (c.reshape(case.m, case.n) == case.expected()).all()


BIASES = {
    "a row, as one of a block": ("%r = slice_load @v[0] : slice<32xf32>", "%r1 = slice_broadcast %r : slice<1x32xf32>"),
    "a row that is computed with": (
        "%r = slice_load @v[0] : slice<32xf32>",
        "%r0 = slice_broadcast %r : slice<1x32xf32>",
        "%r1 = add %r0, %r0 : slice<1x32xf32>",
    ),
    "places": (
        "%i = slice_iota 0 : slice<32xu32>",
        "%f = cast %i : slice<32xu32> -> slice<32xf32>",
        "%r1 = slice_broadcast %f : slice<1x32xf32>",
    ),
    "a block of one row": ("%r1 = slice_load @w[0, 0] : slice<1x32xf32>",),
    "a column": ("%r1 = slice_load @u[0, 0] : slice<16x1xf32>",),
    "one element": ("%r0 = slice_load @w[0, 5] : slice<1x1xf32>", "%r1 = slice_broadcast %r0 : slice<1x32xf32>"),
    "the largest of each column": (
        "%m = slice_reduce<max> %t[0] : slice<32xf32>",
        "%r1 = slice_broadcast %m : slice<1x32xf32>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("units", ["subgroups", "warpgroups"])
@pytest.mark.parametrize("bias", BIASES.values(), ids=BIASES)
def test_what_is_added_to_a_product_is_repeated_as_often_as_it_must(
    bias: tuple[str, ...], units: str
) -> None:
    lines = "\n  ".join(bias)
    text = f"""vyre 2
program @p workgroup(1) {{
  buffer @a : f16[16, 16] read binding(0)
  buffer @b : f16[16, 32] read binding(1)
  buffer @v : f32[32] read binding(2)
  buffer @w : f32[1, 32] read binding(3)
  buffer @u : f32[16, 1] read binding(4)
  buffer @c : f32[16, 32] write binding(5) live_out
  %x = slice_load @a[0, 0] : slice<16x16xf16>
  %y = slice_load @b[0, 0] : slice<16x32xf16>
  %t = slice_dot %x, %y : slice<16x32xf32>
  {lines}
  %s = slice_broadcast %r1 : slice<16x32xf32>
  %e = add %t, %s : slice<16x32xf32>
  slice_store %e, @c[0, 0]
}}
"""
    draw = np.random.default_rng(1)
    arrays = [draw.integers(-4, 5, shape).astype(dtype) for shape, dtype in (
        ((16, 16), np.float16), ((16, 32), np.float16), (32, np.float32), ((1, 32), np.float32),
        ((16, 1), np.float32), ((16, 32), np.float32),
    )]  # fmt: skip
    module = parse(text)
    (expected,) = dispatcher("ref").dispatch(module.programs["p"], arrays, 1)
    PassManager(f"lower_slices{{units={units}}}", verify_each=True).run(module)
    (c,) = dispatcher("cpu").dispatch(module.programs["p"], arrays, 1)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("first", quick(range(0, 400, 20), keep=2))
def test_a_gpu_has_the_same_sums(first: int) -> None:
    for seed in range(first, first + 20):
        case = Product(seed)
        (c,) = dispatcher("cuda").dispatch(case.lowered(), case.arrays(), case.grid)
        assert (c.reshape(case.m, case.n) == case.expected()).all(), seed


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "lanes"), [(64, 48, 16, 256), (40, 64, 16, 256), (64, 64, 24, 256)]
)
def test_blocks_that_are_no_whole_matrices_stay_with_the_lanes(
    rows: int, columns: int, depth: int, lanes: int
) -> None:
    case = Product(0)
    case.rows, case.columns, case.depth, case.lower, case.turns = rows, columns, depth, 0, (False, False)
    program = case.lowered()
    assert not any(op.name == "matrix_mul_add" for op in program.walk())
    (c,) = dispatcher("cpu").dispatch(program, case.arrays(), case.grid)
    assert (c.reshape(case.m, case.n) == case.expected()).all()


def product_by(depth: int) -> Any:
    @vyre_opt.program
    def product(a: Read[f32[:, :]], b: Read[f32[:, :]], c: Write[f32[:, :]], d: Write[f32[:, :]]):
        total, other = vyre_opt.zeros((16, 16), f32), vyre_opt.zeros((16, 16), f32)
        for k in range(0, 60, depth):
            total += a[0:16, k : k + depth] @ b[k : k + depth, 0:16]
            other = a[0:16, k : k + depth] @ b[k : k + depth, 0:16] + other
        c[0:16, 0:16] = total
        d[0:16, 0:16] = other

    return product


def test_products_follow_one_another_in_f32() -> None:
    """`total + a @ b` has the bits of one sum along the whole depth, however long its blocks are."""
    draw = np.random.default_rng(5)
    a, b = (draw.standard_normal(shape).astype(np.float32) for shape in ((16, 60), (60, 16)))
    results = []
    for depth in (4, 20, 60):
        c, d = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
        product_by(depth)[1](a, b, c, d)
        results += [c.tobytes(), d.tobytes()]
    assert len(set(results)) == 1
    assert abs(np.frombuffer(results[0], np.float32).reshape(16, 16) - a.astype(float) @ b).max() < 1e-5


NESTED = """vyre 2
program @p workgroup(1) {
  buffer @a : f16[32, 96] read binding(0)
  buffer @b : f16[96, 32] read binding(1)
  buffer @n : u32[1] read binding(2)
  buffer @c : f32[32, 32] write binding(3) live_out
  %rounds = load @n[0] : u32
  %zero = const 0.0 : f32
  %start = slice_broadcast %zero : slice<32x32xf32>
  %sum = for %r = 0 to 3 step 1 iter(%t = %start : slice<32x32xf32>) {
    %end = mul %rounds, 32 : u32
    %inner = for %k = 0 to %end step 32 iter(%u = %t : slice<32x32xf32>) {
      %x = slice_load @a[0, %k] : slice<32x32xf16>
      %y = slice_load @b[%k, 0] : slice<32x32xf16>
      %v = slice_dot %x, %y, %u : slice<32x32xf32>
      yield %v
    }
    yield %inner
  }
  slice_store %sum, @c[0, 0] : slice<32x32xf32>
}
"""


@pytest.mark.parametrize("units", ["subgroups", "warpgroups"])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_ring_begins_again(rounds: int, units: str) -> None:
    """Its first copies wait for those that still read what was there."""
    module = parse(NESTED)
    PassManager(f"lower_slices{{units={units} stages=4}}", verify_each=True).run(module)
    draw = np.random.default_rng(2)
    a, b = (draw.integers(-3, 4, shape).astype(np.float16) for shape in ((32, 96), (96, 32)))
    inputs = [a, b, np.array([rounds], np.uint32), np.zeros((32, 32), np.float32)]
    (c,) = dispatcher("ref").dispatch(module.programs["p"], inputs, 1)
    depth = 32 * rounds
    assert (c.reshape(32, 32) == 3 * (a[:, :depth].astype(int) @ b[:depth].astype(int))).all()


def test_a_filled_block_may_be_beyond_the_array() -> None:
    @vyre_opt.program
    def beyond(x: Read[f32[24]], y: Write[f32[32]]):
        y[0:32] = x.filled(7)[32:64]

    x, y = np.zeros(24, np.float32), np.zeros(32, np.float32)
    beyond[1](x, y)
    assert (y == 7).all()


@pytest.mark.parametrize("units", ["none", "subgroups", "warpgroups"])
def test_a_while_carries_sums_beside_a_number(units: str) -> None:
    """Its condition hands on nothing but itself."""
    text = NESTED.replace(
        "%inner = for %k = 0 to %end step 32 iter(%u = %t : slice<32x32xf32>) {",
        "%inner, %last = while iter(%u = %t : slice<32x32xf32>, %k = 0 : u32) {\n      %more = lt %k, %end : u32\n      condition %more\n    } do {",
    ).replace("      yield %v\n", "      %next = add %k, 32 : u32\n      yield %v, %next\n")
    module = parse(text)
    PassManager(f"lower_slices{{units={units}}}", verify_each=True).run(module)
    draw = np.random.default_rng(2)
    a, b = (draw.integers(-3, 4, shape).astype(np.float16) for shape in ((32, 96), (96, 32)))
    inputs = [a, b, np.array([3], np.uint32), np.zeros((32, 32), np.float32)]
    (c,) = dispatcher("cpu").dispatch(module.programs["p"], inputs, 1)
    assert (c.reshape(32, 32) == 3 * (a.astype(int) @ b.astype(int))).all()


@pytest.mark.parametrize("step", [1 << 31, (1 << 32) - 1])
def test_a_step_of_which_few_are_counted_is_not_copied_ahead(step: int) -> None:
    module = parse(NESTED.replace("step 32", f"step {step}"))
    PassManager("lower_slices{units=subgroups stages=4}", verify_each=True).run(module)
    ops = [op.name for op in module.programs["p"].walk()]
    assert "matrix_mul_add" in ops
    assert not any(b.shape[0] == 4 for b in module.programs["p"].buffers.values())


def test_a_product_that_is_too_large_is_told() -> None:
    @vyre_opt.program
    def wide(x: Read[f32[1024, 1]], y: Write[f32]):
        z = x[0:1024, 0:1] @ x[0:1024, 0:1].T
        y[0] = vyre_opt.sum(z)

    with pytest.raises(DiagnosticError, match=r"elements at most(.|\n)*smaller block of the product"):
        wide.text()


@pytest.mark.parametrize("units", ["subgroups", "warpgroups"])
def test_rings_within_one_another_have_tiles_of_their_own(units: str) -> None:
    """Of the same shapes: what the outer loop has copied ahead is still there behind the inner one."""
    text = NESTED.replace("%r = 0 to 3 step 1", "%r = 0 to 96 step 32").replace(
        "    yield %inner\n",
        "    %p = slice_load @a[0, 0] : slice<32x32xf16>\n    %q = slice_load @b[0, 0] : slice<32x32xf16>\n"
        "    %sum2 = slice_dot %p, %q, %inner : slice<32x32xf32>\n    yield %sum2\n",
    )
    module = parse(text)
    PassManager(f"lower_slices{{units={units} stages=3}}", verify_each=True).run(module)
    draw = np.random.default_rng(2)
    a, b = (draw.integers(-3, 4, shape).astype(np.float16) for shape in ((32, 96), (96, 32)))
    whole, first = a.astype(int) @ b.astype(int), a[:, :32].astype(int) @ b[:32].astype(int)
    for target in ("cpu", "ref"):
        inputs = [a, b, np.array([3], np.uint32), np.zeros((32, 32), np.float32)]
        (c,) = dispatcher(target).dispatch(module.programs["p"], inputs, 1)
        assert (c.reshape(32, 32) == 3 * (whole + first)).all()
