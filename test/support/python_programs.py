"""Kernels in Python with their arguments: each construct of the language, and its corner cases."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Kernel, Read, ReadWrite, Write, f32, f64, i8, i32, i64, u8, u16, u32

__all__ = ["CASES", "same_bits"]

WEIGHTS = (0.25, 0.5, 0.25)
HALF = 0.5
N = 70
CORNER = (0, 1)
Matrix = Annotated[f32, :, :]
Cube = Annotated[i32, :, 3, 5]


@vyre.program(workgroup=32)
def saxpy(a: f32, x: Read[f32], y: ReadWrite[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = a * x[i] + y[i]


@vyre.program(workgroup=32)
def floor_division(a: Read[i32], b: Read[i32], q: Write[i32], r: Write[i32]) -> None:
    i = vyre.global_id(0)
    if i < len(a):
        q[i] = a[i] // b[i]
        r[i] = a[i] % b[i]


@vyre.program(workgroup=32)
def floor_division_by_constants(a: Read[i8], out: Write[i8]) -> None:
    i = vyre.global_id(0)
    if i < len(a):
        v = a[i]
        out[i * 6] = v // 3
        out[i * 6 + 1] = v % 3
        out[i * 6 + 2] = v // 4
        out[i * 6 + 3] = v % 4
        out[i * 6 + 4] = v // -3
        out[i * 6 + 5] = v % -3


@vyre.program(workgroup=32)
def float_division(a: Read[f64], b: Read[f64], out: Write[f64]) -> None:
    i = vyre.global_id(0)
    if i < len(a):
        out[3 * i] = a[i] / b[i]
        out[3 * i + 1] = a[i] // b[i]
        out[3 * i + 2] = a[i] % b[i]


@vyre.program(workgroup=32)
def early_return(x: Read[i32], y: Write[i32]) -> None:
    i = vyre.global_id(0)
    if i >= len(y):
        return
    if x[i] < 0:
        y[i] = -1
        return
    if x[i] == 0:
        y[i] = 0
    else:
        if x[i] > 20:
            y[i] = 20
            return
        y[i] = x[i]
    y[i] = x[i] * 2


@vyre.program(workgroup=32)
def loops(x: Read[i32], y: Write[i32]) -> None:
    i = vyre.global_id(0)
    if i >= len(y):
        return
    total = 0
    for k in range(len(x)):
        if x[k] == 7:
            continue
        if x[k] > 50:
            break
        for m in range(3, 0, -1):
            if m == 2 and x[k] % 2 == 0:
                break
            total += m * x[k]
        else_ = total
        total = else_ + 1
    n = 0
    while True:
        n += 1
        if n * n > total or n > 30:
            break
    for k in range(i32(i), -3, -2):
        n += k
    y[i] = total + n


@vyre.program(workgroup=32)
def short_circuits(x: Read[i32], y: Write[i32]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        k = i * 3
        ok = (k < len(x) and x[k] > 0) or i == 5
        inside = 10 <= k < 40
        y[i] = (x[k] if k < len(x) else -9) if not ok else (1 if inside else 2)


@vyre.program(workgroup=32)
def literals(x: Read[f32], n: Read[u16], y: Write[f32], m: Write[u16]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        acc = 0
        count = 0
        for w in vyre.static(WEIGHTS):
            acc = acc + w * x[i]
            count += 1
        y[i] = acc * HALF + math.pi
        m[i] = n[i] + count
        if n[i] > 3:
            m[i] = (n[i] << 2) ^ 0xFF


@vyre.program(workgroup=32)
def chains(x: Read[i32], y: ReadWrite[i32]) -> None:
    i = vyre.global_id(0)
    if i >= len(y):
        return
    before = i32(i) - 1
    y[i] = 0
    if 0 <= before < x[before]:  # x[-1] is never read
        y[i] = 1
    if 0 <= before < 7 < x[before] + 5:
        y[i] += 2


@vyre.program(workgroup=32)
def whole_powers(x: Read[i32], u: Read[u8], y: Write[i32], v: Write[u8]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = x[i] ** 3 + x[i] ** 0 - pow(x[i], 13)
        v[i] = u[i] ** 200 ^ u[i] ** 1


@vyre.program(workgroup=64)
def lists(x: Read[f32], y: Write[f32]) -> None:
    i, k = vyre.global_id(0), 7
    if i >= len(x):
        return
    column = [x[min(i + k, len(x) - 1)] for k in range(3)]
    column += [(x[i], v)[j] for j, v in vyre.static(((0, 1.5), (1, 2.5)))]
    total = column[0]
    for value in column + [v * 2 for v in column]:
        total = total * 0.5 + value
    y[i] = total + k


@vyre.program(workgroup=32)
def tuples(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    a, b = 1, 1
    if i < len(y):
        for _ in range(i % 10):
            a, b = b, a + b
        lo, hi = (x[i], x[0]) if x[i] < x[0] else (x[0], x[i])
        y[i] = f32(a) + hi - lo


@vyre.func
def clamp(v: f32, low: f32, high: f32) -> f32:
    if v < low:
        return low
    if v > high:
        return high
    return v


@vyre.func
def find(x, v):  # type: ignore[no-untyped-def]
    """The first index of a value, and how far the search came."""
    for k in range(len(x)):
        if x[k] == v:
            return i32(k), True
    return -1, False


@vyre.program(workgroup=32)
def functions(x: Read[f32], y: Write[f32], z: Write[i32]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = clamp(x[i], 2, 30.5) + clamp(high=1, low=-1, v=x[i])
        at, is_there = find(x, f32(i) * 2)
        z[i] = at if is_there else -5


@vyre.program(workgroup=32)
def conversions(x: Read[f32], y: Write[i32], z: Write[u8], w: Write[i64]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = i32(x[i] * 1e9)
        z[i] = u8(i32(x[i]) * 77)
        w[i] = i64(i32(i)) - 1 << 33


@vyre.program(workgroup=(8, 4))
def two_dimensions(y: Write[u32]) -> None:
    x, row = vyre.global_id(0), vyre.global_id(1)
    y[row * vyre.global_size(0) + x] = x * 1000 + row + vyre.local_id(1) * vyre.workgroup_id(0)


@vyre.program(workgroup=32)
def histogram(x: Read[u8], bins: ReadWrite[u32]) -> None:
    for k in range(vyre.global_id(0), len(x), vyre.global_size(0)):
        vyre.atomic_add(bins, x[k] // 64, 1)


@vyre.program(workgroup=32)
def powers(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = x[i] ** 2 - abs(-x[i]) * min(x[i], 2.0, 1) + max(1, x[i])


@vyre.func
def corner_sum(x):  # type: ignore[no-untyped-def]
    """The elements of a matrix up to a place, and that place."""
    rows, columns = x.shape
    total = x[CORNER] * 0
    for r in range(min(rows, 3)):
        for c in range(min(columns, 2)):
            total += x[r, c]
    at = (rows - 1, columns - 1)
    return total + x[at], at


@vyre.program(workgroup=(8, 4))
def smoothed(x: Read[Matrix], weights: Read[Annotated[f32, 3]], y: ReadWrite[Matrix]) -> None:
    j, i = vyre.global_id(0), vyre.global_id(1)
    rows, columns = x.shape
    if i >= rows or j >= columns:
        return
    total = 0.0
    for k in range(len(weights)):
        total += weights[k] * x[i, min(j + k, columns - 1)]
    y[i, j] = total + x[max(i, 1) - 1, j]
    y[i, j] *= 0.5
    if i == 0 and j < x.shape[1] - 1:
        total, (r, c) = corner_sum(x)
        y[i, j] -= total + f32(r + c)


@vyre.program(workgroup=(5, 3, 2))
def layers(x: Read[Cube], y: ReadWrite[Cube], counts: ReadWrite[Annotated[u32, 2, :]]) -> None:
    place = vyre.global_id(2), vyre.local_id(1), vyre.local_id(0)
    if place[0] < len(x):
        y[place] += x[place] * i32(x.shape[1] * x.shape[2]) - x[place[0], 2, 4]
        side = 1 if x[place] < 0 else 0
        vyre.atomic_add(counts, (u32(side), place[0]), 1)
        vyre.atomic_add(counts, (0, counts.shape[1] - 1), u32(counts.ndim))


RNG = np.random.default_rng(7)
INTS = RNG.integers(-60, 60, N).astype(np.int32)
FLOATS = RNG.uniform(-50, 50, N).astype(np.float32)
NONZERO = np.where(INTS[::-1] == 0, 3, INTS[::-1]).astype(np.int32)
EDGES = np.array([0.0, -0.0, 1.5, -1.5, 7.0, -7.0, 1e300, np.inf, -np.inf, 0.1, 6.0, 3.0], np.float64)
PAIRS = [np.repeat(EDGES, 12), np.tile(EDGES, 12)]


def zeros(dtype: Any, count: int = N) -> np.ndarray:
    return np.zeros(count, dtype)


def matrix(rows: int, columns: int) -> np.ndarray:
    return np.resize(FLOATS, (rows, columns))


def cube(depth: int) -> np.ndarray:
    return np.resize(INTS, (depth, 3, 5))


CASES: list[tuple[Kernel, tuple[int, ...], Callable[[], list[Any]]]] = [
    (saxpy, (3,), lambda: [2.5, FLOATS, FLOATS[::-1].copy()]),
    (floor_division, (3,), lambda: [INTS, NONZERO, zeros(np.int32), zeros(np.int32)]),
    (
        floor_division_by_constants,
        (8,),
        lambda: [np.arange(-128, 128).astype(np.int8), zeros(np.int8, 6 * 256)],
    ),
    (float_division, (5,), lambda: [*PAIRS, zeros(np.float64, 3 * 144)]),
    (early_return, (3,), lambda: [INTS, zeros(np.int32)]),
    (loops, (3,), lambda: [INTS, zeros(np.int32)]),
    (short_circuits, (3,), lambda: [INTS, zeros(np.int32)]),
    (literals, (3,), lambda: [FLOATS, INTS.astype(np.uint16), zeros(np.float32), zeros(np.uint16)]),
    (chains, (2,), lambda: [np.arange(-9, 55, dtype=np.int32)[::3].copy(), np.zeros(22, np.int32)]),
    (whole_powers, (3,), lambda: [INTS, INTS.astype(np.uint8), zeros(np.int32), zeros(np.uint8)]),
    (lists, (3,), lambda: [FLOATS, zeros(np.float32)]),
    (tuples, (3,), lambda: [FLOATS, zeros(np.float32)]),
    (functions, (3,), lambda: [np.arange(N, dtype=np.float32), zeros(np.float32), zeros(np.int32)]),
    (conversions, (3,), lambda: [FLOATS, zeros(np.int32), zeros(np.uint8), zeros(np.int64)]),
    (two_dimensions, (2, 3), lambda: [zeros(np.uint32, 192)]),
    (histogram, (2,), lambda: [INTS.astype(np.uint8), zeros(np.uint32, 4)]),
    (powers, (3,), lambda: [FLOATS, zeros(np.float32)]),
    (smoothed, (2, 3), lambda: [matrix(9, 13), FLOATS[:3].copy(), matrix(9, 13)]),
    (smoothed, (1, 1), lambda: [matrix(3, 2), FLOATS[:3].copy(), matrix(3, 2)]),
    (layers, (1, 1, 3), lambda: [cube(5), cube(5), np.zeros((2, 7), np.uint32)]),
]


def same_bits(want: np.ndarray, got: np.ndarray) -> np.ndarray:
    """For each element, whether two arrays have the same bits; any two NaNs are the same."""
    both_nan = np.isnan(want) & np.isnan(got) if want.dtype.kind == "f" else np.zeros(want.shape, bool)
    return np.asarray((want.view(f"u{want.itemsize}") == got.view(f"u{got.itemsize}")) | both_nan)
