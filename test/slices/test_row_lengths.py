"""Rows of a class of lengths: the same bits as code for their own length, and a fault for longer rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.quick import quick
from support.row_pipelines import row_pipeline

import vyre_opt as vyre
from vyre_opt import ProgramError, Read, Write, f32, u32
from vyre_opt.driver import slice_lengths

LENGTHS = (1, 8, 9, 31, 64, 65, 100, 1000, 4097, 70_000)


@vyre.program
def softmax(x: Read[f32[:, :]], w: Read[f32], y: Write[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    row = x[r, :] * w[:]
    e = vyre.exp(row - vyre.max(row))
    y[r, :] = e / vyre.sum(e)


@vyre.program
def totals(x: Read[f32[:, :]], w: Read[f32], y: Write[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    keeps = vyre.rand(7, r * u32(len(x[r, :])) + vyre.arange(len(x[r, :]))) < 0.75
    y[r, :] = vyre.where(keeps, vyre.cumsum(x[r, :]), w[:])


@vyre.program
def ends(x: Read[f32[:, :]], w: Read[f32], y: Write[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    y[r, 0] = f32(vyre.argmax(x[r, :])) + vyre.min(w[:])


@vyre.pipeline
def two_launches(x: Read[f32[:, :]], w: Read[f32], y: Write[f32[:, :]]) -> None:
    middle = vyre.buffer(f32, (x.shape[0], x.shape[1]))
    softmax[x.shape[0]](x, w, middle)
    totals[x.shape[0]](middle, w, y)


def results(kernel: Any, rows: int, columns: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(columns)
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    w, y = rng.standard_normal(columns).astype(np.float32), np.zeros_like(x)
    (kernel if kernel.__class__ is type(two_launches) else kernel[rows])(x, w, y)
    return y


@pytest.mark.parametrize("columns", quick(LENGTHS, keep=4))
@pytest.mark.parametrize("kernel", [softmax, totals, ends, two_launches], ids=lambda k: k.__name__)
def test_a_class_of_lengths_gives_the_bits_of_a_length(
    kernel: Any, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also rows with places that no lane of the schedule has, and rows too long for registers."""
    own = results(kernel, 3, columns)
    monkeypatch.setattr(slice_lengths, "MOST_LENGTHS", 0)
    monkeypatch.setattr(slice_lengths.FixedRows, "most", 0)
    of_class = kernel.options(target="cpu", passes="default")
    assert results(of_class, 3, columns).tobytes() == own.tobytes()


@pytest.mark.parametrize("seed", quick((8, 43, 55, 1, 2), keep=2))
def test_pipelines_of_classes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also rows that stay in registers while their buffer is overwritten, beside rows of the pipeline's own buffers, whose length is not
    asserted."""
    monkeypatch.setattr(slice_lengths.FixedRows, "most", 0)
    sample = row_pipeline(seed)
    expected = vyre.run(sample.text, sample.arrays, target="ref")
    found = vyre.run(sample.text, sample.arrays, target="cpu", passes="default")
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


TEXT = """vyre 2
program @p workgroup(1) {
  buffer @x : f32[?, ?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %n = len @x, 1
  %most = const 100 : u32
  %p = ge %most, %n
  assert %p, "at most 100 columns"
  %r = workgroup_id x
  %row = slice_load @x[%r, 0] : slice<?xf32>
  %s = slice_reduce<max> %row[0] : f32
  store %s, @y[%r]
}
"""


def test_an_assert_says_how_long_rows_are() -> None:
    """Such rows are in registers of as many lanes as hold them, and a longer row is a fault."""
    executable = vyre.compile(TEXT, passes="default")
    assert ".reqntid 16" in vyre.compile(TEXT, target="cuda", passes="default").ptx("sm_90")
    x = np.arange(300, dtype=np.float32).reshape(3, 100)
    assert executable({"x": x}, 3, lengths={"y": 3})["y"].tolist() == [99, 199, 299]
    with pytest.raises(ProgramError, match="at most 100 columns"):
        executable({"x": x.reshape(1, 300)}, 1, lengths={"y": 1})
