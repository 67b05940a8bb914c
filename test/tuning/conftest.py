"""Spaces, workloads and benches that the tuner's tests share."""

from __future__ import annotations

import math

import pytest

from vyre_opt.ir import DataType
from vyre_opt.tuning import Space, kernel_workload

F32, U32 = DataType.F32, DataType.U32


@pytest.fixture
def bowl() -> Space:
    """120 configurations whose cost, `bowl_cost`, has one best, but is not a sum over factors."""
    return Space({"lanes": (32, 64, 128, 256, 512, 1024), "vector": (1, 2, 4, 8), "unroll": (1, 2, 4, 8, 16)})


def bowl_cost(config) -> float:
    lanes, vector, unroll = (math.log2(config[name]) for name in ("lanes", "vector", "unroll"))
    return 1e-5 * (1 + 0.2 * (lanes - 7) ** 2 + 0.1 * (vector + unroll - 4) ** 2 + 0.15 * abs(vector - 2))


@pytest.fixture
def bowl_cost_of():
    return bowl_cost


@pytest.fixture
def small_softmax():
    return kernel_workload("math.softmax", [64 * 16] * 2, [F32] * 2, {"columns": 64})


@pytest.fixture
def small_matvec():
    return kernel_workload("math.matvec_fixed", [16 * 64, 64, 16], [U32] * 3)


@pytest.fixture
def small_step():
    return kernel_workload("math.softmax_step", [300] * 2, [U32] * 2)
