"""scan.prefix over any grid, and the array function; the other programs are in
test/support/kernel_cases."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.each import each
from support.quick import quick

from vyre_opt import kernels
from vyre_opt.execution import BadInputs
from vyre_opt.ir import DataType
from vyre_opt.kernels.scan import ScanSchedule, prefix, prefix_state


def test_any_length_over_any_grid(once) -> None:
    """Fewer and more workgroups than tiles: each tile is done once, and nobody waits for ever."""
    schedule = ScanSchedule(32, 1, 1)
    program = prefix(DataType.U32, schedule)

    def check(seed: int) -> None:
        draw = random.Random(seed)
        count, grid, start = draw.randint(1, 700), draw.randint(1, 9), draw.randrange(2**32 - 700)
        x = np.arange(start, start + count, dtype=np.uint32)
        state = np.zeros(prefix_state(schedule, count, DataType.U32), np.uint64)
        inputs = [x, np.zeros_like(x), state, np.zeros(1, np.uint32)]
        np.testing.assert_array_equal(once(program, inputs, grid), np.cumsum(x, dtype=np.uint32))

    each(range(20), check)


def test_arrays(rng: np.random.Generator, target: str) -> None:
    x = rng.integers(0, 9, (3, 2000)).astype(np.int32)
    np.testing.assert_array_equal(
        kernels.prefix_scan(x, dispatcher=target), np.cumsum(x, dtype=np.int32).reshape(3, 2000)
    )
    assert kernels.prefix_scan(np.zeros(0, np.float32), dispatcher=target).size == 0
    with pytest.raises(BadInputs, match="x holds u32, i32, f32, u64, i64, f64, not int16"):
        kernels.prefix_scan(np.zeros(3, np.int16), dispatcher=target)


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.float64])
@pytest.mark.parametrize("count", quick([1, 100_003, 1000, 300_000], keep=2))
def test_sums_of_64_bits(rng: np.random.Generator, target: str, kind: type, count: int) -> None:
    """Of one tile and of many, of which each waits for those before it."""
    if target == "ref" and count > 1000:
        count = 20_003
    x = rng.integers(0, 1 << 40, count).astype(kind)
    expected = np.cumsum(x)  # below 2^59: of f64 some are rounded
    np.testing.assert_allclose(kernels.prefix_scan(x, dispatcher=target), expected, rtol=1e-13)


def test_many_tiles(rng: np.random.Generator, target: str) -> None:
    """Long enough for the look-back, where the target has one."""
    x = rng.integers(0, 2**32, 70_001, dtype=np.uint32)
    np.testing.assert_array_equal(kernels.prefix_scan(x, dispatcher=target), np.cumsum(x, dtype=np.uint32))
