"""scan.prefix over any grid, and the array function; the other programs are in
test/support/kernel_cases."""

from __future__ import annotations

import random

import numpy as np
import pytest

from vyre_opt import kernels
from vyre_opt.ir.types import DataType
from vyre_opt.kernels.scan import ScanSchedule, prefix, prefix_tiles
from vyre_opt.runtime.dispatcher import BadInputs


@pytest.mark.parametrize("seed", range(20))
def test_any_length_over_any_grid(once, seed: int) -> None:
    """Fewer and more workgroups than tiles: each tile is done once, and nobody waits for ever."""
    draw = random.Random(seed)
    count, grid, start = draw.randint(1, 700), draw.randint(1, 9), draw.randrange(2**32 - 700)
    x = np.arange(start, start + count, dtype=np.uint32)
    schedule = ScanSchedule(32, 1, 1)
    state = np.zeros(prefix_tiles(schedule, count), np.uint64)
    inputs = [x, np.zeros_like(x), state, np.zeros(1, np.uint32)]
    y = once(prefix(DataType.U32, schedule), inputs, grid)
    np.testing.assert_array_equal(y, np.cumsum(x, dtype=np.uint32))


def test_arrays(rng: np.random.Generator, target: str) -> None:
    x = rng.integers(0, 9, (3, 2000)).astype(np.int32)
    np.testing.assert_array_equal(
        kernels.prefix_scan(x, dispatcher=target), np.cumsum(x, dtype=np.int32).reshape(3, 2000)
    )
    assert kernels.prefix_scan(np.zeros(0, np.float32), dispatcher=target).size == 0
    with pytest.raises(BadInputs, match="x holds u32, i32, f32, not float64"):
        kernels.prefix_scan(np.zeros(3), dispatcher=target)


def test_many_tiles(rng: np.random.Generator, target: str) -> None:
    """Long enough for the look-back, where the target has one."""
    x = rng.integers(0, 2**32, 70_001, dtype=np.uint32)
    np.testing.assert_array_equal(kernels.prefix_scan(x, dispatcher=target), np.cumsum(x, dtype=np.uint32))
