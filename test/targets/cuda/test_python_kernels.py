"""Kernels and pipelines in Python on a GPU: the bits of the interpreter, in place, on the arrays of torch and CuPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.gpu_arrays import to_gpu, to_host
from support.python_programs import CASES, same_bits

import vyre_opt as vyre
from vyre_opt import BadInputs, ProgramError
from vyre_opt.lang import Kernel, Read, ReadWrite, Write, f32, u8, u32

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["torch", "cupy"])
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


@pytest.mark.parametrize(("kernel", "grid", "arguments"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_a_kernel_gives_the_bits_of_the_interpreter(
    library: Any, kernel: Kernel, grid: tuple[int, ...], arguments: Callable[[], list[Any]]
) -> None:
    expected = arguments()
    kernel.options(target="ref", passes=None)[grid](*expected)
    for _ in range(2):  # the second call has a plan
        actual = [to_gpu(library, argument) for argument in arguments()]
        kernel[grid](*actual)
        vyre.synchronize()
        for want, got in zip(expected, actual, strict=True):
            if isinstance(want, np.ndarray):
                assert same_bits(want, to_host(got)).all()


@vyre.program(workgroup=128)
def scale(a: f32, x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = a * x[i]


@vyre.program(workgroup=128)
def count_lines(text: Read[u8], lines: ReadWrite[u32]) -> None:
    i = vyre.global_id(0)
    if i < len(text) and text[i] == 10:
        vyre.atomic_add(lines, 0, 1)


@vyre.pipeline
def count(text: Read[u8], lines: ReadWrite[u32]) -> None:
    decoded = vyre.buffer(u8, len(text) // 2)
    vyre.decode.hex(text, decoded)
    count_lines[vyre.ceil_div(len(decoded), 128)](decoded, lines)


@vyre.pipeline
def powers(a: f32, x: Read[f32], y: Write[f32]) -> None:
    t = vyre.buffer(f32, len(x))
    n = vyre.ceil_div(len(x), 128)
    scale[n](a, x, t)
    for _ in range(3):
        scale[n](2, t, y)
        scale[n](a, y, t)
    scale[n](0.5, t, y)


@pytest.mark.parametrize("passes", [None, "default"])
def test_a_pipeline_runs_in_place(library: Any, passes: str | None) -> None:
    text = np.frombuffer(b"hello\nworld\n".hex().encode() * 1000, np.uint8)
    lines = to_gpu(library, np.zeros(1, np.int32))
    lines = lines.view(library.uint32)
    for _ in range(3):
        count.options(passes=passes)(to_gpu(library, text), lines)
    vyre.synchronize()
    assert to_host(lines).tolist() == [6000]
    x = np.arange(1000, dtype=np.float32)
    y = to_gpu(library, np.zeros(1000, np.float32))
    other = powers.options(passes=passes)
    for a in (3.0, 2.0, 2.0):
        other(a, to_gpu(library, x), y)
        vyre.synchronize()
        assert np.array_equal(to_host(y), x * np.float32(a**4 * 4))


def test_a_view_that_is_not_aligned_is_written(library: Any) -> None:
    x = to_gpu(library, np.arange(100, dtype=np.float32))
    y = to_gpu(library, np.zeros(101, np.float32))
    for _ in range(2):
        scale[1](2.0, x, y[1:])
    vyre.synchronize()
    assert to_host(y).tolist() == [0.0, *(2.0 * k for k in range(100))]


def test_arrays_that_share_memory(library: Any) -> None:
    """One that is read is copied before; two that are written are refused."""
    x = to_gpu(library, np.arange(100, dtype=np.float32))
    scale[1](2.0, x, x)
    vyre.synchronize()
    assert to_host(x).tolist() == [2.0 * k for k in range(100)]


def test_arrays_on_two_sides_are_refused(library: Any) -> None:
    with pytest.raises(BadInputs, match="not on the GPU"):
        scale[1](2.0, np.zeros(4, np.float32), to_gpu(library, np.zeros(4, np.float32)))


# --- several dimensions


@vyre.program(workgroup=(16, 16))
def transposed(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    tile = vyre.shared(f32, (16, 17))
    i, j = vyre.local_id(0), vyre.local_id(1)
    row, column = vyre.global_id(1), vyre.global_id(0)
    tile[j, i] = x[row, column] if row < len(x) and column < x.shape[1] else 0.0
    vyre.barrier()
    row, column = vyre.workgroup_id(0) * 16 + j, vyre.workgroup_id(1) * 16 + i
    if row < len(y) and column < y.shape[1]:
        y[row, column] = tile[i, j]


@vyre.pipeline
def turned_twice(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    rows, columns = x.shape
    t = vyre.buffer(f32, (columns, rows))
    transposed[vyre.ceil_div(columns, 16), vyre.ceil_div(rows, 16)](x, t)
    transposed[vyre.ceil_div(rows, 16), vyre.ceil_div(columns, 16)](t, y)


@pytest.mark.parametrize("passes", [None, "default"])
def test_rows_and_columns_run_in_place(library: Any, passes: str | None) -> None:
    for rows, columns in ((33, 50), (50, 33), (33, 50)):  # of one number of elements: shapes tell calls apart
        x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        y, z = (to_gpu(library, np.zeros(s, np.float32)) for s in ((columns, rows), (1 + rows * columns,)))
        grid = vyre.ceil_div(columns, 16), vyre.ceil_div(rows, 16)
        transposed.options(passes=passes)[grid](to_gpu(library, x), y)
        unaligned = z[1:].reshape(rows, columns)
        turned_twice.options(passes=passes)(to_gpu(library, x), unaligned)
        vyre.synchronize()
        assert np.array_equal(to_host(y), x.T)
        assert np.array_equal(to_host(z)[1:].reshape(rows, columns), x)


@vyre.program(workgroup=8)
def row(x: Read[f32[:, 8]], y: Write[f32]) -> None:
    j = vyre.local_id(0)
    y[j] = x[vyre.workgroup_id(0) + 3, j]


def test_a_fault_names_the_dimension(library: Any) -> None:
    row[1](to_gpu(library, np.zeros((3, 8), np.float32)), to_gpu(library, np.zeros(8, np.float32)))
    with pytest.raises(ProgramError, match=r"@x: index \(3, \d\), shape .*") as caught:
        vyre.synchronize()
    assert "outside along dimension 0" in str(caught.value)


@pytest.mark.filterwarnings("ignore:this launch has 0 invocations:vyre_opt.ProgramWarning")
@pytest.mark.parametrize("passes", [None, "default"])
def test_a_grid_without_workgroups_launches_nothing(library: Any, passes: str | None) -> None:
    """The driver refuses such a grid; empty arrays ask for one."""
    x, y = to_gpu(library, np.ones(100, np.float32)), to_gpu(library, np.full(100, 7, np.float32))
    kernel = scale.options(passes=passes)
    for grid in (0, (1, 0), 0):
        kernel[grid](2.0, x, y)
    empty = to_gpu(library, np.zeros(0, np.float32))
    for _ in range(2):
        kernel[vyre.ceil_div(0, 128)](2.0, empty, to_gpu(library, np.zeros(0, np.float32)))
        powers.options(passes=passes)(2.0, empty, y)
    vyre.synchronize()
    assert to_host(y).tolist() == [7.0] * 100
