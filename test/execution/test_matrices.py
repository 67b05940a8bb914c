"""Random products of matrices on ref, cpu and a GPU, beside NumPy on whole arrays: every type, shape and layout.

The oracle knows nothing of lanes.  Integers are exact; floats are within the bound that docs/reference/language.md states.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from vyre_opt import ProgramError, parse, run

Array = np.ndarray[Any, Any]
LAYOUTS = ("row_major", "column_major")
TARGETS = ["ref", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def stored_bf16(x: Array) -> Array:
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def tf32(x: Array) -> Array:
    """10 bits of the fraction, ties away from zero; no sample is near the largest numbers."""
    step = np.exp2(np.floor(np.log2(np.abs(x) + (x == 0))) - 10)
    return np.where(x == 0, x, np.sign(x) * np.floor(np.abs(x) / step + 0.5) * step)


class Case:
    """A kernel over a grid of subgroups, each of which adds a product of `steps` matrices along the depth.

    `through`: the factors that a subgroup first copies to workgroup memory, where lines are `pad` elements further apart.
    """

    def __init__(self, seed: int) -> None:
        draw, rng = random.Random(seed), np.random.default_rng(seed)
        self.element = draw.choice(("f16", "bf16", "tf32", "i8"))
        least = {"tf32": 8, "i8": 32}.get(self.element, 16)
        self.depth = least * draw.choice((1, 2))
        self.rows, self.columns = draw.choice(((16, 8), (16, 16), (32, 16), (16, 32), (32, 32)))
        self.subgroups, self.grid = draw.choice((1, 2, 3)), (draw.choice((1, 2)), draw.choice((1, 3)))
        self.layouts = [draw.choice(LAYOUTS) for _ in "abc"]
        self.through = {name: draw.random() < 0.5 for name in "ab"}
        self.pad, self.piece = draw.choice((0, 1, 8, 16)), draw.choice((1, 2, 4, 8))
        self.is_open = draw.random() < 0.3
        m, n = self.rows * self.subgroups * self.grid[0], self.columns * self.grid[1]
        k = self.depth * draw.choice((1, 3))
        if self.element == "i8":
            self.a, self.b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
            self.c = rng.integers(-(2**31), 2**31, (m, n)).astype(np.int32)
        else:
            self.a, self.b, self.c = (
                rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (m, n))
            )
            if self.element == "f16":
                self.a, self.b = self.a.astype(np.float16), self.b.astype(np.float16)

    @property
    def expected(self) -> tuple[Array, Array]:
        """c + a b, and how far from it a result may be."""
        if self.element == "i8":
            exact = self.c + self.a.astype(np.int64) @ self.b.astype(np.int64)
            return exact.astype(np.int32), np.zeros(self.c.shape)
        a, b = (self.narrowed(x).astype(np.float64) for x in (self.a, self.b))
        size = np.abs(a) @ np.abs(b) + np.abs(self.c)
        return a @ b + self.c, (a.shape[1] + 2) * 2.0**-22 * size

    def narrowed(self, x: Array) -> Array:
        if self.element == "bf16":
            return (stored_bf16(x).astype(np.uint32) << 16).view(np.float32)
        return tf32(x) if self.element == "tf32" else x

    @property
    def text(self) -> str:
        stored, total = ("i8", "i32") if self.element == "i8" else (self.element.removeprefix("t"), "f32")
        shapes = [
            "?, ?" if self.is_open else f"{x[0]}, {x[1]}"
            for x in (self.arranged(0, self.a).shape, self.arranged(1, self.b).shape)
        ]
        a, b, c = (
            f"matrix<{r}x{k}x{dtype}, {use}>"
            for r, k, dtype, use in (
                (self.rows, self.depth, self.element, "a"),
                (self.depth, self.columns, self.element, "b"),
                (self.rows, self.columns, total, "acc"),
            )
        )
        of_a, of_b, of_c = (f"<{layout}>" for layout in self.layouts)
        return f"""vyre 2
        program @product workgroup({32 * self.subgroups}) {{
          buffer @a : {stored}[{shapes[0]}] read binding(0)
          buffer @b : {stored}[{shapes[1]}] read binding(1)
          buffer @c : {total}[?, ?] read binding(2)
          buffer @d : {total}[?, ?] write binding(3)
          {self.tile("a", stored)}
          {self.tile("b", stored)}
          %lane = lane_id
          %zero = const 0 : u32
          %w = workgroup_id x
          %s = subgroup_id
          %count = num_subgroups
          %before = mul %w, %count : u32
          %number = add %before, %s : u32
          %rows = const {self.rows} : u32
          %r = mul %number, %rows : u32
          %v = workgroup_id y
          %columns = const {self.columns} : u32
          %n = mul %v, %columns : u32
          %k = len @a, {int(self.layouts[0] == "row_major")}
          %start = matrix_load{of_c} @c[{self.at(2, "%r", "%n")}] : {c}
          %sum = for %i = 0 to %k step {self.depth} iter(%acc = %start : {c}) {{
            {self.copied("a", stored, "%r", "%i")}
            {self.copied("b", stored, "%i", "%n")}
            copy_wait
            barrier subgroup
            %x = matrix_load{of_a} @{self.place("a", "%r", "%i")} : {a}
            %y = matrix_load{of_b} @{self.place("b", "%i", "%n")} : {b}
            barrier subgroup
            %z = matrix_mul_add %x, %y, %acc : {c}
            yield %z
          }}
          matrix_store{of_c} %sum, @d[{self.at(2, "%r", "%n")}] : {c}
        }}"""

    def box(self, name: str) -> tuple[int, int]:
        """Lines of a factor in memory, and their elements."""
        rows, columns = (self.rows, self.depth) if name == "a" else (self.depth, self.columns)
        return (rows, columns) if self.layouts["ab".index(name)] == "row_major" else (columns, rows)

    def tile(self, name: str, stored: str) -> str:
        lines, width = self.box(name)
        shape = f"{self.subgroups}, {lines}, {width + self.pad}"
        return f"buffer @t{name} : {stored}[{shape}] workgroup" if self.through[name] else ""

    def place(self, name: str, row: str, column: str) -> str:
        if self.through[name]:
            return f"t{name}[%s, %zero, %zero]"
        return f"{name}[{self.at('ab'.index(name), row, column)}]"

    def copied(self, name: str, stored: str, row: str, column: str) -> str:
        """A lane copies every 32nd piece of the factor."""
        if not self.through[name]:
            return ""
        lines, width = self.box(name)
        piece = min(self.piece, width)
        moved = stored if piece == 1 else f"vec<{piece} x {stored}>"
        line, own = self.at("ab".index(name), row, column).split(", ")
        return f"""
            for %p{name} = %lane to {lines * width // piece} step 32 : u32 {{
              %across{name} = const {width // piece} : u32
              %size{name} = const {piece} : u32
              %line{name} = div %p{name}, %across{name} : u32
              %turn{name} = rem %p{name}, %across{name} : u32
              %own{name} = mul %turn{name}, %size{name} : u32
              %from{name} = add {line}, %line{name} : u32
              %at{name} = add {own}, %own{name} : u32
              %v{name} = load @{name}[%from{name}, %at{name}] : {moved}
              copy_async %v{name}, @t{name}[%s, %line{name}, %own{name}] : {moved}
            }}"""

    def at(self, number: int, row: str, column: str) -> str:
        return f"{row}, {column}" if self.layouts[number] == "row_major" else f"{column}, {row}"

    def arranged(self, number: int, x: Array) -> Array:
        return np.ascontiguousarray(x if self.layouts[number] == "row_major" else x.T)

    def run(self, target: str) -> Array:
        a, b = (stored_bf16(x) if self.element == "bf16" else x for x in (self.a, self.b))
        arrays = [self.arranged(0, a), self.arranged(1, b), self.arranged(2, self.c)]
        outputs = run(self.text, [*arrays, np.zeros_like(arrays[2])], grid=self.grid, target=target)
        return self.arranged(2, outputs["d"])


def check(seeds: Iterable[int], target: str) -> None:
    for seed in seeds:
        case = Case(seed)
        expected, bound = case.expected
        error = np.abs(case.run(target).astype(np.float64) - expected)
        assert (error <= bound).all(), f"seed {seed}: {error.max()} off"


@pytest.mark.parametrize("target", TARGETS)
def test_products(target: str) -> None:
    """Of each type; both layouts of each factor, through workgroup memory and without it."""
    check((2, 4, 5, 7, 10, 11), target)


@pytest.mark.campaign
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("part", range(20))
def test_many_products(target: str, part: int) -> None:
    check(range(100 * part, 100 * part + 100), target)


@pytest.mark.parametrize("target", TARGETS)
def test_rounding_to_tf32(target: str) -> None:
    """Ties away from zero; infinities and NaNs stay."""
    text = """vyre 2
    program @p workgroup(32) {
      buffer @a : f32[16, 8] read binding(0)
      buffer @b : f32[8, 8] read binding(1)
      buffer @c : f32[16, 8] write binding(2)
      %zero = const 0 : u32
      %x = matrix_load @a[%zero, %zero] : matrix<16x8xtf32, a>
      %y = matrix_load @b[%zero, %zero] : matrix<8x8xtf32, b>
      %z = const 0.0 : matrix<16x8xf32, acc>
      %r = matrix_mul_add %x, %y, %z : matrix<16x8xf32, acc>
      matrix_store %r, @c[%zero, %zero] : matrix<16x8xf32, acc>
    }"""
    a = np.zeros((16, 8), np.float32)
    a[:6, 0] = [1 + 2**-11, 1 - 2**-12, -1 - 2**-11, np.inf, np.nan, 1 + 2**-11 - 2**-23]
    b = np.zeros((8, 8), np.float32)
    b[0] = 1
    got = run(text, [a, b, np.zeros((16, 8), np.float32)], grid=1, target=target)["c"][:6, 0]
    np.testing.assert_array_equal(got, np.float32([1 + 2**-10, 1.0, -1 - 2**-10, np.inf, np.nan, 1.0]))


STORE = """vyre 2
program @p workgroup(32) {
  buffer @x : f32[?, ?] read binding(0)
  buffer @y : f32[?, ?] read_write binding(1) live_in live_out
  %zero = const 0 : u32
  %eight = const 8 : u32
  %m = matrix_load @x[%zero, %eight] : matrix<16x8xf32, acc>
  matrix_store %m, @y[%zero, %zero] : matrix<16x8xf32, acc>
  BETWEEN
  %lane = lane_id
  %v = load @y[%zero, %zero] : f32
  %l = cast %v : f32 -> u32
}"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_matrix_that_is_partly_outside_is_told(target: str) -> None:
    y = np.zeros((16, 8), np.float32)
    with pytest.raises(ProgramError) as info:
        run(STORE.replace("BETWEEN", ""), [np.ones((16, 15), np.float32), y], grid=1, target=target)
    assert "matrix_load out of bounds of @x: 16 x 8 elements from index (0, 8), shape (16, 15)" in str(
        info.value
    )


def test_lanes_wait_for_what_a_subgroup_stores() -> None:
    """Which lane stores an element is open, so a load needs a barrier, even by the lane that happens to have stored it."""
    arrays = [np.ones((16, 16), np.float32), np.zeros((16, 8), np.float32)]
    with pytest.raises(ProgramError, match="data race on @y"):
        run(STORE.replace("BETWEEN", ""), arrays, grid=1, target="ref")
    outputs = run(STORE.replace("BETWEEN", "barrier subgroup"), arrays, grid=1, target="ref")
    assert (outputs["y"] == 1).all()


def test_two_subgroups_at_one_place_race() -> None:
    text = STORE.replace("workgroup(32)", "workgroup(64)").replace("BETWEEN", "barrier workgroup")
    with pytest.raises(ProgramError, match="data race on @y"):
        run(text, [np.ones((16, 16), np.float32), np.zeros((16, 8), np.float32)], grid=1, target="ref")


def test_a_matrix_of_what_nobody_wrote_is_told() -> None:
    text = """vyre 2
    program @p workgroup(32) {
      buffer @t : f32[16, 16] workgroup
      buffer @y : f32[16, 8] write binding(0)
      %zero = const 0 : u32
      %one = const 1.0 : matrix<16x8xf32, acc>
      matrix_store %one, @t[%zero, %zero] : matrix<16x8xf32, acc>
      barrier subgroup
      %four = const 4 : u32
      %m = matrix_load @t[%zero, %four] : matrix<16x8xf32, acc>
      matrix_store %m, @y[%zero, %zero] : matrix<16x8xf32, acc>
    }"""
    assert parse(text).programs
    with pytest.raises(ProgramError, match="which nothing has written"):
        run(text, [np.zeros((16, 8), np.float32)], grid=1, target="ref")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_branch_that_one_subgroup_takes(target: str, layout: str) -> None:
    """The others move nothing, though their places are out of bounds; a loop has its own number of turns for each."""
    text = f"""vyre 2
    program @p workgroup(96) {{
      buffer @x : i8[64, 32] read binding(0)
      buffer @y : i32[16, 16] write binding(1)
      %s = subgroup_id
      %one = const 1 : u32
      %zero = const 0 : u32
      %much = const 16 : u32
      %r = mul %s, %much : u32
      %c = mul %r, %s : u32
      %own = eq %s, %one : u32
      %start = const 0 : matrix<16x16xi32, acc>
      if %own {{
        %sum = for %k = 0 to %s step 1 iter(%acc = %start : matrix<16x16xi32, acc>) {{
          %m = matrix_load<{layout}> @x[%r, %c] : matrix<16x16xi8, acc>
          %wide = cast %m : matrix<16x16xi8, acc> -> matrix<16x16xi32, acc>
          %next = add %acc, %wide : matrix<16x16xi32, acc>
          yield %next
        }}
        matrix_store<{layout}> %sum, @y[%zero, %zero] : matrix<16x16xi32, acc>
      }}
    }}"""
    x = np.random.default_rng(0).integers(-128, 128, (64, 32)).astype(np.int8)
    y = run(text, [x, np.zeros((16, 16), np.int32)], grid=1, target=target)["y"]
    np.testing.assert_array_equal(y, x[16:32, 16:32])
