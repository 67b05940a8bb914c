"""Products by lanes whose factors are copied ahead: the bits of the program as it is written, whatever the blocks, stages and edges."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from support.quick import quick

from vyre_opt import dispatcher
from vyre_opt.ir import Program, parse
from vyre_opt.passes import PassManager

Array = np.ndarray[Any, Any]

TEXT = """vyre 2
program @p workgroup(1) {{
  buffer @a : {dtype}[?, {k}] read binding(0)
  buffer @b : {dtype}[?, {n}] read binding(1)
  buffer @c : {sums}[?, {n}] write binding(2) live_out
  buffer @d : {sums}[?] write binding(3) live_out
  %w = workgroup_id x
  %v = workgroup_id y
  %count = num_workgroups x
  %i = mul %w, {rows} : u32
  %j = mul %v, {columns} : u32
  %none = const {fill} : {dtype}
  %zero = const {zero} : {sums}
  %start = slice_broadcast %zero : slice<{rows}x{columns}x{sums}>
  %sum = for %k = {lower} to {k} step {depth} iter(%t = %start : slice<{rows}x{columns}x{sums}>) {{
    %x = slice_load<filled> @a[%i, %k], %none : slice<{rows}x{depth}x{dtype}>
    %y = slice_load<filled> @b[%k, %j], %none : slice<{depth}x{columns}x{dtype}>
    %n = slice_dot %x, %y, {total} : slice<{rows}x{columns}x{sums}>
    yield %n
  }}
  slice_store<clipped> %sum, @c[%i, %j] : slice<{rows}x{columns}x{sums}>
  %along = slice_reduce<add> %sum[{axis}] : slice<{reduced}x{sums}>
  %all = slice_reduce<add> %along[0] : {sums}
  %row = mul %v, %count : u32
  %place = add %row, %w : u32
  store %all, @d[%place] : {sums}
}}
"""
KINDS = {
    "f32": ("f32", np.float32), "f64": ("f64", np.float64), "f16": ("f32", np.float16), "i32": ("i32", np.int32),
    "u8": ("u32", np.uint8),
}  # fmt: skip


class Product:
    """One with edges, each round of which may double the sum before it; also the sum of each block of the result."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.dtype = rng.choice([*KINDS, "f32", "f32"])
        self.sums, element = KINDS[self.dtype]
        self.rows, self.columns = rng.choice([1, 8, 16, 24, 32]), rng.choice([4, 6, 16, 32, 33])
        self.depth = rng.choice([1, 4, 6, 8, 16])
        most = 2 * self.rows, 2 * self.columns, 40
        self.m, self.n, self.k = (rng.randint(1, each) for each in most)
        if rng.random() < 0.5:  # whole pieces of 16 bytes
            self.n, self.k = -16 * (-self.n // 16), -16 * (-self.k // 16)
        self.doubles, self.axis = rng.random() < 0.3, rng.randint(0, 1)
        self.lower = rng.choice([0, 0, 0, self.depth, 400])  # of 400 there is no round
        self.schedule = f"lanes={rng.choice([32, 64, 128])} stages={rng.choice([2, 3, 4])} units=none"
        draw = np.random.default_rng(seed)
        shapes = (self.m, self.k), (self.k, self.n)
        if np.dtype(element).kind == "f":
            self.a, self.b = (draw.standard_normal(shape).astype(element) for shape in shapes)
        else:
            self.a, self.b = (draw.integers(0, 99, shape).astype(element) for shape in shapes)

    @property
    def grid(self) -> tuple[int, int, int]:
        return -(-self.m // self.rows), -(-self.n // self.columns), 1

    def program(self, schedule: str = "") -> Program:
        is_float = self.sums in ("f32", "f64")
        zero = "0.0" if is_float else "0"
        text = TEXT.format(
            dtype=self.dtype, sums=self.sums, rows=self.rows, columns=self.columns, depth=self.depth, n=self.n, k=self.k,
            zero=zero, fill="0.0" if self.dtype.startswith("f") else "0", lower=self.lower, axis=self.axis,
            total="%u" if self.doubles else "%t", reduced=(self.columns, self.rows)[self.axis],
        )  # fmt: skip
        if self.doubles:
            block = f"slice<{self.rows}x{self.columns}x{self.sums}>"
            text = text.replace("    %n = ", f"    %u = add %t, %t : {block}\n    %n = ")
        module = parse(text)
        if schedule:
            PassManager(f"lower_slices{{{schedule}}}", verify_each=True).run(module)
        return module.programs["p"]

    def results(self, target: str, program: Program) -> list[bytes]:
        element = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u32": np.uint32}[self.sums]
        outputs = [np.zeros((self.m, self.n), element), np.zeros(self.grid[0] * self.grid[1], element)]
        found = dispatcher(target).dispatch(program, [self.a, self.b, *outputs], self.grid)
        return [each.tobytes() for each in found]


@pytest.mark.parametrize("seed", quick(range(400), keep=5))
def test_bits_are_those_of_the_program_as_it_is_written(seed: int) -> None:
    case = Product(seed)
    expected = case.results("ref", case.program())
    lowered = case.program(case.schedule)
    assert any(op.name in ("copy_async", "copy_wait") for op in lowered.walk())
    for target in ("ref", "cpu"):  # the interpreter finds races, too
        assert case.results(target, lowered) == expected, target


def test_many_elements_of_odd_rows_are_copied_in_a_loop() -> None:
    """Those of 16 bits that an invocation cannot hold in registers from round to round."""
    case = Product(0)
    case.dtype, (case.sums, element) = "f16", KINDS["f16"]
    case.rows, case.columns, case.depth, case.m, case.n, case.k = 4, 32, 32, 3, 35, 67
    case.doubles, case.lower, case.schedule = False, 0, "lanes=8 stages=2 units=none"
    draw = np.random.default_rng(1)
    case.a, case.b = (draw.standard_normal(shape).astype(element) for shape in ((3, 67), (67, 35)))
    lowered = case.program(case.schedule)
    assert case.results("cpu", lowered) == case.results("ref", case.program())


@pytest.mark.gpu
@pytest.mark.parametrize("first", quick(range(0, 400, 20), keep=2))
def test_a_gpu_has_the_same_bits(first: int) -> None:
    for seed in range(first, first + 20):
        case = Product(seed)
        assert case.results("cuda", case.program(case.schedule)) == case.results("ref", case.program()), seed
