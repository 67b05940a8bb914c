"""The examples in Python with arguments of any size, and what NumPy says of each."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from vyre_opt.lang import ceil_div

from .modules import load_module

__all__ = ["CASES", "FOLDER", "NAMES", "Call", "Sizes", "call_of", "load"]

FOLDER = Path(__file__).parents[2] / "examples" / "python"
DRAWN, SEED = 3, 30
Sizes = tuple[int, ...]


@cache
def load(name: str) -> ModuleType:
    """The module of an example."""
    return load_module(FOLDER / f"{name}.py")


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments of a kernel over `grid`, or of a pipeline, which has none; the last argument is what it writes.

    `rtol`, `atol`: how far from `expected` that may be; both 0 for equal bits.
    """

    kernel: Any
    grid: tuple[int, ...] | None
    arguments: Sequence[Any]
    expected: np.ndarray
    rtol: float = 0.0
    atol: float = 0.0

    def on(self, target: str | None, arguments: Sequence[Any]) -> Any:
        """What the arguments' last one holds after the kernel ran on them; None: where they are."""
        kernel = self.kernel.options(target=target)
        (kernel if self.grid is None else kernel[self.grid])(*arguments)
        return arguments[-1]

    def copies(self) -> list[Any]:
        """The arguments, with arrays of their own."""
        return [a.copy() if isinstance(a, np.ndarray) else a for a in self.arguments]


def _floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def _poisoned(*shape: int) -> np.ndarray:
    return np.full(shape, np.nan, np.float32)


def _saxpy(rng: np.random.Generator, n: int) -> Call:
    x, y, a = _floats(rng, n), _floats(rng, n), np.float32(rng.uniform(-3, 3))
    return Call(load("saxpy").saxpy, (ceil_div(n, 256),), [float(a), x, y], a * x + y)


def _stencil(rng: np.random.Generator, rows: int, columns: int) -> Call:
    example, x = load("stencil_2d"), _floats(rng, rows, columns)
    grid = (ceil_div(columns, 64), ceil_div(rows, 4 * example.ROWS))
    return Call(example.stencil, grid, [rows, columns, x, _poisoned(rows, columns)], example.reference(x))


def _layernorm(rng: np.random.Generator, rows: int, columns: int) -> Call:
    example, x = load("layernorm"), _floats(rng, rows, columns) * 3 + 1
    weight, bias = _floats(rng, columns), _floats(rng, columns)
    arguments = [1e-5, x, weight, bias, _poisoned(rows, columns)]
    expected = example.reference(1e-5, x, weight, bias)
    # a row of two near-equal numbers is scaled up, and with it the rounding of their mean
    kernel = example.layernorm(64 if columns < 1000 else 256, 4 if columns % 4 == 0 else 1)
    return Call(kernel, (rows,), arguments, expected, 1e-4, 1e-4)


def _softmax(rng: np.random.Generator, rows: int, columns: int) -> Call:
    example, x = load("row_softmax"), _floats(rng, rows, columns) * 4
    return Call(example.softmax, (rows,), [x, _poisoned(rows, columns)], example.reference(x), 1e-5)


def _histogram(rng: np.random.Generator, n: int) -> Call:
    data, counts = rng.integers(0, 256, n, np.uint8), rng.integers(0, 9, 256, np.uint32)
    expected = counts + np.bincount(data, minlength=256).astype(np.uint32)
    return Call(load("byte_histogram").histogram, (1 + n // 3000,), [data, counts], expected)


def _matmul(rng: np.random.Generator, m: int, n: int, k: int) -> Call:
    a, b = _floats(rng, m, k), _floats(rng, k, n)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    grid = (ceil_div(n, 16), ceil_div(m, 16))
    return Call(load("matmul").matmul, grid, [a, b, _poisoned(m, n)], expected, 1e-4, 1e-4)


def _prefix_sum(rng: np.random.Generator, n: int) -> Call:
    x = rng.integers(0, 2**32, n, np.uint32)
    return Call(load("prefix_sum").prefix_sum, None, [x, np.zeros_like(x)], np.cumsum(x, dtype=np.uint32))


def _hex_count(rng: np.random.Generator, n: int) -> Call:
    data = rng.integers(8, 13, n, np.uint8)
    digits = data.tobytes().hex()
    text = np.frombuffer((digits.upper() if n % 2 else digits).encode(), np.uint8)
    expected = np.array([np.count_nonzero(data == 10) + 7], np.uint32)
    return Call(load("hex_count").hex_count, None, [text, np.array([7], np.uint32)], expected)


def _heat(rng: np.random.Generator, n: int) -> Call:
    example, u = load("heat_1d"), _floats(rng, n)
    return Call(example.heat, None, [0.2, u], example.reference(0.2, u))


_CALLS: dict[str, tuple[Callable[..., Call], tuple[Sizes, ...], Sizes]] = {
    # sizes of the edges, and the largest that are drawn
    "saxpy": (_saxpy, ((1,), (256,), (257,)), (3000,)),
    "stencil_2d": (_stencil, ((1, 1), (2, 5), (33, 33)), (70, 90)),
    "layernorm": (_layernorm, ((1, 1), (3, 256), (2, 1025)), (9, 2500)),
    "row_softmax": (_softmax, ((1, 1), (3, 256), (2, 1025)), (9, 2500)),
    "byte_histogram": (_histogram, ((0,), (1,), (3000,)), (9000,)),
    "matmul": (_matmul, ((1, 1, 1), (16, 32, 16), (17, 16, 0)), (50, 50, 50)),
    "prefix_sum": (_prefix_sum, ((1,), (4096,), (4097,)), (20_000,)),
    "hex_count": (_hex_count, ((0,), (1,), (256,)), (6000,)),
    "heat_1d": (_heat, ((1,), (2,), (256,)), (1500,)),
}
NAMES = list(_CALLS)


def _cases() -> list[tuple[str, Sizes]]:
    rng = random.Random(SEED)
    cases = []
    for name, (_, edges, largest) in _CALLS.items():
        drawn = [tuple(rng.randint(1, most) for most in largest) for _ in range(DRAWN)]
        cases += [(name, sizes) for sizes in (*edges, *drawn)]
    return cases


CASES = _cases()
"""Each example at edges of its sizes, and at some that are drawn."""


def call_of(name: str, sizes: Sizes) -> Call:
    """The same arguments for the same sizes."""
    return _CALLS[name][0](np.random.default_rng(sizes), *sizes)
