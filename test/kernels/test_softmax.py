"""The array functions softmax and softmax_step, and schedules that cannot be; their programs are in
test/support/kernel_cases."""

from __future__ import annotations

import numpy as np
import pytest
from support.each import each

from vyre_opt import kernels
from vyre_opt.execution import BadInputs
from vyre_opt.ir import DataType
from vyre_opt.ir.ops import MAX_COLUMNS
from vyre_opt.kernels.softmax_rows import softmax
from vyre_opt.kernels.softmax_schedules import SoftmaxSchedule


def test_shapes_of_arrays(target: str) -> None:
    """The last axis is the row; nothing stays nothing; what is no float is refused."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    y = kernels.softmax(x, dispatcher=target)
    assert y.shape == x.shape
    np.testing.assert_allclose(y.sum(axis=-1), 1, rtol=1e-6)
    assert kernels.softmax(np.zeros((0, 4), np.float32), dispatcher=target).shape == (0, 4)
    with pytest.raises(BadInputs, match="x holds f32, f16, bf16, not int64"):
        kernels.softmax(np.arange(4), dispatcher=target)
    with pytest.raises(BadInputs, match="at most 262144"):
        kernels.softmax(np.zeros(MAX_COLUMNS + 1, np.float32), dispatcher=target)


UNFIT = [
    (0, SoftmaxSchedule(32), "1 to 262144 columns"),
    (6, SoftmaxSchedule(32, 1, 4), "do not divide"),
    (64, SoftmaxSchedule(48), "multiple of 32"),
    (64, SoftmaxSchedule(64, 2), "share one row"),
    (64, SoftmaxSchedule(16, 1), "fill subgroups"),
    (4096, SoftmaxSchedule(32), "in registers"),
    (4096, SoftmaxSchedule(64, in_registers=False, splits=2), "in registers or workgroup memory"),
    (4096, SoftmaxSchedule(16, 2, in_registers=False, in_shared=True), "of 32 lanes"),
    (8192, SoftmaxSchedule(64, in_registers=False, in_shared=True), "in registers"),
    (1 << 15, SoftmaxSchedule(64, in_registers=False, in_shared=True, splits=2), "in registers"),
]


def test_schedules_that_do_not_fit() -> None:
    def check(case: tuple[int, SoftmaxSchedule, str]) -> None:
        columns, schedule, why = case
        with pytest.raises(ValueError, match=why):
            softmax(columns, DataType.F32, schedule)

    each(UNFIT, check)


@pytest.mark.parametrize("columns", [33, 3000])
def test_half_precision(rng: np.random.Generator, target: str, columns: int) -> None:
    """bf16 is given by its bits and comes back as them; f16 is an array of its own type."""
    x = (rng.standard_normal((3, columns)) * 3).astype(np.float32)
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    inputs = {"f16": x.astype(np.float16), "bf16": (bits.astype(np.uint32) << 16).view(np.float32)}
    expected = {name: np.exp(v.astype(np.float64)) for name, v in inputs.items()}
    half = kernels.softmax(inputs["f16"], dispatcher=target)
    assert half.dtype == np.float16
    sums = expected["f16"].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(half, expected["f16"] / sums, rtol=2.0**-10, atol=2.0**-24)
    brain = kernels.softmax(bits, dtype="bf16", dispatcher=target)
    assert brain.dtype == np.uint16
    sums = expected["bf16"].sum(axis=1, keepdims=True)
    values = (brain.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(values, expected["bf16"] / sums, rtol=2.0**-7)


def test_softmax_step_of_many() -> None:
    """In two launches where threads share the sum."""
    x = np.random.default_rng(3).integers(0, 1 << 32, (2, (1 << 20) + 3), dtype=np.uint32)
    expected = (x.astype(np.uint64) << np.uint64(16)) // x.sum(dtype=np.uint64)
    out = np.zeros_like(x)
    for _ in range(2):  # without a plan, and with one
        np.testing.assert_array_equal(kernels.softmax_step(x), expected)
        assert kernels.softmax_step(x, out=out) is out
        np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(kernels.softmax_step(x.astype(np.int64)), expected)
    with pytest.raises(BadInputs):
        kernels.softmax_step(x, out=out[0])


def test_softmax_step_of_zeros(target: str) -> None:
    """max(sum, 1) stands in for a sum of zero."""
    assert kernels.softmax_step([0, 0, 0], dispatcher=target).tolist() == [0, 0, 0]
    assert kernels.softmax_step([1, 0, 1], dispatcher=target).tolist() == [1 << 15, 0, 1 << 15]
