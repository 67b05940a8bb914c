"""Random kernels as texts of Python: nested control flow, locals that begin as literals, indices, calls.

Each is a module with functions @func and one kernel, which CPython can run too (see python_oracle.py).  Loops are
bounded, indices are within their arrays by a remainder, and shift amounts are small, so that no kernel is at fault.

All arrays have 24 elements, in two kernels of five of several dimensions:

    x: Read[f32[:, 6]]        x[i // 6, i % 6]        a: Read[i32[2, :, 4]]        a[i // 12 % 2, i // 4 % 3, i % 4]
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod

__all__ = ["python_kernel", "shapes_of"]

SHAPES = ((24,), (4, 6), (6, 4), (24, 1), (2, 3, 4))

HEAD = """import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, f32, i32, u32

SIZE = 24
TABLE = (3, 1, 4)


@vyre.func
def mix(a: i32, b: i32) -> i32:
    if a > b:
        return a - b * 2
    for k in range(3):
        if b == k:
            return a + k
        b += 1
    return a ^ b


@vyre.func
def spread(x, at):
    s = 0
    for k in range(3):
        s += SPREAD
    return s, s > 1


@vyre.program(workgroup=8)
def kernel(p: i32, q: f32, ARRAYS):
    i = vyre.global_id(0)
    j = i32(i)
    n = j % 5
    v = q
    flag = True
    count = 0
    total = 0.0
"""


ARRAYS = {"a": "Read[i32]", "x": "Read[f32]", "out": "ReadWrite[i32]", "y": "ReadWrite[f32]"}
"""By name, as those of one dimension are declared."""

SPREAD = {
    1: "x[(at + k) % len(x)]",
    2: "x[(at + k) % len(x), k % x.shape[1]]",
    3: "x[at % x.shape[0], (at + k) % x.shape[1], (k, 0)[0]]",
}
"""An element of an array of so many dimensions."""


def shapes_of(seed: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays of a kernel, by name in the order of its arguments."""
    rng = random.Random(f"shapes {seed}")
    has_several = rng.random() < 0.4
    return {name: rng.choice(SHAPES) if has_several else (24,) for name in ARRAYS}


class _Maker:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.shapes = shapes_of(seed)
        self.lines: list[str] = []
        self.loops = 0
        self.counters: list[str] = []

    def choose(self, *options: str) -> str:
        return self.rng.choice(options)

    # --- arrays

    def head(self) -> str:
        arrays = [f"{name}: {self.declared(name)}" for name in ARRAYS]
        return HEAD.replace("ARRAYS", ", ".join(arrays)).replace("SPREAD", SPREAD[len(self.shapes["x"])])

    def declared(self, name: str) -> str:
        """The type of an array; extents are open or fixed."""
        shape = self.shapes[name]
        if len(shape) == 1:
            return ARRAYS[name]
        extents = ", ".join(":" if self.rng.random() < 0.5 else str(extent) for extent in shape)
        return ARRAYS[name].replace("]", f"[{extents}]]")

    def element(self, name: str, index: str) -> str:
        """The element of a number in row-major order."""
        shape = self.shapes[name]
        if len(shape) == 1:
            return f"{name}[{index}]"
        parts = []
        for number, extent in enumerate(shape):
            inner = prod(shape[number + 1 :])
            size = f"{name}.shape[{number}]" if self.rng.random() < 0.3 else str(extent)
            text = index if index.isidentifier() else f"({index})"
            parts.append(text + (f" // {inner}" if inner > 1 else "") + f" % {size}")
        return f"{name}[{', '.join(parts)}]"

    def anywhere(self, name: str, depth: int) -> str:
        """Some element of an array that is only read."""
        if len(self.shapes[name]) == 1:
            return f"{name}[i % SIZE]"
        return f"{name}[{', '.join(f'{self.integer(depth)} % {extent}' for extent in self.shapes[name])}]"

    # --- expressions

    def integer(self, depth: int = 0) -> str:
        """An i32."""
        if depth > 2 or self.rng.random() < 0.3:
            return self.choose(
                "j",
                "n",
                "count",
                "p",
                *self.counters,
                self.anywhere("a", 3) if depth < 3 else self.element("a", "i % SIZE"),
                self.element("out", "i"),
                str(self.rng.randrange(-9, 40)),
            )
        a, b = self.integer(depth + 1), self.integer(depth + 1)
        shapes: tuple[Callable[[], str], ...]
        shapes = (
            lambda: f"({a} + {b})",
            lambda: f"({a} - {b})",
            lambda: f"({a} * {b})",
            lambda: f"({a} // {self.rng.choice((3, -4, 8))})",
            lambda: f"({a} % {self.rng.choice((5, -7, 16))})",
            lambda: f"({a} & {b})",
            lambda: f"({a} ^ {b})",
            lambda: f"({a} << {self.rng.randrange(4)})",
            lambda: f"({a} >> 2)",
            lambda: f"-({a})",
            lambda: f"~({a})",
            lambda: f"min({a}, {b})",
            lambda: f"max({a}, {b})",
            lambda: f"abs({a})",
            lambda: f"({a} if {self.condition(depth + 1)} else {b})",
            lambda: f"mix(i32({a}), i32({b}))",
            lambda: f"i32({self.number(depth + 1)})",
        )
        # a literal alone has no size: NumPy would compute it with Python's integers
        text = self.rng.choice(shapes)()
        return f"({text} + j)" if depth == 0 else text

    def number(self, depth: int = 0) -> str:
        """An f32."""
        if depth > 2 or self.rng.random() < 0.3:
            return self.choose(
                "v",
                "q",
                "total",
                self.element("x", "i % SIZE"),
                self.element("y", "i"),
                f"{self.rng.randrange(-20, 20) / 4}",
            )
        a, b = self.number(depth + 1), self.number(depth + 1)
        shapes = (
            lambda: f"({a} + {b})",
            lambda: f"({a} - {b})",
            lambda: f"({a} * {b})",
            lambda: f"-({a})",
            lambda: f"abs({a})",
            lambda: f"(v + {a})",
            lambda: f"({a} if {self.condition(depth + 1)} else {b})",
            lambda: f"f32({self.integer(depth + 1)} % 64)",
            lambda: "spread(x, i)[0]",
        )
        return self.rng.choice(shapes)()

    def condition(self, depth: int = 0) -> str:
        kind = self.rng.random()
        if depth > 2 or kind < 0.35:
            sign = self.choose("<", "<=", ">", ">=", "==", "!=")
            return (
                f"(j + {self.integer(3)} {sign} {self.integer(3)})"
                if self.rng.random() < 0.6
                else f"(v + {self.number(3)} {sign} {self.number(3)})"
            )
        if kind < 0.5:
            return self.choose(
                "flag",
                "not flag",
                "spread(x, i)[1]",
                "(0 <= j < 9)",
                f"(i < SIZE and {self.element('a', 'i')} > 3)",
            )
        return f"({self.condition(depth + 1)} {self.choose('and', 'or')} {self.condition(depth + 1)})"

    # --- statements

    def block(self, indent: str, depth: int, in_loop: bool) -> None:
        for _ in range(self.rng.randrange(1, 5)):
            self.statement(indent, depth, in_loop)

    def statement(self, indent: str, depth: int, in_loop: bool) -> None:
        kind = self.rng.random()
        add = self.lines.append
        if depth < 3 and kind < 0.22:
            add(f"{indent}if {self.condition()}:")
            self.block(indent + "    ", depth + 1, in_loop)
            if self.rng.random() < 0.3:
                add(f"{indent}elif {self.condition()}:")
                self.block(indent + "    ", depth + 1, in_loop)
            if self.rng.random() < 0.5:
                add(f"{indent}else:")
                self.block(indent + "    ", depth + 1, in_loop)
        elif depth < 3 and kind < 0.4 and self.loops < 3:
            self.loop(indent, depth)
        elif in_loop and kind < 0.48:
            add(f"{indent}if {self.condition()}:")
            add(f"{indent}    {self.choose('break', 'continue', 'continue')}")
        elif kind < 0.52:
            add(f"{indent}if {self.condition()}:")
            add(f"{indent}    {self.element('y', 'i')} = v")
            add(f"{indent}    return")
        else:
            add(indent + self.simple())

    def loop(self, indent: str, depth: int) -> None:
        name = f"k{self.loops}"
        self.loops += 1
        kind = self.rng.random()
        if kind < 0.25:
            self.lines.append(f"{indent}{name} = 0")
            self.lines.append(f"{indent}while {name} < 4 and {self.condition(1)}:")
            self.lines.append(f"{indent}    {name} += 1")
        elif kind < 0.4:
            self.lines.append(f"{indent}for {name} in vyre.static(TABLE):")
        else:
            span = self.choose("4", "n % 4", "1, 9, 3", "5, 0, -2", "j % 6, -2, -1", "-3, n")
            self.lines.append(f"{indent}for {name} in range({span}):")
        before = list(self.counters)
        self.counters = [*before, f"i32({name})"]
        if 0.25 <= kind < 0.4:
            # a static loop is unrolled, and is not left
            for _ in range(2):
                self.lines.append(f"{indent}    {self.simple()}")
        else:
            self.block(indent + "    ", depth + 1, True)
        self.counters = before

    def simple(self) -> str:
        shapes = (
            lambda: f"n = {self.integer()}",
            lambda: f"j = {self.integer()}",
            lambda: f"count += {self.integer(1)}",
            lambda: f"v = v * 0.5 + {self.number(1)}",
            lambda: f"total += {self.number(1)}",
            lambda: f"flag = {self.condition()}",
            lambda: f"{self.element('out', 'i')} = {self.integer()}",
            lambda: f"{self.element('y', 'i')} = v + {self.number()}",
            lambda: f"n, j = j, {self.integer()}",
            lambda: f"{self.element('out', 'i')} += {self.integer()}",
            lambda: f"print('n', n, {self.integer(1)} + j)",
            lambda: f'print(f"j={{j}} {{v + {self.number(1)}:{self.choose("8", "")}.3f}} {{i:04d}}")',
            lambda: f'assert {self.integer()} % 7 < 7, "never"',
            lambda: f"{self.element('y', 'i')} -= {self.number(1)}",
            lambda: "count, total = count + 1, total + v",
        )
        return self.rng.choice(shapes)()


def python_kernel(seed: int) -> str:
    """The text of a module with the kernel `kernel`, for arrays of 24 elements and three workgroups."""
    maker = _Maker(seed)
    maker.block("    ", 0, False)
    maker.block("    ", 0, False)
    tail = [
        f"    {maker.element('out', 'i')} += n + count + j",
        f"    {maker.element('y', 'i')} += v + total",
    ]
    return maker.head() + "\n".join([*maker.lines, *tail]) + "\n"
