"""math.matvec_fixed, tt.contract_step and tt.chain: u32 and i32 hold signed 16.16."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from vyre_opt.ir import DataType
from vyre_opt.kernels.chain import ChainSchedule, chain
from vyre_opt.kernels.chain_scattered import ScatterSchedule
from vyre_opt.kernels.matvec import MatvecSchedule, matvec_fixed, matvec_grid
from vyre_opt.kernels.tensor_train import (
    StepSchedule,
    contract_step,
    contract_step_grid,
    contract_step_scratch,
)

from .case import Array, KernelCase, Use

__all__ = ["contraction_cases"]

U32, I32, F32 = DataType.U32, DataType.I32, DataType.F32
KINDS = {U32: np.uint32, I32: np.int32, F32: np.float32}

MATRICES = ((1, 1), (13, 1), (5, 33), (33, 5), (7, 1000), (2, 4097), (1, 10007))
CORES = ((1, 1), (1, 300), (300, 1), (33, 31), (19, 70), (64, 4097), (387, 256))
CHAINS: tuple[tuple[int, ...], ...] = (
    (1, 1),
    (1, 5),
    (7, 3, 3, 3, 2),
    (64,) * 4,
    (33,) * 4,
    (300, 70, 300),
    (16,) * 6,
)
SPREAD: tuple[tuple[tuple[int, ...], ChainSchedule], ...] = (
    ((256, 256, 256, 256), ChainSchedule(128, workgroups=8)),
    ((64, 64, 32, 32, 64), ChainSchedule(64, workgroups=2)),
    ((128, 64, 64, 64), ChainSchedule(32, workgroups=16)),
    ((1, 37, 37, 37, 50, 3), ChainSchedule(64, workgroups=3)),
    ((100, 130, 130, 130, 1), ChainSchedule(160, workgroups=5)),
)
BATCHES: tuple[tuple[tuple[int, ...], ChainSchedule | ScatterSchedule, int, int], ...] = (
    ((40, 40, 40), ChainSchedule(64), 1, 3),
    ((64, 64, 64, 64), ChainSchedule(64, workgroups=2), 1, 3),
    ((128, 64, 64, 64), ChainSchedule(32, workgroups=16), 4, 6),
    ((1, 37, 37, 37, 50, 3), ChainSchedule(64, workgroups=3), 2, 5),
    ((100, 130, 130, 130, 1), ChainSchedule(160, workgroups=5), 8, 11),
    ((64, 96, 96, 96), ChainSchedule(64, workgroups=3), 10, 13),
    ((256, 256, 256, 256), ScatterSchedule(128, 8, 2), 5, 7),
    ((64, 96, 96, 64), ScatterSchedule(64, 3, 3), 4, 9),
    ((1, 37, 37, 37, 50, 3), ScatterSchedule(64, 3, 1), 2, 5),
    ((100, 130, 130, 130, 1), ScatterSchedule(160, 5, 2), 3, 4),
)
CHAIN_SCHEDULES = {
    "": None,
    "32 lanes": ChainSchedule(32, 2),
    "no prefetch": ChainSchedule(128, 4, 0),
    "streamed": ChainSchedule(32, 1, 0, stream_rows=4),
}


def contraction_cases() -> Iterator[KernelCase]:
    for dtype in (U32, I32):
        for rows, columns in MATRICES:
            for schedule in (*PLAIN_ROWS, *_clamped(columns)):
                what = f"{dtype}, {rows} x {columns}" + ", strided" * schedule.strided
                what += f", {schedule}" * schedule.predicated
                yield KernelCase("math.matvec_fixed", what, _matvec(dtype, rows, columns, schedule))
    for dtype in KINDS:
        for inner, outer in CORES:
            for step in (StepSchedule(), StepSchedule(32, 3), *_steps(outer)):
                what = f"{dtype}, {inner} x {outer} by {step.lanes}" + f", {step}" * (step not in PLAIN)
                yield KernelCase("tt.contract_step", what, _step(dtype, inner, outer, step))
        for ranks, spread in SPREAD:
            what = f"{dtype}, {' '.join(map(str, ranks))}, over {spread.workgroups} workgroups"
            yield KernelCase("tt.chain", what, _chain(dtype, ranks, spread))
            yield KernelCase("tt.chain", f"{what}, separate", _chain(dtype, ranks, spread, True))
        for ranks, cluster, vectors, count in BATCHES:
            what = f"{dtype}, {' '.join(map(str, ranks))}, {count} vectors, {vectors} by {cluster.workgroups} workgroups"
            what += ", scattered" * isinstance(cluster, ScatterSchedule)
            yield KernelCase("tt.chain", what, _batch(dtype, ranks, cluster, vectors, count))
        for ranks in CHAINS:
            for name, chain_schedule in CHAIN_SCHEDULES.items():
                what = f"{dtype}, {' '.join(map(str, ranks))}" + f", {name}" * bool(name)
                yield KernelCase("tt.chain", what, _chain(dtype, ranks, chain_schedule))
                yield KernelCase("tt.chain", f"{what}, separate", _chain(dtype, ranks, chain_schedule, True))


def product(vector: Array, matrix: Array) -> Array:
    """vector @ matrix: of floats in f64; in 16.16 each product rounded down, the sum modulo 2^32."""
    if vector.dtype.kind == "f":
        return np.asarray(vector.astype(np.float64) @ matrix.astype(np.float64))
    wide = vector.view(np.int32).astype(np.int64)[:, None] * matrix.view(np.int32).astype(np.int64)
    sums = np.floor_divide(wide, 65536).sum(axis=0)  # of at most 2^13 terms below 2^47
    return np.asarray((sums % 2**32).astype(np.uint32).view(matrix.dtype))


def _draw(rng: np.random.Generator, dtype: DataType, *shape: int) -> Array:
    """Every bit pattern of the integers; floats of about 1."""
    if dtype is F32:
        return rng.standard_normal(shape).astype(np.float32)
    return rng.integers(0, 2**32, shape, dtype=np.uint32).view(KINDS[dtype])


def _bound(dtype: DataType, expected: Array, terms: int) -> Array | float:
    return 1e-5 * np.abs(expected) + 2e-6 * terms if dtype is F32 else 0.0


def _matvec(dtype: DataType, rows: int, columns: int, schedule: MatvecSchedule) -> Callable[[], Use]:
    def make() -> Use:
        rng = np.random.default_rng(rows)
        m, x = _draw(rng, dtype, rows, columns), _draw(rng, dtype, columns)
        m[0, 0], x[0] = np.array([-1, 1 << 15]).astype(KINDS[dtype])  # the product is rounded to -1/65536
        inputs = [m.reshape(-1), x, np.zeros(rows, x.dtype)]
        grid = 3 if schedule.strided else matvec_grid(schedule, rows)
        if schedule.splits > 1:
            inputs.append(np.zeros(rows, np.uint64))
        return Use(matvec_fixed(dtype, schedule), inputs, grid, product(x, m.T.copy()))

    return make


PLAIN_ROWS = (MatvecSchedule(), MatvecSchedule(2, 3, strided=True))


def _clamped(columns: int) -> Iterator[MatvecSchedule]:
    """Of lanes within a subgroup, of one and of several, each alone and in company."""
    vector = 4 if columns % 4 == 0 else 2 if columns % 2 == 0 else 1
    for rows_per_thread, strided in ((1, False), (3, False), (2, True)):
        yield MatvecSchedule(8, 2, 4, vector, rows_per_thread, predicated=True, strided=strided)
        yield MatvecSchedule(2, 3, 32, vector, rows_per_thread, predicated=True, strided=strided)
        yield MatvecSchedule(2, 1, 96, vector, rows_per_thread, predicated=True, strided=strided)
    for splits in (2, 8):
        yield MatvecSchedule(1, 2, 64, vector, 2, splits, predicated=True)
        yield MatvecSchedule(4, 1, 8, vector, 1, splits, predicated=True)


PLAIN = (StepSchedule(), StepSchedule(32, 3))


def _steps(outer: int) -> Iterator[StepSchedule]:
    """In registers by few and many lanes, alone and in company; streamed, likewise."""
    vector = 4 if outer % 4 == 0 else 2 if outer % 2 == 0 else 1
    for splits in (1, 3):
        yield StepSchedule(32, 2, lanes_n=8, vector=vector, splits=splits)
        yield StepSchedule(256, 1, lanes_n=8, vector=vector, splits=splits)
        yield StepSchedule(128, 3, lanes_n=1, vector=vector, splits=splits)
        yield StepSchedule(256, 3, lanes_n=32, vector=vector, splits=splits)
        yield StepSchedule(256, 1, lanes_n=64, vector=1, splits=splits)
        yield StepSchedule(32, 2, stream_columns=64, splits=splits)
        yield StepSchedule(32, 8, stream_columns=4096, splits=splits)


def _step(dtype: DataType, inner: int, outer: int, schedule: StepSchedule) -> Callable[[], Use]:
    def make() -> Use:
        rng = np.random.default_rng(outer)
        acc, core = _draw(rng, dtype, inner), _draw(rng, dtype, inner, outer)
        expected = product(acc, core)
        inputs = [acc, core.reshape(-1), np.zeros(outer, acc.dtype)]
        grid = contract_step_grid(schedule, outer) if schedule == StepSchedule() else 2
        if schedule.splits > 1:
            grid = contract_step_grid(schedule, outer)
            inputs += [np.zeros(size, np.uint32) for size in contract_step_scratch(schedule, outer)]
        program = contract_step(dtype, schedule)
        return Use(program, inputs, grid, expected, _bound(dtype, expected, inner))

    return make


def _chain(
    dtype: DataType, ranks: tuple[int, ...], schedule: ChainSchedule | None, separate: bool = False
) -> Callable[[], Use]:
    def make() -> Use:
        rng = np.random.default_rng(sum(ranks))
        acc = _draw(rng, dtype, ranks[0])
        cores = [_draw(rng, dtype, x, y) for x, y in pairwise(ranks)]
        if dtype is F32:
            cores = [core / np.float32(np.sqrt(len(core))) for core in cores]
        expected = acc
        for core in cores:
            expected = product(expected, core)
        flat = [core.reshape(-1) for core in cores]
        inputs = [acc, *(flat if separate else [np.concatenate(flat)]), np.zeros(ranks[-1], acc.dtype)]
        grid = schedule.workgroups if schedule else 1
        return Use(
            chain(ranks, dtype, schedule, separate),
            inputs,
            grid,
            expected,
            _bound(dtype, expected, len(ranks)),
        )

    return make


def _batch(
    dtype: DataType,
    ranks: tuple[int, ...],
    schedule: ChainSchedule | ScatterSchedule,
    vectors: int,
    count: int,
) -> Callable[[], Use]:
    def make() -> Use:
        rng = np.random.default_rng(sum(ranks))
        rows = [_draw(rng, dtype, ranks[0]) for _ in range(count)]
        cores = [_draw(rng, dtype, x, y) for x, y in pairwise(ranks)]
        if dtype is F32:
            cores = [core / np.float32(np.sqrt(len(core))) for core in cores]
        results = []
        for row in rows:
            for core in cores:
                row = product(row, core)
            results.append(row)
        expected = np.concatenate(results)
        inputs = [np.concatenate(rows), np.concatenate([core.reshape(-1) for core in cores])]
        inputs.append(np.zeros(count * ranks[-1], rows[0].dtype))
        program = chain(ranks, dtype, schedule, vectors=vectors)
        grid = -(-count // vectors) * schedule.workgroups
        return Use(program, inputs, grid, expected, _bound(dtype, expected, len(ranks)))

    return make
