"""Launches that are rewritten for a GPU: the same results, and faults that name the program's own invocations."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from support.neighbour_programs import neighbour_program
from support.rewritten_launches import rewritten_launches

import vyre_opt as vyre
from vyre_opt import Read, ReadWrite, Write, f16, f32, f64, global_id, u8, u32
from vyre_opt.execution import ProgramError
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
    return rewritten_launches(monkeypatch, RESIDENT=1, MIN_INVOCATIONS=0)


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


ROWS = """vyre 2
program @p workgroup(256){grid} {{
  buffer @x : {dtype}[?, ?] {access} binding(0) {live}
  buffer @w : {dtype}[?] read binding(1)
  buffer @z : {dtype}[?] write binding(2) live_out
  %row = global_id x
  %rows = len @x, 0
  %n = len @x, 1
  %is = lt %row, %rows
  if %is {{
    %zero = const 0 : {dtype}
    {before}
    %sum = for %c = {lower} to %n step 1 iter(%a = %zero : {dtype}) {{
      %v = load @x[%row, %c]
      %u = load @w[%c]
      %t = mul %v, %u
      {store}
      %next = sub %t, %a
      yield %next
    }}
    store %sum, @z[%row]
  }}
}}
"""
IN_PLACE = """for %d = 0 to %n step 1 {
      %o = load @x[%row, %d]
      %p = add %o, %o
      store %p, @x[%row, %d]
    }"""


@pytest.mark.parametrize("dtype", ["u8", "f16", "i32", "f32", "u64", "f64"])
@pytest.mark.parametrize("in_place", [False, True])
def test_rows_of_lanes(dtype: str, in_place: bool) -> None:
    """Lanes load their rows together, also what they have stored just before; the last subgroup has fewer rows."""
    access, live = ("read_write", "live_in live_out") if in_place else ("read", "")
    text = ROWS.format(
        grid="",
        dtype=dtype,
        access=access,
        live=live,
        lower=1 if in_place else 0,
        before=IN_PLACE if in_place else "",
        store="store %t, @x[%row, %c]" if in_place else "",
    )
    types = {"u8": "u1", "f16": "f2", "i32": "i4", "f32": "f4", "u64": "u8", "f64": "f8"}
    rng = np.random.default_rng(5)
    for rows, columns in ((1, 70), (32, 64), (100, 33), (256, 8), (700, 133), (40_000, 20)):
        x, w = (rng.integers(0, 3, shape).astype(types[dtype]) for shape in ((rows, columns), (columns,)))
        inputs, grid = {"x": x, "w": w, "z": np.zeros(rows, x.dtype)}, (-(-rows // 256), 1, 1)
        found = vyre.compile(text, target="cuda")(inputs, grid)
        expected = vyre.compile(text, target="cpu")(inputs, grid)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, f"@{name} of {rows} x {columns}")


def test_a_fault_in_a_narrow_workgroup() -> None:
    x, w, z = np.ones((700, 64), np.float32), np.ones(64, np.float32), np.zeros(600, np.float32)
    text = ROWS.format(grid=" grid(3)", dtype="f32", access="read", live="", lower=0, before="", store="")
    enough = np.ones(700, np.float32)
    found = vyre.compile(text, target="cuda")({"x": x, "w": w, "z": enough}, (3, 1, 1))
    np.testing.assert_array_equal(found["z"], np.zeros(700))
    with pytest.raises(
        ProgramError, match=r"@z: index 6\d\d, .* by workgroup \(2,0,0\) local id \((8[89]|9\d|1\d\d),0,0\)"
    ):
        vyre.compile(text, target="cuda")({"x": x, "w": w, "z": z}, (3, 1, 1))


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
