"""math.matmul: every form, at every edge, with and without what comes after the sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import erf

import numpy as np

from vyre_opt.ir import DataType
from vyre_opt.kernels.matmul_batch import batch_of
from vyre_opt.kernels.matmul_program import MatmulProblem, MatmulSchedule, matmul, matmul_grid

from .case import Array, KernelCase, Use, bf16_bits, widened

__all__ = ["exact_product", "matmul_cases", "product_bound"]

F32, F16, BF16 = DataType.F32, DataType.F16, DataType.BF16

SCHEDULES = {
    "panels": MatmulSchedule(rows_per_thread=3, columns_per_thread=2, block_m=7, block_k=8),
    "direct": MatmulSchedule(rows_per_thread=3, columns_per_thread=2, block_m=7, block_k=0),
    "dots": MatmulSchedule(lanes_n=1, rows_per_thread=2, columns_per_thread=2, block_m=5, block_k=0),
    "tiles": MatmulSchedule(
        lanes=64, lanes_n=8, rows_per_thread=2, columns_per_thread=3, block_m=16, block_k=8
    ),
    "tiles of vectors": MatmulSchedule(
        lanes=64, lanes_n=8, rows_per_thread=4, columns_per_thread=8, block_m=32, block_k=8, unroll=4
    ),
    "tiles ahead": MatmulSchedule(
        lanes=64,
        lanes_n=8,
        rows_per_thread=4,
        columns_per_thread=4,
        block_m=32,
        block_k=8,
        unroll=8,
        prefetch=True,
    ),
}
SHAPES = ((1, 1, 1), (2, 65, 17), (17, 3, 33), (23, 70, 8))
TYPES = ((F32, F32, F32), (F16, F16, F32), (BF16, BF16, BF16), (F16, F32, None), (BF16, F32, None))


def matmul_cases() -> Iterator[KernelCase]:
    for form, schedule in SCHEDULES.items():
        for shape in SHAPES:
            what = f"{form}, {' x '.join(map(str, shape))}"
            yield _case(what, shape, MatmulProblem(shape[2], shape[1]), schedule)
        for number, (dtype, out, bias) in enumerate(TYPES):
            problem = MatmulProblem(12, 40, dtype, out, bias, number % 4)
            yield _case(f"{form}, {dtype} to {out}, bias {bias}", (9, 40, 12), problem, schedule)
        open_sizes = MatmulProblem(None, None, bias=F32, activation=2)
        yield _case(f"{form}, any sizes and grid", (20, 34, 11), open_sizes, replace(schedule, strided=True))
        multiples = replace(open_sizes, multiples=(4, 2))
        yield _case(
            f"{form}, multiples and any grid", (35, 66, 28), multiples, replace(schedule, strided=True)
        )
        yield _case(f"{form}, no rows", (0, 5, 4), MatmulProblem(4, 5), schedule)
        for problem in (MatmulProblem(11, 34, axes=3, activation=1), MatmulProblem(bias=F32, axes=3)):
            each = replace(schedule, strided=problem.depth is None)
            what = f"{form}, stacks, {'any grid' if each.strided else 'own grid'}"
            yield _case(what, (9, 34, 11), problem, each, ((2, 3, 1), (2, 1, 2)))


def exact_product(a: Array, b: Array, bias: Array | None, activation: str) -> Array:
    """activation(a b + bias) of matrices or stacks, in f64."""
    total = a.astype(np.float64) @ b.astype(np.float64) + (0 if bias is None else bias.astype(np.float64))
    if activation == "relu":
        return np.where(total > 0, total, 0.0)
    if activation == "gelu":
        return np.array([x * (1 + erf(x / 2**0.5)) / 2 for x in total.reshape(-1)]).reshape(total.shape)
    if activation == "silu":
        return np.asarray(total / (1 + np.exp(-total)))
    return np.asarray(total)


def product_bound(
    a: Array, b: Array, bias: Array | None, activation: str, exact: Array, out: DataType
) -> Array:
    """How far a result may be from the exact one, see "Named kernels" in docs/reference/language.md."""
    x, y = np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64))
    sizes = x @ y + (0 if bias is None else np.abs(bias.astype(np.float64)))
    error = (a.shape[-1] + 2) * 2.0**-22 * sizes
    if activation in ("gelu", "silu"):
        error = 1.13 * error + 2.0**-21 * sizes
    half_ulp, least = {F32: (2.0**-24, 2.0**-150), F16: (2.0**-11, 2.0**-25), BF16: (2.0**-8, 2.0**-134)}[out]
    return np.asarray(error + half_ulp * (np.abs(exact) + error) + least)


ACTIVATIONS = ("none", "relu", "gelu", "silu")


Stacks = tuple[tuple[int, ...], tuple[int, ...]]


def _case(
    what: str,
    shape: tuple[int, int, int],
    problem: MatmulProblem,
    schedule: MatmulSchedule,
    stacks: Stacks = ((), ()),
) -> KernelCase:
    return KernelCase("math.matmul", what, _use(shape, problem, schedule, stacks))


def _use(
    shape: tuple[int, int, int], problem: MatmulProblem, schedule: MatmulSchedule, stacks: Stacks
) -> Callable[[], Use]:
    """`stacks`: the extents before those of the matrices of A and B."""

    def make() -> Use:
        rows, columns, depth = shape
        rng = np.random.default_rng(rows)
        a, values_a = _draw(rng, problem.dtype, *stacks[0], rows, depth)
        b, values_b = _draw(rng, problem.dtype, *stacks[1], depth, columns)
        batch = batch_of(*stacks, rows)
        results = batch.count * batch.rows * columns
        inputs = [
            a,
            b,
            np.zeros(results, {F32: np.float32, F16: np.float16, BF16: np.uint16}[problem.out]),
        ]
        bias = None
        if problem.bias is not None:
            stored, bias = _draw(rng, problem.bias, 1, columns)
            inputs.append(stored)
        activation = ACTIVATIONS[problem.activation]
        exact = exact_product(values_a, values_b, bias, activation)
        bound = product_bound(values_a, values_b, bias, activation, exact, problem.out)
        params = batch.params | ({} if problem.depth else {"depth": depth, "columns": columns})
        grid = 2 if schedule.strided else matmul_grid(schedule, batch.rows, columns, batch.count)
        return Use(
            matmul(problem, schedule), inputs, grid, exact.reshape(-1), bound.reshape(-1), params=params
        )

    return make


def _draw(rng: np.random.Generator, dtype: DataType, *shape: int) -> tuple[Array, Array]:
    """Numbers of about 1, flat as they are stored, and as matrices of their values."""
    x = rng.standard_normal(shape).astype(np.float32)
    stored: Array = x if dtype is F32 else x.astype(np.float16) if dtype is F16 else bf16_bits(x)
    values = widened(stored) if dtype is BF16 else stored
    return stored.reshape(-1), np.asarray(values).reshape(shape)
