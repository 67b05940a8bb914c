"""Kernels as one writes them first, from the tutorials of Triton, Numba, Warp, CuPy and PyTorch: what natural.py measures.

No tile, no vector, no schedule: an element an invocation, or a row a workgroup by turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

import vyre_opt as vyre
from vyre_opt import Read, ReadWrite, Write, f16, f32, global_id, i32, u8, u32

Matrix = Annotated[f32, :, :]
LANES = 256
MANDELBROT_STEPS = 32


@vyre.program
def affine(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = x[i] * 2.0 + 1.0


@vyre.program
def add(a: Read[f32], b: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(y):
        y[i] = a[i] + b[i]


@vyre.program
def saxpy(a: f32, x: Read[f32], y: ReadWrite[f32]) -> None:
    i = global_id(0)
    if i < len(y):
        y[i] = a * x[i] + y[i]


@vyre.program
def scale_f16(x: Read[f16], y: Write[f16]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = x[i] * f16(2.0)


@vyre.program
def widen(x: Read[u8], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = f32(x[i])


@vyre.program
def narrow(x: Read[f32], y: Write[u8]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = u8(min(max(vyre.round_even(x[i] * 255.0), 0.0), 255.0))


@vyre.program
def exp(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = vyre.exp(x[i])


@vyre.program
def log(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = vyre.log(x[i])


@vyre.program
def rsqrt(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = vyre.rsqrt(x[i])


@vyre.program
def sin(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = vyre.sin(x[i])


@vyre.program
def tanh(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = vyre.tanh(x[i])


@vyre.program
def erf(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = vyre.erf(x[i])


@vyre.program
def pow(a: Read[f32], b: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(y):
        y[i] = vyre.pow(a[i], b[i])


@vyre.func
def gelu_of(v: Any) -> Any:
    return 0.5 * v * (1.0 + vyre.tanh(0.7978845608 * (v + 0.044715 * v * v * v)))


@vyre.program
def gelu(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = gelu_of(x[i])


@vyre.program
def polynomial(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        total = 0.0
        for k in range(8, 0, -1):
            total = total * x[i] + f32(k)
        y[i] = total


@vyre.program
def mandelbrot(re: Read[f32], im: Read[f32], steps: Write[i32]) -> None:
    i = global_id(0)
    if i < len(steps):
        x, y, n = 0.0, 0.0, 0
        while n < MANDELBROT_STEPS and x * x + y * y <= 4.0:
            x, y = x * x - y * y + re[i], 2.0 * x * y + im[i]
            n += 1
        steps[i] = n


@vyre.program(workgroup=(32, 8))
def add_bias(x: Read[Matrix], bias: Read[f32], y: Write[Matrix]) -> None:
    j, i = global_id(0), global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] + bias[j]


@vyre.program(workgroup=(32, 8))
def gelu_rows(x: Read[Matrix], y: Write[Matrix]) -> None:
    j, i = global_id(0), global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = gelu_of(x[i, j])


@vyre.pipeline
def bias_gelu(x: Read[Matrix], bias: Read[f32], y: Write[Matrix]) -> None:
    biased = vyre.buffer(f32, (len(x), x.shape[1]))
    add_bias[vyre.ceil_div(x.shape[1], 32), vyre.ceil_div(len(x), 8)](x, bias, biased)
    gelu_rows[vyre.ceil_div(x.shape[1], 32), vyre.ceil_div(len(x), 8)](biased, y)


@vyre.program
def relu(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = max(x[i], 0.0)


@vyre.pipeline
def residual(x: Read[f32], skip: Read[f32], y: Write[f32]) -> None:
    positive = vyre.buffer(f32, len(x))
    relu[vyre.ceil_div(len(x), 256)](x, positive)
    add[vyre.ceil_div(len(x), 256)](positive, skip, y)


@vyre.program
def smooth(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i > 0 and i + 1 < len(x):
        y[i] = (x[i - 1] + x[i] + x[i + 1]) * 0.25


@vyre.program(workgroup=(32, 8))
def stencil(x: Read[Matrix], y: Write[Matrix]) -> None:
    j, i = global_id(0), global_id(1)
    rows, columns = x.shape
    if i < rows and j < columns:
        if i > 0 and i + 1 < rows and j > 0 and j + 1 < columns:
            y[i, j] = 0.2 * (x[i, j] + x[i, j - 1] + x[i, j + 1] + x[i - 1, j] + x[i + 1, j])
        else:
            y[i, j] = x[i, j]


@vyre.program(workgroup=(32, 8))
def add_rows(a: Read[Matrix], b: Read[Matrix], y: Write[Matrix]) -> None:
    j, i = global_id(0), global_id(1)
    if i < a.shape[0] and j < a.shape[1]:
        y[i, j] = a[i, j] + b[i, j]


@vyre.program(workgroup=(32, 8))
def transpose(x: Read[Matrix], y: Write[Matrix]) -> None:
    j, i = global_id(0), global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        y[j, i] = x[i, j]


@vyre.program
def gather(x: Read[f32], index: Read[i32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(index):
        y[i] = x[index[i]]


@vyre.program(workgroup=LANES)
def row_sum(x: Read[Matrix], y: Write[f32]) -> None:
    partial = vyre.shared(f32, LANES)
    row, lane = vyre.workgroup_id(0), vyre.local_id(0)
    total = 0.0
    for j in range(lane, x.shape[1], LANES):
        total += x[row, j]
    partial[lane] = total
    vyre.barrier()
    for k in vyre.static((128, 64, 32, 16, 8, 4, 2, 1)):
        if lane < k:
            partial[lane] += partial[lane + k]
        vyre.barrier()
    if lane == 0:
        y[row] = partial[0]


@vyre.program(workgroup=LANES)
def row_max(x: Read[Matrix], y: Write[f32]) -> None:
    partial = vyre.shared(f32, LANES // 32)
    row, lane = vyre.workgroup_id(0), vyre.local_id(0)
    peak = -math.inf
    for j in range(lane, x.shape[1], LANES):
        peak = max(peak, x[row, j])
    peak = vyre.subgroup_reduce(peak, "max")
    if vyre.lane_id() == 0:
        partial[vyre.subgroup_id()] = peak
    vyre.barrier()
    if lane == 0:
        for k in range(LANES // 32):
            peak = max(peak, partial[k])
        y[row] = peak


@vyre.func
def subgroup_sum(value: Any) -> Any:
    for k in vyre.static((16, 8, 4, 2, 1)):
        value += vyre.subgroup_shuffle(value, k, "xor")
    return value


@vyre.program(workgroup=32)
def softmax(x: Read[Matrix], y: Write[Matrix]) -> None:
    row, lane, columns = vyre.workgroup_id(0), vyre.lane_id(), x.shape[1]
    peak, total = -math.inf, 0.0
    for j in range(lane, columns, 32):
        peak = max(peak, x[row, j])
    peak = vyre.subgroup_reduce(peak, "max")
    for j in range(lane, columns, 32):
        total += vyre.exp(x[row, j] - peak)
    total = subgroup_sum(total)
    for j in range(lane, columns, 32):
        y[row, j] = vyre.exp(x[row, j] - peak) / total


@vyre.func
def workgroup_sum(value: Any) -> Any:
    partial = vyre.shared(f32, LANES // 32)
    value = subgroup_sum(value)
    if vyre.lane_id() == 0:
        partial[vyre.subgroup_id()] = value
    vyre.barrier()
    total = 0.0
    for k in range(LANES // 32):
        total += partial[k]
    return total


@vyre.program(workgroup=LANES)
def rms_norm(eps: f32, x: Read[Matrix], weight: Read[f32], y: Write[Matrix]) -> None:
    row, lane, columns = vyre.workgroup_id(0), vyre.local_id(0), x.shape[1]
    squares = 0.0
    for j in range(lane, columns, LANES):
        squares += x[row, j] * x[row, j]
    scale = vyre.rsqrt(workgroup_sum(squares) / f32(columns) + eps)
    for j in range(lane, columns, LANES):
        y[row, j] = x[row, j] * scale * weight[j]


@vyre.program(workgroup=LANES)
def layernorm(eps: f32, x: Read[Matrix], weight: Read[f32], bias: Read[f32], y: Write[Matrix]) -> None:
    row, lane, columns = vyre.workgroup_id(0), vyre.local_id(0), x.shape[1]
    total, squares = 0.0, 0.0
    for j in range(lane, columns, LANES):
        total += x[row, j]
    mean = workgroup_sum(total) / f32(columns)
    for j in range(lane, columns, LANES):
        squares += (x[row, j] - mean) * (x[row, j] - mean)
    scale = 1.0 / vyre.sqrt(workgroup_sum(squares) / f32(columns) + eps)
    for j in range(lane, columns, LANES):
        y[row, j] = (x[row, j] - mean) * scale * weight[j] + bias[j]


@vyre.program
def lane_sum(x: Read[Matrix], y: Write[f32]) -> None:
    row = global_id(0)
    if row < len(x):
        total = 0.0
        for j in range(x.shape[1]):
            total += x[row, j]
        y[row] = total


@vyre.program
def histogram(x: Read[u8], bins: ReadWrite[u32]) -> None:
    i = global_id(0)
    if i < len(x):
        vyre.atomic_add(bins, x[i], 1)


@vyre.program
def count_zeros(x: Read[u8], total: ReadWrite[u32]) -> None:
    i = global_id(0)
    if i < len(x) and x[i] == 0:
        vyre.atomic_add(total, 0, 1)


@vyre.program
def dot_of_lanes(x: Read[f32], y: Read[f32], total: ReadWrite[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        vyre.atomic_add(total, 0, x[i] * y[i], fastmath="reassoc")


@vyre.program
def dot_of_subgroups(x: Read[f32], y: Read[f32], total: ReadWrite[f32]) -> None:
    i = global_id(0)
    product = vyre.subgroup_reduce(x[i] * y[i] if i < len(x) else 0.0, "add")
    if vyre.lane_id() == 0:
        vyre.atomic_add(total, 0, product, fastmath="reassoc")


@vyre.program(workgroup=(16, 16))
def matmul(a: Read[Matrix], b: Read[Matrix], c: Write[Matrix]) -> None:
    column, row = global_id(0), global_id(1)
    if row < len(c) and column < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


Arguments = Callable[[np.random.Generator, int], list[Any]]
Grid = Callable[[tuple[int, ...]], int | tuple[int, int]]


def _elements(shape: tuple[int, ...]) -> int:
    return vyre.ceil_div(math.prod(shape), 256)


def _tiles(shape: tuple[int, ...]) -> tuple[int, int]:
    return vyre.ceil_div(shape[1], 32), vyre.ceil_div(shape[0], 8)


def _squares(shape: tuple[int, ...]) -> tuple[int, int]:
    return vyre.ceil_div(shape[1], 16), vyre.ceil_div(shape[0], 16)


@dataclass(frozen=True, slots=True)
class Natural:
    """A kernel.  `arguments`: for so many elements, arrays of NumPy and numbers; the last is the result.

    `grid`: workgroups for the shape of the first array; None of a pipeline.  `share`: of the most elements, for what
    computes much with each.  `tolerance`: relative, in the 2-norm.  `suffix`: of its name, behind that of the function.
    """

    kernel: Any
    arguments: Arguments
    grid: Grid | None = _elements
    share: float = 1.0
    tolerance: float = 1e-5
    suffix: str = ""

    @property
    def name(self) -> str:
        return self.peers_name + self.suffix

    @property
    def peers_name(self) -> str:
        """The name of the same kernel by other libraries."""
        return str(self.kernel.function.__name__)

    def bound(self, arrays: list[Any], target: str | None = None) -> Callable[[], Any]:
        """The call that a user writes; arrays say where it runs, unless there is a `target`."""
        kernel = self.kernel.options(target=target) if target else self.kernel
        if self.grid is None:
            return lambda: kernel(*arrays)
        grid = self.grid(next(tuple(a.shape) for a in arrays if hasattr(a, "shape")))
        return lambda: kernel[grid](*arrays)


RANDOM = 1 << 20
"""Numbers that are drawn; longer arrays repeat them."""


def _uniform(rng: np.random.Generator, shape: int | tuple[int, ...], low: float, high: float) -> np.ndarray:
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    drawn = rng.uniform(low, high, min(count, RANDOM)).astype(np.float32)
    return np.resize(drawn, shape)


def _octets(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.resize(rng.integers(0, 256, min(count, RANDOM), np.uint8), count)


def _shape(count: int) -> tuple[int, int]:
    """Rows and columns, about as many."""
    columns = max(4, int(count**0.5) // 4 * 4)
    return max(1, count // columns), columns


def _floats(inputs: int = 1, low: float = 0.01, high: float = 1.0, out: Any = np.float32) -> Arguments:
    def arguments(rng: np.random.Generator, count: int) -> list[Any]:
        return [*(_uniform(rng, count, low, high) for _ in range(inputs)), np.zeros(count, out)]

    return arguments


def _matrices(inputs: int = 1, *, is_transposed: bool = False) -> Arguments:
    def arguments(rng: np.random.Generator, count: int) -> list[Any]:
        shape = _shape(count)
        out = np.zeros(shape[::-1] if is_transposed else shape, np.float32)
        return [*(_uniform(rng, shape, -1, 1) for _ in range(inputs)), out]

    return arguments


def _of_bytes(out: int | None, dtype: Any) -> Arguments:
    def arguments(rng: np.random.Generator, count: int) -> list[Any]:
        return [_octets(rng, count), np.zeros(count if out is None else out, dtype)]

    return arguments


def _saxpy(rng: np.random.Generator, count: int) -> list[Any]:
    return [0.5, _uniform(rng, count, -1, 1), _uniform(rng, count, -1, 1)]


def _halves(rng: np.random.Generator, count: int) -> list[Any]:
    return [_uniform(rng, count, 0, 1).astype(np.float16), np.zeros(count, np.float16)]


def _points(rng: np.random.Generator, count: int) -> list[Any]:
    return [_uniform(rng, count, -2, 1), _uniform(rng, count, -1.5, 1.5), np.zeros(count, np.int32)]


def _indices(rng: np.random.Generator, count: int) -> list[Any]:
    return [_uniform(rng, count, 0, 1), rng.integers(0, count, count, np.int32), np.zeros(count, np.float32)]


def _with_columns(vectors: int, *numbers: float) -> Arguments:
    """Numbers, a matrix, vectors as long as its rows, and a matrix for the result."""

    def arguments(rng: np.random.Generator, count: int) -> list[Any]:
        shape = _shape(count)
        rows = [_uniform(rng, shape[1], -1, 1) for _ in range(vectors)]
        return [*numbers, _uniform(rng, shape, -1, 1), *rows, np.zeros(shape, np.float32)]

    return arguments


def _of_rows(rng: np.random.Generator, count: int) -> list[Any]:
    shape = _shape(count)
    return [_uniform(rng, shape, 0, 1), np.zeros(shape[0], np.float32)]


def _few_ones(rng: np.random.Generator, count: int) -> list[Any]:
    """Factors whose sum of products is exact in every order, up to 100,000,000."""
    drawn = (_uniform(rng, count, 0, 1) < 0.25 for _ in range(2))
    return [*(each.astype(np.float32) for each in drawn), np.zeros(1, np.float32)]


def _squares_of(rng: np.random.Generator, count: int) -> list[Any]:
    n = max(1, math.isqrt(count))
    return [*(_uniform(rng, (n, n), -1, 1) for _ in range(2)), np.zeros((n, n), np.float32)]


def _fast(natural: Natural) -> Natural:
    """The kernel with the flags under which the peers' own functions and compilers compute; the peers stay."""
    kernel = vyre.program(fastmath=("afn", "contract"))(natural.kernel.function)
    return replace(natural, kernel=kernel, suffix="_fast")


# a product and sum of one rounding escapes elsewhere
_MANDELBROT = Natural(mandelbrot, _points, share=0.1, tolerance=0.03)

KERNELS = (
    Natural(affine, _floats()),
    Natural(add, _floats(2)),
    Natural(saxpy, _saxpy),
    Natural(scale_f16, _halves),
    Natural(widen, _of_bytes(None, np.float32)),
    Natural(narrow, _floats(1, -0.1, 1.1, np.uint8)),
    Natural(exp, _floats()),
    Natural(log, _floats()),
    Natural(rsqrt, _floats()),
    Natural(sin, _floats(1, -10, 10)),
    Natural(tanh, _floats(1, -3, 3)),
    Natural(erf, _floats(1, -3, 3)),
    Natural(pow, _floats(2, 0.1, 3)),
    *(_fast(Natural(kernel, _floats(1, -3, 3))) for kernel in (tanh, erf)),
    _fast(Natural(pow, _floats(2, 0.1, 3))),
    Natural(gelu, _floats(1, -3, 3)),
    Natural(polynomial, _floats(1, -1, 1)),
    _MANDELBROT,
    _fast(_MANDELBROT),
    Natural(add_bias, _with_columns(1), _tiles),
    Natural(bias_gelu, _with_columns(1), None),
    Natural(residual, _floats(2, -1, 1), None),
    Natural(smooth, _floats()),
    Natural(stencil, _matrices(), _tiles),
    Natural(add_rows, _matrices(2), _tiles),
    Natural(transpose, _matrices(is_transposed=True), _tiles),
    Natural(gather, _indices),
    Natural(row_sum, _of_rows, lambda shape: shape[0]),
    Natural(row_max, _of_rows, lambda shape: shape[0]),
    Natural(softmax, _matrices(), lambda shape: shape[0]),
    Natural(rms_norm, _with_columns(1, 1e-5), lambda shape: shape[0]),
    Natural(layernorm, _with_columns(2, 1e-5), lambda shape: shape[0]),
    Natural(lane_sum, _of_rows, lambda shape: vyre.ceil_div(shape[0], 256), tolerance=1e-4),
    Natural(histogram, _of_bytes(256, np.uint32)),
    Natural(count_zeros, _of_bytes(1, np.uint32)),
    Natural(dot_of_lanes, _few_ones),
    Natural(dot_of_subgroups, _few_ones),
    Natural(matmul, _squares_of, _squares, share=0.04),
)
