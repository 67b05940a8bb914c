"""Random pipelines of named kernels and programs over buffers of one to three dimensions, each with what NumPy computes.

A value is a matrix of `rows` by `columns`, declared in one of the forms that hold it: as such, with rows in two groups, or
flat.  Kernels take any form, as stages or in programs; programs with indices those that they are written for.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

__all__ = ["ShapedPipeline", "shaped_pipeline"]

UNARY = {
    "u32": ("scan.prefix", "math.softmax_step", "mix", "flat"),
    "f32": ("math.softmax", "mix", "flat", "matmul"),
}

PROGRAMS = """
program @mix_T workgroup(8, 4) {
  buffer @x : T[?, ?] read  binding(0)
  buffer @y : T[?, ?] write binding(1)
  %c = global_id x
  %r = global_id y
  %rows = len @x, 0
  %columns = len @x, 1
  %in_row = lt %c, %columns : u32
  %in_column = lt %r, %rows : u32
  %inside = and %in_row, %in_column : bool
  if %inside {
    %next = add %c, 1 : u32
    %around = rem %next, %columns : u32
    %a = load @x[%r, %c] : T
    %b = load @x[%r, %around] : T
    %v = sub %a, %b : T
    store %v, @y[%r, %c] : T
  }
}
program @flat_T workgroup(32) {
  buffer @x : T[?] read  binding(0)
  buffer @y : T[?] write binding(1)
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %a = load @x[%i] : T
    %v = add %a, %a : T
    store %v, @y[%i] : T
  }
}
program @sum_T workgroup(32) {
  buffer @x : T[?, ?] read  binding(0)
  buffer @y : T[?]    write binding(1)
  %r = global_id x
  %rows = len @x, 0
  %columns = len @x, 1
  %inside = lt %r, %rows : u32
  if %inside {
    %sum = for %c = 0 to %columns step 1 iter(%acc = ZERO : T) {
      %v = load @x[%r, %c] : T
      %next = add %acc, %v : T
      yield %next
    }
    store %sum, @y[%r] : T
  }
}
"""


@dataclass(frozen=True)
class ShapedPipeline:
    """`expected`: the outputs, in the shapes of their declarations."""

    text: str
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]


@dataclass(frozen=True)
class _Value:
    name: str
    shape: tuple[int, ...]
    dtype: str
    matrix: np.ndarray


@dataclass
class _Drawing:
    rng: random.Random
    declared: list[str] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    programs: list[str] = field(default_factory=list)
    values: list[_Value] = field(default_factory=list)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    expected: dict[str, np.ndarray] = field(default_factory=dict)

    def value(self, matrix: np.ndarray, access: str = "", shape: tuple[int, ...] = ()) -> _Value:
        name, dtype = f"b{len(self.declared)}", "u32" if matrix.dtype == np.uint32 else "f32"
        shape = shape or self.rng.choice(_forms(matrix))
        if access == "read":
            self.inputs[name] = matrix.reshape(shape)
        elif not access and self.rng.random() < 0.5:
            access = "write"
            self.expected[name] = matrix.reshape(shape)
        is_open = access == "read" and self.rng.random() < 0.3
        extents = ", ".join("?" if is_open else str(extent) for extent in shape)
        self.declared.append(f"  buffer @{name} : {dtype}[{extents}] {access}".rstrip())
        value = _Value(name, shape, dtype, matrix)
        self.values.append(value)
        return value

    def kernel(self, name: str, values: list[_Value], params: dict[str, int]) -> None:
        """A kernel as a stage, or in a program that is launched."""
        shown = {
            key: value
            for key, value in params.items()
            if self.rng.random() < 0.5 or not _is_said(key, name, values)
        }
        attrs = ", ".join(f"{key} = {value}" for key, value in shown.items())
        if self.rng.random() < 0.6:
            use = f"{name}({', '.join('@' + v.name for v in values)})"
            self.stages.append(f"  {use} {{{attrs}}}" if attrs else f"  {use}")
            return
        own = f"k{len(self.programs)}"
        text = [f"program @{own} workgroup(32) {{"]
        for number, value in enumerate(values):
            extents = ", ".join(map(str, value.shape))
            access = "write" if value is values[-1] else "read"
            text.append(f"  buffer @a{number} : {value.dtype}[{extents}] {access} binding({number})")
        use = f"{name}({', '.join(f'@a{number}' for number in range(len(values)))})"
        text += [f"  {use} {{{attrs}}}" if attrs else f"  {use}", "}"]
        self.programs.append("\n".join(text))
        names = ", ".join("@" + v.name for v in values)
        self.stages.append(f"  launch @{own} grid({self.rng.randint(1, 3)}) ({names})")

    def launch(self, program: str, grid: str, x: _Value, y: _Value) -> None:
        self.stages.append(f"  launch @{program}_{x.dtype} grid({grid}) (@{x.name}, @{y.name})")

    def stage(self) -> None:
        x = self.rng.choice(self.values)
        does = self.rng.choice((*UNARY[x.dtype], "sum", "matvec"))
        m = x.matrix
        rows, columns = m.shape
        if does == "mix" and len(x.shape) == 2:
            y = self.value(m - np.roll(m, -1, 1), shape=(rows, columns))
            self.launch("mix", f"{-(-columns // 8)}, {-(-rows // 4)}", x, y)
        elif does == "flat" and len(x.shape) == 1:
            self.launch("flat", str(-(-m.size // 32)), x, self.value(m + m, shape=(m.size,)))
        elif does == "sum" and len(x.shape) == 2:
            total = m.sum(1, dtype=m.dtype).reshape(1, rows)
            self.launch("sum", str(-(-rows // 32)), x, self.value(total, shape=(rows,)))
        elif does == "scan.prefix":
            self.kernel(does, [x, self.value(np.cumsum(m.reshape(-1), dtype=np.uint32).reshape(m.shape))], {})
        elif does == "math.softmax_step":
            total = max(int(m.sum(dtype=np.uint64)), 1)
            share = ((m.astype(np.uint64) << np.uint64(16)) // np.uint64(total)).astype(np.uint32)
            self.kernel(does, [x, self.value(share)], {})
        elif does == "math.softmax":
            powers = np.exp(m.astype(np.float64) - m.max(1, keepdims=True))
            y = self.value((powers / powers.sum(1, keepdims=True)).astype(np.float32))
            self.kernel(does, [x, y], {"columns": columns})
        elif does == "matmul":
            width = self.rng.randint(1, 9)
            b = self.value(_drawn(self.rng, (columns, width), "f32"), "read")
            y = self.value((m.astype(np.float64) @ b.matrix).astype(np.float32))
            self.kernel("math.matmul", [x, b, y], {"depth": columns, "columns": width})
        elif does == "matvec" and x.dtype == "u32":
            v = self.value(_drawn(self.rng, (1, columns), "u32"), "read")
            products = m.view(np.int32).astype(np.int64) * v.matrix.view(np.int32)
            y = self.value((products >> 16).sum(1).astype(np.uint32).reshape(1, rows))
            self.kernel("math.matvec_fixed", [x, v, y], {})


def shaped_pipeline(seed: int) -> ShapedPipeline:
    rng = random.Random(f"shaped kernels {seed}")
    drawing = _Drawing(rng)
    shape = rng.randint(1, 9), rng.choice((1, 2, 3, 4, 7, 8, 16, 33, 64))
    for dtype in ("u32", "f32"):
        drawing.value(_drawn(rng, shape, dtype), "read")
    while len(drawing.stages) < rng.randint(3, 6) or not drawing.expected:
        drawing.stage()
    own = "".join(
        PROGRAMS.replace("ZERO", zero).replace("T", t) for t, zero in (("u32", "0"), ("f32", "0.0"))
    )
    body = "\n".join((*drawing.declared, *drawing.stages))
    text = "\n".join(("vyre 2", own, *drawing.programs, f"pipeline @main {{\n{body}\n}}\n"))
    return ShapedPipeline(text, drawing.inputs, drawing.expected)


def _drawn(rng: random.Random, shape: tuple[int, int], dtype: str) -> np.ndarray:
    drawn = np.random.default_rng(rng.getrandbits(32))
    if dtype == "u32":
        return drawn.integers(0, 1 << 32, shape, np.uint32)
    return drawn.standard_normal(shape).astype(np.float32)


def _forms(matrix: np.ndarray) -> list[tuple[int, ...]]:
    """The shapes that a value may be declared with."""
    rows, columns = matrix.shape
    forms: list[tuple[int, ...]] = [(rows, columns), (rows, columns), (rows * columns,)]
    return [*forms, (2, rows // 2, columns)] if rows % 2 == 0 else forms


def _is_said(param: str, kernel: str, values: list[_Value]) -> bool:
    """Whether the last extent of a buffer says a parameter."""
    saying = {"depth": values[:1], "columns": values if kernel == "math.softmax" else values[1:]}[param]
    return any(len(value.shape) > 1 for value in saying)
