"""Launches that are rewritten for a GPU: the same results, and faults that name the program's own invocations."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from support.neighbour_programs import neighbour_program
from support.rewritten_launches import rewritten_launches

import vyre_opt as vyre
from vyre_opt import Read, ReadWrite, Write, f16, f32, f64, global_id, u8, u32
from vyre_opt.execution.dispatcher import ProgramError
from vyre_opt.execution.plans.neighbours import Neighbours
from vyre_opt.execution.plans.steps import LaunchStep

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


@vyre.program(workgroup=(32, 8))
def transpose(x: Read[Annotated[f32, :, :]], y: Write[Annotated[f32, :, :]]) -> None:
    j, i = global_id(0), global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        y[j, i] = x[i, j]


@vyre.program
def histogram(x: Read[u8], bins: ReadWrite[u32]) -> None:
    i = global_id(0)
    if i < len(x):
        vyre.atomic_add(bins, x[i], 1)


def on_gpu(kernel: Any) -> Any:
    """The kernel for the GPU, without the plans of earlier calls."""
    return vyre.program(kernel.function).options(target="cuda")


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[LaunchStep]:
    """Small launches are rewritten too; the list gets each as it is then."""
    return rewritten_launches(monkeypatch, RESIDENT=1, LEAST_COUNTING=0)


@pytest.mark.parametrize("count", [1, 3, 255, 256, 257, 1023, 4096, 100_003])
@pytest.mark.parametrize("kernel", [scale, widen, neighbours], ids=lambda kernel: kernel.function.__name__)
def test_all_lengths(kernel: Any, count: int, launched: list[LaunchStep]) -> None:
    """Those behind the last whole vector, and grids that the factor does not divide."""
    rng = np.random.default_rng(count)
    source, target = (b.dtype for b in kernel.module.programs[kernel.function.__name__].bound_buffers)
    types = {"f32": np.float32, "u8": np.uint8, "f64": np.float64, "f16": np.float16}
    x = rng.integers(0, 200, count).astype(types[str(source)])
    found, expected = (np.zeros(count, types[str(target)]) for _ in range(2))
    grid = -(-count // 256)
    on_gpu(kernel)[grid](x, found)
    kernel.options(target="ref")[grid](x, expected)
    np.testing.assert_array_equal(found, expected)
    assert launched[-1].neighbours.count > 1


@pytest.mark.parametrize("shape", [(512, 1024), (1027, 516), (1000, 999)], ids=str)
def test_a_transpose_in_tiles(shape: tuple[int, int]) -> None:
    """Rows that are whole vectors along both axes, along one, and along none."""
    x = np.random.default_rng(0).random(shape, np.float32)
    y = np.zeros(shape[::-1], np.float32)
    vyre.program(transpose.function, workgroup=(32, 8)).options(target="cuda")[
        -(-shape[1] // 32), -(-shape[0] // 8)
    ](x, y)
    np.testing.assert_array_equal(y, x.T)


def test_random_programs(launched: list[LaunchStep]) -> None:
    for seed in range(60):
        sample = neighbour_program(seed)
        names = ("x", "y", "z", "bins_add", "bins_max", "bins_xor")
        inputs = dict(zip(names, sample.arrays, strict=True))
        expected = vyre.compile(sample.text, target="ref")(inputs, sample.grid)
        found = vyre.compile(sample.text, target="cuda")(inputs, sample.grid)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, f"seed {seed} @{name}\n{sample.text}")
    assert sum(step.neighbours.count > 1 for step in launched) > 20


def test_a_fault_names_the_invocations_of_the_program(launched: list[LaunchStep]) -> None:
    x, y = np.zeros(1024, np.float32), np.zeros(1000, np.float32)
    with pytest.raises(ProgramError, match=r"@y: .* by workgroup \(3,0,0\) local id \(232 to 235,0,0\)"):
        on_gpu(scale)[4](x, y)
    assert [step.neighbours for step in launched] == [Neighbours(4)]


@pytest.mark.parametrize("count", [1_000_003, 3_000_000])
def test_a_histogram_is_counted_by_workgroups(count: int, launched: list[LaunchStep]) -> None:
    x = np.random.default_rng(count).integers(0, 256, count).astype(np.uint8)
    bins = np.arange(256, dtype=np.uint32)
    on_gpu(histogram)[-(-count // 256)](x, bins)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=256) + np.arange(256))
    assert launched[-1].takes_turns
    few = np.zeros(200, np.uint32)
    with pytest.raises(
        ProgramError, match=r"atomic_add out of bounds of @bins: index 2\d\d, length 200, by a workgroup"
    ):
        on_gpu(histogram)[-(-count // 256)](x, few)


def test_small_launches_stay() -> None:
    """A launch that would leave multiprocessors idle is not made smaller."""
    x, y = np.ones(4096, np.float32), np.zeros(4096, np.float32)
    kernel = on_gpu(scale)
    kernel[16](x, y)
    assert set(y) == {3.0}
