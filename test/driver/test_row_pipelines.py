"""Launches of programs with rows: they are joined for the lengths of a call, and what they hand over stays in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import Read, Write, f32, u32


@vyre.program
def rms_norm(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    row = x[r, :]
    y[r, :] = row * vyre.rsqrt(vyre.sum(row * row) / f32(len(row)) + 1e-5)


@vyre.program
def scaled(x: Read[f32[:, :]], w: Read[f32], y: Write[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    y[r, :] = x[r, :] * w[:]


@vyre.program
def dropped(x: Read[f32[:, :]], residual: Read[f32[:, :]], y: Write[f32[:, :]], seed: u32) -> None:
    r = vyre.workgroup_id(0)
    row = x[r, :]
    keeps = vyre.rand(seed, r * u32(len(row)) + vyre.arange(len(row))) < 0.75
    y[r, :] = vyre.where(keeps, row, 0.0) + residual[r, :]


@vyre.pipeline
def block(x: Read[f32[:, :]], w: Read[f32], y: Write[f32[:, :]], seed: u32) -> None:
    normed = vyre.buffer(f32, (x.shape[0], x.shape[1]))
    weighted = vyre.buffer(f32, (x.shape[0], x.shape[1]))
    rms_norm[x.shape[0]](x, normed)
    scaled[x.shape[0]](normed, w, weighted)
    dropped[x.shape[0]](weighted, x, y, seed)


@vyre.pipeline
def two_lengths(x: Read[f32[:, :]], z: Read[f32[:, :]], y: Write[f32[:, :]], v: Write[f32[:, :]]) -> None:
    rms_norm[x.shape[0]](x, y)
    rms_norm[z.shape[0]](z, v)


def normed(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide * wide).mean(1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("columns", [64, 1000, 1001, 5000])
def test_a_norm_its_weight_and_what_is_added_are_one_launch(columns: int) -> None:
    rng = np.random.default_rng(columns)
    x, w = (
        rng.standard_normal((5, columns)).astype(np.float32),
        rng.standard_normal(columns).astype(np.float32),
    )
    found = {}
    for target in ("ref", "cpu"):
        found[target] = np.zeros_like(x)
        block.options(target=target)(x, w, found[target], 9)
    kept = found["cpu"] != x
    np.testing.assert_allclose(found["cpu"], np.where(kept, normed(x) * w, 0) + x, rtol=1e-5, atol=1e-5)
    assert 0.65 < kept.mean() < 0.85
    np.testing.assert_allclose(found["ref"], found["cpu"], rtol=1e-6, atol=1e-6)
    report = block.executable("cpu").report({"x": x, "w": w, "y": x}, params={"seed": 9})
    assert len(report.launches) == 1
    assert report.launches[0].work.moved <= 1.1 * (2 * x.nbytes + w.nbytes * 5 + x.nbytes)


def test_rows_of_two_lengths() -> None:
    """A program of two launches has the form for any length."""
    rng = np.random.default_rng(0)
    x, z = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 100), (5, 37)))
    y, v = np.zeros_like(x), np.zeros_like(z)
    two_lengths(x, z, y, v)
    np.testing.assert_allclose(y, normed(x), rtol=1e-5)
    np.testing.assert_allclose(v, normed(z), rtol=1e-5)


def test_code_as_text_is_that_of_rows_of_any_length() -> None:
    """After the passes, which wait for the lengths of a call."""
    text = """vyre 2
program @p workgroup(1) {
  buffer @x : f32[?, ?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %r = workgroup_id x
  %row = slice_load @x[%r, 0] : slice<?xf32>
  %s = slice_reduce<max> %row[0] : f32
  store %s, @y[%r]
}
"""
    assert ".reqntid 256" in vyre.compile(text, target="cuda", passes="default").ptx("sm_90")
    assert "define" in vyre.compile(text, passes="default").llvm()
