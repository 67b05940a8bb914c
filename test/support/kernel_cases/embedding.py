"""tt.embedding of 2 to 4 cores, f32 and bf16."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from vyre_opt.ir import DataType
from vyre_opt.kernels.embedding import (
    EmbeddingSchedule,
    EmbeddingShape,
    Schedule,
    embedding,
    embedding_grid,
    embedding_schedule,
)
from vyre_opt.kernels.embedding_grouped import GroupedSchedule
from vyre_opt.kernels.embedding_pairs import PairSchedule
from vyre_opt.kernels.embedding_units import EmbeddingUnitSchedule, why_no_units

from .case import Array, KernelCase, Use, bf16_bits, widened

__all__ = ["embedding_cases"]

F32, BF16 = DataType.F32, DataType.BF16
SHAPES = (
    EmbeddingShape((3, 4), (2, 3), (5,)),
    EmbeddingShape((20, 22, 25), (4, 4, 4), (16, 16)),
    EmbeddingShape((3, 1, 2, 4), (1, 3, 2, 2), (3, 8, 4)),
    EmbeddingShape((5, 6, 7), (4, 4, 4), (64, 64)),
    EmbeddingShape((4, 3, 5), (2, 5, 3), (6, 16)),
)
PAIR_SHAPES = (
    EmbeddingShape((9, 7), (8, 8), (64,)),
    EmbeddingShape((5, 6), (3, 4), (70,)),
    EmbeddingShape((4, 11), (16, 16), (36,)),
    EmbeddingShape((6, 3), (1, 128), (5,)),
)
PAIRS = (
    PairSchedule(32, 1, 1),
    PairSchedule(64, 3, 2),
    PairSchedule(128, 32, 4),
    PairSchedule(32, 5, 1, True),
)
STRIDED = EmbeddingSchedule(32, 2, 4, 1, strided=True)
GROUPED = (GroupedSchedule(chunk=128), GroupedSchedule(256, 16, 8, 8), GroupedSchedule(300, 8, 4, 2, 3))

UNITS = (EmbeddingUnitSchedule(chunk=128, subgroups=2), EmbeddingUnitSchedule(chunk=300, subgroups=3))
UNIT_SHAPES = (
    *SHAPES,
    EmbeddingShape((3, 4, 3), (8, 2, 8), (32, 20)),
    EmbeddingShape((4, 3, 2), (16, 3, 1), (16, 36)),
    EmbeddingShape((4, 2, 3), (5, 1, 40), (18, 50)),
)


def embedding_cases() -> Iterator[KernelCase]:
    """One lookup, a workgroup's rest, and so many that the GPU's schedule groups them by slice."""
    for shape in SHAPES:
        cores = f"p {shape.p} q {shape.q} r {shape.r}"
        for count in (1, 2, 33, 131):
            yield KernelCase("tt.embedding", f"f32, {cores}, {count}", _lookups(shape, count, F32, F32))
        strided = _lookups(shape, 33, F32, F32, STRIDED)
        yield KernelCase("tt.embedding", f"f32, {cores}, strided", strided)
        apart = _lookups(shape, 33, BF16, F32, separate=True)
        yield KernelCase("tt.embedding", f"bf16 to f32, {cores}, separate", apart)
        checked = _lookups(shape, 33, F32, F32, separate=True, checked=DataType.I64)
        yield KernelCase("tt.embedding", f"f32, {cores}, checked", checked)
        for grouped in GROUPED:
            if grouped.why_not(shape) is None:
                what = f"f32, {cores}, {grouped.rows_per_thread} x {grouped.columns_per_thread} of {grouped.chunk}"
                yield KernelCase("tt.embedding", what, _lookups(shape, 300, F32, F32, grouped))
                apart = _lookups(shape, 300, F32, F32, grouped, separate=True)
                yield KernelCase("tt.embedding", f"{what}, separate", apart)
                checked = _lookups(shape, 300, F32, F32, grouped, checked=DataType.I64)
                yield KernelCase("tt.embedding", f"{what}, checked", checked)
        for out in (BF16, F32):
            make = _lookups(shape, 33, BF16, out)
            yield KernelCase("tt.embedding", f"bf16 to {out}, {cores}", make)
    yield from _pair_cases()
    yield from _unit_cases()


def _unit_cases() -> Iterator[KernelCase]:
    for shape in UNIT_SHAPES:
        for units in UNITS:
            if why_no_units(shape) is None:
                what = f"p {shape.p} q {shape.q} r {shape.r}, {units}"
                plain = _lookups(shape, 300, BF16, F32, units)
                yield KernelCase("tt.embedding", f"bf16 to f32, {what}", plain)
                checked = _lookups(shape, 67, BF16, BF16, units, True, DataType.I64)
                yield KernelCase("tt.embedding", f"bf16, {what}, checked", checked)


def _pair_cases() -> Iterator[KernelCase]:
    for shape in PAIR_SHAPES:
        for pairs in PAIRS:
            if pairs.why_not(shape) is None:
                what = f"p {shape.p} q {shape.q} r {shape.r}, {pairs}"
                yield KernelCase("tt.embedding", f"f32, {what}", _lookups(shape, 131, F32, F32, pairs))
                checked = _lookups(shape, 67, BF16, BF16, pairs, True, DataType.I64)
                yield KernelCase("tt.embedding", f"bf16, {what}, checked", checked)


def _lookups(
    shape: EmbeddingShape,
    count: int,
    dtype: DataType,
    out_dtype: DataType,
    schedule: Schedule | None = None,
    separate: bool = False,
    checked: DataType | None = None,
) -> Callable[[], Use]:
    def make() -> Use:
        rng = np.random.default_rng(count)
        cores = [core / np.float32(np.sqrt(core.shape[1])) for core in _cores(rng, shape)]
        indices = rng.integers(0, prod(shape.p), count).astype(np.int64 if checked else np.uint32)
        indices[0] = prod(shape.p) - 1
        stored = [bf16_bits(core) if dtype is BF16 else core for core in cores]
        values = [widened(core) if dtype is BF16 else core for core in stored]
        expected = np.concatenate([_row(values, int(index)) for index in indices])
        own_schedule = schedule or embedding_schedule(shape, count=count, target="cuda")
        out = np.zeros(expected.size, np.uint16 if out_dtype is BF16 else np.float32)
        relative = 2.0**-8 if out_dtype is BF16 else 1e-4
        flat = [core.reshape(-1) for core in stored]
        return Use(
            embedding(shape, dtype, own_schedule, out_dtype, separate, checked),
            [*(flat if separate else [np.concatenate(flat)]), indices, out],
            2 if getattr(schedule, "strided", False) else embedding_grid(own_schedule, shape, count),
            expected,
            relative * np.abs(expected) + 1e-4,
        )

    return make


def _cores(rng: np.random.Generator, shape: EmbeddingShape) -> list[Array]:
    ranks = (1, *shape.r, 1)
    return [
        rng.standard_normal((p, ranks[k], q, ranks[k + 1])).astype(np.float32)
        for k, (p, q) in enumerate(zip(shape.p, shape.q, strict=True))
    ]


def _row(cores: list[Array], index: int) -> Array:
    """The row of an index, core by core, in f64."""
    row = np.ones((1, 1))
    for core, digit in zip(cores, np.unravel_index(index, [len(c) for c in cores]), strict=True):
        step = np.einsum("ar,rqs->aqs", row, core[digit].astype(np.float64))
        row = step.reshape(-1, core.shape[3])
    return row.reshape(-1)
