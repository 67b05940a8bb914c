"""Barriers wait for all lanes, also where lanes of a warp left a loop at different turns."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_opt import kernels

pytestmark = pytest.mark.gpu


def test_lanes_without_work_wait_for_the_others() -> None:
    """In the last block of columns some lanes of each warp have no rows, and add up what the others stored.

    Integers, so that results are exact.
    """
    rng = np.random.default_rng(4)
    for inner, outer in ((1500, 1500), (2000, 1500), (700, 1500), (640, 508), (1500, 1020), (900, 60)):
        for _ in range(20):
            acc = rng.integers(0, 1 << 32, inner, dtype=np.uint32)
            core = rng.integers(0, 1 << 32, (inner, outer), dtype=np.uint32)
            actual = kernels.tt_contract_step(acc, core, dispatcher="cuda")
            np.testing.assert_array_equal(actual, kernels.tt_contract_step(acc, core), f"{inner} x {outer}")
    x = rng.standard_normal((1500, 1500)).astype(np.float32)
    for _ in range(20):
        acc = rng.standard_normal(1500).astype(np.float32)
        exact = acc.astype(np.float64) @ x.astype(np.float64)
        actual = kernels.tt_contract_step(acc, x, dispatcher="cuda")
        assert np.linalg.norm(actual - exact) < 1e-5 * np.linalg.norm(exact)
