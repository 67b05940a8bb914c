"""scan.prefix in its two forms, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vyre_opt import dispatcher, kernels
from vyre_opt.ir.types import DataType
from vyre_opt.kernels.scan import ScanSchedule, prefix, prefix_grid, prefix_tiles
from vyre_opt.runtime.dispatcher import BadInputs

Once = Callable[..., np.ndarray]
TYPES = {"u32": np.uint32, "i32": np.int32, "f32": np.float32}
SCHEDULES = [
    ScanSchedule(),
    ScanSchedule(look_back=False),
    ScanSchedule(64, 2, 1),
    ScanSchedule(32, 1, 2),
    ScanSchedule(96, 3, 1, look_back=False),
]


def scan(x: np.ndarray, schedule: ScanSchedule, grid: int = 0) -> np.ndarray:
    inputs = [x, np.zeros_like(x)]
    if schedule.look_back:
        inputs += [np.zeros(prefix_tiles(schedule, len(x)), np.uint64), np.zeros(1, np.uint32)]
    names = {np.dtype(t): DataType.of(name) for name, t in TYPES.items()}
    program = prefix(names[x.dtype], schedule)
    (y,) = dispatcher("ref").dispatch(program, inputs, grid or prefix_grid(schedule, len(x)))
    return y


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 1000, 4096, 4097, 10001])
def test_prefix(rng: np.random.Generator, schedule: ScanSchedule, dtype: str, count: int) -> None:
    """Over its own grid and over one that is too small; more tiles than a look-back window has lanes."""
    if dtype == "f32":
        x = rng.standard_normal(count).astype(np.float32)
        expected = np.cumsum(x, dtype=np.float64)
        for grid in (0, 3):
            np.testing.assert_allclose(scan(x, schedule, grid), expected, rtol=1e-5, atol=1e-4)
        return
    x = rng.integers(0, 2**32, count, dtype=np.uint32).view(TYPES[dtype])
    expected = np.cumsum(x, dtype=x.dtype)
    for grid in (0, 3):
        np.testing.assert_array_equal(scan(x, schedule, grid), expected)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 700), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_any_length_over_any_grid(count: int, grid: int, start: int) -> None:
    x = np.arange(start, start + count).astype(np.uint32)
    schedule = ScanSchedule(32, 1, 1)
    np.testing.assert_array_equal(scan(x, schedule, grid), np.cumsum(x, dtype=np.uint32))


def test_arrays(rng: np.random.Generator) -> None:
    x = rng.integers(0, 9, (3, 2000)).astype(np.int32)
    np.testing.assert_array_equal(
        kernels.prefix_scan(x, dispatcher="ref"), np.cumsum(x, dtype=np.int32).reshape(3, 2000)
    )
    assert kernels.prefix_scan(np.zeros(0, np.float32), dispatcher="ref").size == 0
    with pytest.raises(BadInputs, match="x holds u32, i32, f32, not float64"):
        kernels.prefix_scan(np.zeros(3), dispatcher="ref")
