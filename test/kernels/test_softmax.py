"""math.softmax at every shape of schedule, against the formula in f64 and torch's rules for -inf and NaN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from vyre_opt import kernels
from vyre_opt.ir.types import DataType
from vyre_opt.kernels.softmax_fixed import SoftmaxStepSchedule
from vyre_opt.kernels.softmax_fixed import softmax_step as build_step
from vyre_opt.kernels.softmax_rows import (
    MAX_COLUMNS,
    SoftmaxSchedule,
    softmax,
    softmax_grid,
    softmax_schedule,
)
from vyre_opt.runtime.dispatcher import BadInputs
from vyre_opt.runtime.ref import kernels as reference

Once = Callable[..., np.ndarray]


def formula(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)


def agree(y: np.ndarray, expected: np.ndarray, ulps: float) -> None:
    """Within a relative bound that grows with the distance to the maximum, as the rounding of
    x - maximum to f32 makes it; results below 1e-37 are subnormal or near."""
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    with np.errstate(all="ignore"):
        far = np.nan_to_num(np.log(expected), neginf=0.0)
        bound = expected * (ulps + 1.5e-7 * np.abs(far)) + 1e-37
        worst = np.nanmax(np.abs(y - expected) - bound, initial=-1.0)
    assert worst <= 0, f"{worst} beyond the bound"


def special_rows(rng: np.random.Generator, columns: int) -> np.ndarray:
    """Plain; half of it -inf, in runs and in every second place; large; all -inf; a NaN; a +inf."""
    x = (rng.standard_normal((7, columns)) * 5).astype(np.float32)
    x[1, : columns // 2] = -np.inf
    x[2, 1::2] = -np.inf
    x[3] *= 1e37
    x[4] = -np.inf
    x[5, columns // 2] = np.nan
    x[6, columns - 1] = np.inf
    return x


def check(once: Once, x: np.ndarray, columns: int, schedule: SoftmaxSchedule, grid: int) -> None:
    program = softmax(columns, DataType.F32, schedule)
    y = once(program, [x.reshape(-1), np.zeros(x.size, np.float32)], grid).reshape(x.shape)
    agree(y, formula(x), 1e-6)


@pytest.mark.parametrize(
    "columns", [1, 2, 3, 5, 31, 32, 33, 64, 100, 256, 1000, 1024, 2048, 4097, 5000, 12544, 16384]
)
def test_every_row_length(once: Once, rng: np.random.Generator, columns: int) -> None:
    """The default schedule over its own grid; and, strided, over one that is too small."""
    x = special_rows(rng, columns)
    schedule = softmax_schedule(columns, DataType.F32)
    check(once, x, columns, schedule, softmax_grid(schedule, len(x)))
    check(once, x, columns, replace(schedule, strided=True), 2)


@pytest.mark.parametrize("columns", [1, 33, 4100, 40000])
@pytest.mark.parametrize("lanes", [32, 96, 1024])
def test_rows_read_twice(once: Once, rng: np.random.Generator, columns: int, lanes: int) -> None:
    """Subgroups whose whole share is -inf, and loops with and without a rest."""
    x = special_rows(rng, columns)
    x[1, : columns // 64 * 63] = -np.inf
    vector = 4 if columns % 4 == 0 else 1
    check(once, x, columns, SoftmaxSchedule(lanes, 1, vector, kept=False), len(x))


def test_subgroups_that_see_only_minus_infinity(once: Once) -> None:
    """A row kept by 128 lanes, of which only the last has anything to say."""
    x = np.full((1, 512), -np.inf, np.float32)
    x[0, 508:] = [1, 2, 3, -300]
    check(once, x, 512, SoftmaxSchedule(128, 1, 4), 1)
    check(once, x, 512, SoftmaxSchedule(128, 1, 4, kept=False), 1)


def test_the_longest_row(once: Once, rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, MAX_COLUMNS)).astype(np.float32)
    check(once, x, MAX_COLUMNS, softmax_schedule(MAX_COLUMNS, DataType.F32), 1)


@pytest.mark.parametrize("columns", [1, 33, 1000, 4096, 70000])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_half_precision(rng: np.random.Generator, columns: int, dtype: str) -> None:
    """Computed in f32 and rounded once: within half a unit in the last place, and a little."""
    x = (rng.standard_normal((3, columns)) * 3).astype(np.float32)
    if dtype == "f16":
        given = x.astype(np.float16)
        values, ulp = given, 2.0**-11
        y = kernels.softmax(given, dispatcher="ref").astype(np.float64)
    else:
        given = (x.view(np.uint32) >> 16).astype(np.uint16)
        values, ulp = (given.astype(np.uint32) << 16).view(np.float32), 2.0**-8
        bits = kernels.softmax(given, dtype="bf16", dispatcher="ref")
        y = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    np.testing.assert_allclose(y, formula(values), rtol=ulp * 1.01, atol=2.0**-25)


def test_shapes_of_arrays() -> None:
    """The last axis is the row; nothing stays nothing; what is no float is refused."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    y = kernels.softmax(x, dispatcher="ref")
    assert y.shape == x.shape
    np.testing.assert_allclose(y.sum(axis=-1), 1, rtol=1e-6)
    assert kernels.softmax(np.zeros((0, 4), np.float32), dispatcher="ref").shape == (0, 4)
    with pytest.raises(BadInputs, match="x holds f32, f16, bf16, not int64"):
        kernels.softmax(np.arange(4), dispatcher="ref")
    with pytest.raises(BadInputs, match="at most 262144"):
        kernels.softmax(np.zeros(MAX_COLUMNS + 1, np.float32), dispatcher="ref")


@pytest.mark.parametrize(
    ("columns", "schedule", "why"),
    [
        (0, SoftmaxSchedule(32), "1 to 262144 columns"),
        (6, SoftmaxSchedule(32, 1, 4), "do not divide"),
        (64, SoftmaxSchedule(48), "multiple of 32"),
        (64, SoftmaxSchedule(64, 2), "share one row"),
        (64, SoftmaxSchedule(16, 1), "fill subgroups"),
        (4096, SoftmaxSchedule(32), "in registers"),
    ],
)
def test_schedules_that_do_not_fit(columns: int, schedule: SoftmaxSchedule, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        softmax(columns, DataType.F32, schedule)


# --- softmax_step ------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 31, 33, 1000, 9000])
def test_softmax_step(once: Once, rng: np.random.Generator, count: int) -> None:
    """A sum beyond 32 bits, whatever the lanes and the grid."""
    x = rng.integers(0, 2**32, count, dtype=np.uint32)
    expected = reference.softmax_step(x)
    for lanes, grid in ((32, 1), (32, 3), (256, 2), (1024, 1)):
        got = once(build_step(SoftmaxStepSchedule(lanes)), [x, np.zeros_like(x)], grid)
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(kernels.softmax_step(x, dispatcher="ref"), expected)


def test_softmax_step_of_zeros() -> None:
    """max(sum, 1) stands in for a sum of zero."""
    assert kernels.softmax_step([0, 0, 0], dispatcher="ref").tolist() == [0, 0, 0]
    assert kernels.softmax_step([1, 0, 1], dispatcher="ref").tolist() == [1 << 15, 0, 1 << 15]
