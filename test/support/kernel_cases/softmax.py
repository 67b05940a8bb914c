"""math.softmax and math.softmax_step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from vyre_opt.ir import DataType
from vyre_opt.ir.ops import MAX_COLUMNS
from vyre_opt.kernels.softmax_fixed import (
    SoftmaxStepSchedule,
    softmax_step_parts,
    softmax_step_quotients,
)
from vyre_opt.kernels.softmax_fixed import softmax_step as build_step
from vyre_opt.kernels.softmax_rows import softmax
from vyre_opt.kernels.softmax_schedules import (
    SoftmaxSchedule,
    softmax_grid,
    softmax_schedule,
)

from .case import Array, KernelCase, Use, bf16_bits, widened

__all__ = ["softmax_cases"]

F32, F16, BF16 = DataType.F32, DataType.F16, DataType.BF16

LENGTHS = (1, 2, 3, 5, 31, 32, 33, 64, 100, 256, 1000, 1024, 2048, 4097, 5000, 12544, 16384, MAX_COLUMNS)
HALF_LENGTHS = (1, 33, 1000, 4096, 70000, MAX_COLUMNS)

# half a unit in the last place of the stored type, relative; and its smallest steps
_STORED = {F32: (0.0, 0.0), F16: (2.0**-11 * 1.01, 2.0**-25), BF16: (2.0**-8 * 1.01, 0.0)}


def softmax_cases() -> Iterator[KernelCase]:
    for columns in LENGTHS:
        plain = softmax_schedule(columns, F32)
        yield _case(columns, F32, plain, 0, "")
        if columns < MAX_COLUMNS:
            yield _case(columns, F32, replace(plain, strided=True), 2, ", strided")
        if softmax_schedule(columns, F32, "cpu") != plain:
            yield _case(columns, F32, softmax_schedule(columns, F32, "cpu"), 0, ", as on the cpu")
    for dtype in (F16, BF16):
        for columns in HALF_LENGTHS:
            yield _case(columns, dtype, softmax_schedule(columns, dtype), 0, "")
    for columns in (1, 33, 4100, 40000):  # shares of -inf only, and loops with and without a rest
        for lanes in (32, 96, 1024):
            vector = 4 if columns % 4 == 0 else 1
            read_twice = SoftmaxSchedule(lanes, 1, vector, in_registers=False)
            yield _case(columns, F32, read_twice, 0, f", read twice by {lanes}")
    for columns, turned in (
        (7, SoftmaxSchedule(8, 16, rows_per_thread=4)),
        (40, SoftmaxSchedule(32, 4, 2, rows_per_thread=2)),
    ):
        yield _case(columns, F32, turned, 0, ", several at once")
    for columns, dtype, vector in ((1, F32, 4), (7, F32, 4), (33, F32, 4), (7, BF16, 8), (6, F16, 8)):
        transposed = SoftmaxSchedule(1, 32, vector, transposed=True)
        yield _case(columns, dtype, transposed, 0, ", transposed")
        yield _case(columns, dtype, replace(transposed, strided=True), 2, ", transposed and strided")
    yield _case(67, F32, SoftmaxSchedule(32, 4, 4, peeled=True), 0, ", peeled, several in a workgroup")
    for columns, lanes, splits in ((129, 64, 2), (4100, 256, 5), (5000, 64, 33), (4096, 64, 64)):
        vector = 4 if columns % 4 == 0 else 1
        shared = SoftmaxSchedule(lanes, 1, vector, splits=splits)
        yield replace(_case(columns, F32, shared, 0, f", over {splits} workgroups"), waits=True)
    for columns, dtype, vector in (
        (67, F32, 4),
        (1023, F32, 4),
        (514, F32, 4),
        (1025, BF16, 8),
        (35, F16, 8),
    ):
        for splits in (1, 3):
            peeled = SoftmaxSchedule(64, 1, vector, splits=splits, peeled=True)
            case = _case(columns, dtype, peeled, 0, f", peeled, over {splits} workgroups")
            yield replace(case, waits=splits > 1)
    yield from _clamped()
    for columns, dtype, vector, is_shifted in (
        (700, F32, 4, False),
        (1001, F32, 4, True),
        (4096, BF16, 8, False),
        (1003, F16, 8, True),
        (1003, BF16, 8, True),
    ):
        for splits, unroll in ((1, 2), (2, 1), (5, 2)):
            parked = SoftmaxSchedule(
                64,
                1,
                vector,
                False,
                unroll,
                in_shared=True,
                splits=splits,
                peeled=is_shifted,
                predicated=True,
            )
            case = _case(columns, dtype, parked, 0, f", in memory over {splits} workgroups")
            yield replace(case, waits=splits > 1)
    for columns in (1, 5, 33, 700, 2500):
        for dtype in (F32, BF16):
            for lanes in (1, 32, 96):
                general = SoftmaxSchedule(lanes, max(1, 32 // lanes), in_registers=False)
                yield _case(columns, dtype, general, 0, f", any length by {lanes}", is_general=True)
    for in_registers in (True, False):
        yield KernelCase(
            "math.softmax",
            f"f32, only the last of 128 lanes, in_registers={in_registers}",
            _last_lane(in_registers),
        )
    for count in (1, 2, 31, 33, 1000, 9000):
        for lanes, grid in ((32, 1), (32, 3), (256, 2), (1024, 1)):
            yield KernelCase(
                "math.softmax_step", f"{count} by {lanes}, grid {grid}", _step(count, lanes, grid)
            )
    yield KernelCase("math.softmax_step", "zeros", _step(40, 32, 1, most=1))
    for count in (1, 33, 9000):
        for lanes, grid in ((32, 3), (256, 2), (64, 70)):
            yield KernelCase(
                "math.softmax_step", f"parts of {count} by {lanes}, grid {grid}", _parts(count, lanes, grid)
            )
            yield KernelCase(
                "math.softmax_step",
                f"quotients of {count} by {lanes}, grid {grid}",
                _quotients(count, lanes, grid),
            )


def _clamped() -> Iterator[KernelCase]:
    """Lanes without a vector load another one: in rows of some lanes, of workgroups, shared, peeled, several."""
    for columns, schedule in (
        (7, SoftmaxSchedule(8, 16, rows_per_thread=2)),
        (33, SoftmaxSchedule(16, 8)),
        (100, SoftmaxSchedule(32, 4, 4)),
        (300, SoftmaxSchedule(96, 1, 2)),
        (514, SoftmaxSchedule(64, 1, 4, peeled=True)),
        (67, SoftmaxSchedule(32, 4, 4, peeled=True)),
        (4100, SoftmaxSchedule(64, 1, 4, splits=33)),
        (1030, SoftmaxSchedule(64, 1, 4, splits=5, peeled=True)),
    ):
        for dtype in (F32, F16):
            case = _case(
                columns,
                dtype,
                replace(schedule, predicated=True),
                0,
                f", predicated, {schedule.splits} workgroups",
            )
            yield replace(case, waits=schedule.splits > 1)


def _case(
    columns: int,
    dtype: DataType,
    schedule: SoftmaxSchedule,
    grid: int,
    more: str,
    is_general: bool = False,
) -> KernelCase:
    def make() -> Use:
        x = special_rows(columns, 6e4 if dtype is F16 else 1e37)
        stored: Array = bf16_bits(x) if dtype is BF16 else x.astype(np.float16) if dtype is F16 else x
        values = widened(stored) if dtype is BF16 else stored
        return _use(values, stored, columns, dtype, schedule, grid, is_general)

    return KernelCase("math.softmax", f"{dtype}, rows of {columns}{more}", make)


def special_rows(columns: int, large: float) -> Array:
    """Eight rows: plain; the first half -inf; every second element -inf; large numbers; all -inf; one NaN;
    one +inf; -inf but for the last 64th."""
    rng = np.random.default_rng(columns)
    x = (rng.standard_normal((8, columns)) * 5).astype(np.float32)
    x[0, 0] = 0.0  # what lanes without an element may find
    x[1, : columns // 2] = -np.inf
    x[2, 1::2] = -np.inf
    x[3] *= large / 32
    x[4] = -np.inf
    x[5, columns // 2] = np.nan
    x[6, columns - 1] = np.inf
    x[7, : columns // 64 * 63] = -np.inf
    return x


def _last_lane(in_registers: bool) -> Any:
    def make() -> Use:
        x = np.full((1, 512), -np.inf, np.float32)
        x[0, 508:] = [1, 2, 3, -300]
        return _use(x, x, 512, F32, SoftmaxSchedule(128, 1, 4, in_registers=in_registers), 1)

    return make


def _use(
    values: Array,
    stored: Array,
    columns: int,
    dtype: DataType,
    schedule: SoftmaxSchedule,
    grid: int,
    is_general: bool = False,
) -> Use:
    """The formula in f64, with -inf and NaN as they come out of it.

    The bound is relative: exp2 in f32; what the rounding of x - maximum to f32 makes of a place
    far from the maximum; the sum, whose rounding errors grow as the root of what a lane adds
    up; then the rounding to the stored type.  Results below 1e-37 are subnormal in f32, or near.
    """
    wide = values.astype(np.float64)
    with np.errstate(all="ignore"):
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        expected = powers / powers.sum(axis=1, keepdims=True)
        far = np.abs(np.nan_to_num(np.log(expected), neginf=0.0))
    relative, least = _STORED[dtype]
    adding = 2.0**-24 * np.sqrt(columns / schedule.lanes)
    bound = expected * (1e-6 + 1.5e-7 * far + adding + relative) + 1e-37 + least
    grid = grid or softmax_grid(schedule, len(values))
    shared = [np.zeros(grid, np.uint64), np.zeros(1, np.uint32)] if schedule.splits > 1 else []
    if is_general:
        shared = [np.zeros(columns, np.uint8)]
    return Use(
        softmax(None if is_general else columns, dtype, schedule),
        [stored.reshape(-1), np.zeros_like(stored).reshape(-1), *shared],
        grid,
        expected.reshape(-1),
        bound.reshape(-1),
    )


def _parts(count: int, lanes: int, grid: int) -> Any:
    """Lane l of the grid adds the elements l, l + lanes of the grid, ..."""

    def make() -> Use:
        x = np.random.default_rng(count).integers(0, 1 << 32, count, dtype=np.uint32)
        places = np.arange(count) // lanes % grid
        expected = [sum(x[places == number].tolist()) for number in range(grid)]
        return Use(
            softmax_step_parts(lanes), [x, np.zeros(grid, np.uint64)], grid, np.array(expected, np.uint64)
        )

    return make


def _quotients(count: int, lanes: int, grid: int) -> Any:
    def make() -> Use:
        rng = np.random.default_rng(count)
        x = rng.integers(0, 1 << 32, count, dtype=np.uint32)
        parts = rng.integers(0, 1 << 40, 77, dtype=np.uint64)
        expected = [value * 65536 // sum(parts.tolist()) for value in x.tolist()]
        return Use(
            softmax_step_quotients(lanes), [x, parts, np.zeros_like(x)], grid, np.array(expected, np.uint32)
        )

    return make


def _step(count: int, lanes: int, grid: int, most: int = 1 << 32) -> Any:
    """A sum beyond 32 bits; `most` 1 gives zeros, for which max(sum, 1) stands in."""

    def make() -> Use:
        x = np.random.default_rng(count).integers(0, most, count, dtype=np.uint32)
        total = max(sum(x.tolist()), 1)
        expected = np.array([value * 65536 // total for value in x.tolist()], np.uint32)
        return Use(build_step(SoftmaxStepSchedule(lanes)), [x, np.zeros_like(x)], grid, expected)

    return make
