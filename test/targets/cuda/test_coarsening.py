"""Launches whose invocations do the work of several: the same results, and faults that name the program's own invocations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.neighbour_programs import neighbour_program

import vyre_opt as vyre
from vyre_opt import Read, Write, f16, f32, f64, global_id, u8
from vyre_opt.driver import coarsened_plan
from vyre_opt.driver.coarsened_plan import Coarsening
from vyre_opt.execution.dispatcher import ProgramError

pytestmark = pytest.mark.gpu


@vyre.program
def scale(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = x[i] * 2.0 + 1.0


@vyre.program
def widen(x: Read[u8], y: Write[f64]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = f64(x[i])


@vyre.program
def neighbours(x: Read[f16], y: Write[f16]) -> None:
    i = global_id(0)
    if i > 0 and i + 1 < len(x):
        y[i] = x[i - 1] + x[i + 1]


@pytest.fixture
def coarsened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Small launches are coarsened too; the list gets by how much each was."""
    monkeypatch.setattr(coarsened_plan, "INVOCATIONS", 0)
    factors: list[int] = []
    launch = Coarsening._launch

    def watched(self: Coarsening, step: Any, least: int) -> Any:
        result = launch(self, step, least)
        factors.append(result.neighbours)
        return result

    monkeypatch.setattr(Coarsening, "_launch", watched)
    return factors


@pytest.mark.parametrize("count", [1, 3, 255, 256, 257, 1023, 4096, 100_003])
@pytest.mark.parametrize("kernel", [scale, widen, neighbours], ids=lambda kernel: kernel.function.__name__)
def test_all_lengths(kernel: Any, count: int, coarsened: list[int]) -> None:
    """Those behind the last whole vector, and grids that the factor does not divide."""
    rng = np.random.default_rng(count)
    source, target = (b.dtype for b in kernel.module.programs[kernel.function.__name__].bound_buffers)
    types = {"f32": np.float32, "u8": np.uint8, "f64": np.float64, "f16": np.float16}
    x = rng.integers(0, 200, count).astype(types[str(source)])
    found, expected = (np.zeros(count, types[str(target)]) for _ in range(2))
    grid = -(-count // 256)
    kernel.options(target="cuda")[grid](x, found)
    kernel.options(target="ref")[grid](x, expected)
    np.testing.assert_array_equal(found, expected)
    assert coarsened[-1] > 1


def test_random_programs(coarsened: list[int]) -> None:
    for seed in range(60):
        sample = neighbour_program(seed)
        names = ("x", "y", "z", "bins_add", "bins_max", "bins_xor")
        inputs = dict(zip(names, sample.arrays, strict=True))
        expected = vyre.compile(sample.text, target="ref")(inputs, sample.grid)
        found = vyre.compile(sample.text, target="cuda")(inputs, sample.grid)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, f"seed {seed} @{name}\n{sample.text}")
    assert sum(factor > 1 for factor in coarsened) > 20


def test_a_fault_names_the_invocations_of_the_program(coarsened: list[int]) -> None:
    x, y = np.zeros(1024, np.float32), np.zeros(1000, np.float32)
    with pytest.raises(ProgramError, match=r"@y: .* by workgroup \(3,0,0\) local id \(232 to 235,0,0\)"):
        scale.options(target="cuda")[4](x, y)
    assert coarsened == [4]


def test_small_launches_stay() -> None:
    """A launch that would leave multiprocessors idle is not made smaller."""
    x, y = np.ones(4096, np.float32), np.zeros(4096, np.float32)
    kernel = scale.options(target="cuda")
    kernel[16](x, y)
    assert set(y) == {3.0}
