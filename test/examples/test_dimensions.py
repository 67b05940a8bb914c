"""The examples with matrices: right on every target, and proven in bounds as they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vyre_opt
from vyre_opt import parse_file
from vyre_opt.analysis.bounds import BoundsProofs

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize(("rows", "inner", "columns"), [(33, 50, 70), (16, 16, 16), (1, 1, 1), (40, 0, 3)])
def test_matmul(target: str, rows: int, inner: int, columns: int) -> None:
    """Small whole numbers, so that sums are exact in any order."""
    rng = np.random.default_rng(rows)
    a = rng.integers(-8, 8, (rows, inner)).astype(np.float32)
    b = rng.integers(-8, 8, (inner, columns)).astype(np.float32)
    grid = -(-columns // 16), -(-rows // 16)
    matmul = vyre_opt.compile(EXAMPLES / "matmul.vyre", target=target)
    for _ in range(2):  # the second call is a planned one
        c = matmul({"a": a, "b": b}, grid, lengths={"c": (rows, columns)})["c"]
        assert c.shape == (rows, columns)
        assert np.array_equal(c, a @ b)


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("passes", ["", "default"])
def test_plate(target: str, passes: str) -> None:
    plate = np.random.default_rng(3).random((19, 45), np.float32)
    expected = plate.copy()
    for _ in range(50):
        sides = (expected[:-2, 1:-1] + expected[2:, 1:-1]) + (expected[1:-1, :-2] + expected[1:-1, 2:])
        expected[1:-1, 1:-1] = sides * np.float32(0.25)
    spread = vyre_opt.compile(EXAMPLES / "plate.vyre", target=target, passes=passes)
    for _ in range(2):
        assert np.array_equal(spread({"plate": plate})["plate"], expected)


@pytest.mark.parametrize("name", ["matmul", "plate"])
def test_every_access_is_proven_in_bounds(name: str) -> None:
    (program,) = parse_file(EXAMPLES / f"{name}.vyre").programs.values()
    proofs = BoundsProofs(program)
    accesses = [op for op in program.walk() if "buffer" in op.attrs and op.operands]
    assert [op for op in accesses if op not in proofs.proven] == []
