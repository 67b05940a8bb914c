"""Stages that read elements of a pipeline's own buffer which no stage before them writes are told; those whose elements are all written are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dimension_programs import sound_pipeline
from support.each import each
from support.tools_inside import call_run
from support.warned import warned

import vyre_opt as vyre
from vyre_opt import parse
from vyre_opt.ir.warnings import partly_written
from vyre_opt.ir.warnings.launch_warnings import pipeline_warnings
from vyre_opt.lang import Read, ReadWrite, Write, f32, u32


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


@vyre.program(workgroup=64)
def first_half(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x) // 2:
        y[i] = x[i] * 2.0


@vyre.program(workgroup=64)
def copied(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = x[i]


@vyre.program(workgroup=64)
def inner(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if 0 < i < len(x) - 1:
        y[i] = x[i - 1] + x[i] + x[i + 1]


@vyre.program(workgroup=64)
def whole(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        if i == 0 or i == len(x) - 1:
            y[i] = x[i]
        else:
            y[i] = x[i - 1] + x[i] + x[i + 1]


@vyre.program(workgroup=64)
def first_ones(x: Read[f32], n: u32, y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < n:
        y[i] = x[i]


@vyre.program(workgroup=64)
def positive(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x) and x[i] > 0.0:
        y[i] = x[i]


@vyre.program(workgroup=64)
def pairs(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i + 1 < len(x):
        y[i] = x[i] + x[i + 1]


@vyre.program(workgroup=64)
def inner_pairs(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i + 2 < len(x):
        y[i] = x[i] + x[i + 1]


@vyre.program(workgroup=64)
def padded(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    v = x[i] if i < len(x) // 2 else 0.0
    if i < len(y):
        y[i] = v


@vyre.program(workgroup=(8, 8))
def plate(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    r, c = vyre.global_id(1), vyre.global_id(0)
    if 0 < r < x.shape[0] - 1 and 0 < c < x.shape[1] - 1:
        y[r, c] = (x[r - 1, c] + x[r + 1, c] + x[r, c - 1] + x[r, c + 1]) * 0.25


@vyre.program
def row_sums(x: Read[f32[:, :]], y: Write[f32]) -> None:
    r = vyre.workgroup_id(0)
    y[r] = vyre.sum(x[r, :])


@vyre.program
def rows(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    y[r, :] = x[r, :] * 2.0


@vyre.pipeline
def half_of_it(x: Read[f32], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, len(x))
    first_half[vyre.ceil_div(len(x), 64)](x, mid)
    copied[vyre.ceil_div(len(x), 64)](mid, y)


@vyre.pipeline
def without_edges(x: Read[f32], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, len(x))
    inner[vyre.ceil_div(len(x), 64)](x, mid)
    inner[vyre.ceil_div(len(x), 64)](mid, y)


@vyre.pipeline
def rounds(x: ReadWrite[f32[:, :]]) -> None:
    mid = vyre.buffer(f32, x.shape)
    for _ in range(3):
        plate[3, 3](x, mid)
        plate[3, 3](mid, x)


@vyre.pipeline
def sums_without_edges(x: Read[f32[:, :]], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, x.shape)
    plate[3, 3](x, mid)
    row_sums[20](mid, y)


@vyre.pipeline
def fifty(x: Read[f32], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, len(x))
    first_ones[vyre.ceil_div(len(x), 64)](x, 50, mid)
    copied[vyre.ceil_div(len(x), 64)](mid, y)


@vyre.pipeline
def few_rows(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    mid = vyre.buffer(f32, x.shape)
    rows[x.shape[0] // 2](x, mid)
    rows[x.shape[0]](mid, y)


@vyre.pipeline
def with_edges(x: Read[f32], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, len(x))
    whole[vyre.ceil_div(len(x), 64)](x, mid)
    whole[vyre.ceil_div(len(x), 64)](mid, y)


@vyre.pipeline
def filled(x: Read[f32], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, len(x))
    vyre.fill(mid, 0.0)
    first_half[vyre.ceil_div(len(x), 64)](x, mid)
    copied[vyre.ceil_div(len(x), 64)](mid, y)


@vyre.pipeline
def shrinking(x: Read[f32], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, len(x))
    pairs[vyre.ceil_div(len(x), 64)](x, mid)
    inner_pairs[vyre.ceil_div(len(x), 64)](mid, y)


@vyre.pipeline
def of_elements(x: Read[f32], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, len(x))
    positive[vyre.ceil_div(len(x), 64)](x, mid)
    copied[vyre.ceil_div(len(x), 64)](mid, y)


@vyre.pipeline
def half_is_read(x: Read[f32], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, len(x))
    first_half[vyre.ceil_div(len(x), 64)](x, mid)
    padded[vyre.ceil_div(len(x), 64)](mid, y)


@vyre.pipeline
def all_rows(x: Read[f32[:, :]], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, x.shape)
    rows[x.shape[0]](x, mid)
    row_sums[20](mid, y)


@vyre.pipeline
def small(x: Read[f32], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, len(x))
    copied[len(x) // 64](x, mid)
    copied[vyre.ceil_div(len(x), 64)](mid, y)


@vyre.pipeline
def large_plate(x: ReadWrite[f32[:, :]]) -> None:
    mid = vyre.buffer(f32, x.shape)
    plate[vyre.ceil_div(x.shape[1], 8), vyre.ceil_div(x.shape[0], 8)](x, mid)
    plate[vyre.ceil_div(x.shape[1], 8), vyre.ceil_div(x.shape[0], 8)](mid, x)


@vyre.pipeline
def large_sums(x: Read[f32[:, :]], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, x.shape)
    plate[vyre.ceil_div(x.shape[1], 8), vyre.ceil_div(x.shape[0], 8)](x, mid)
    row_sums[x.shape[0]](mid, y)


@vyre.pipeline
def large_rows(x: Read[f32[:, :]], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, x.shape)
    rows[x.shape[0]](x, mid)
    row_sums[x.shape[0]](mid, y)


@vyre.program(workgroup=64)
def in_strides(x: Read[f32], y: Write[f32]) -> None:
    for k in range(vyre.global_id(0), len(y), vyre.global_size(0)):
        y[k] = x[k]


@vyre.pipeline
def strided(x: Read[f32], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, len(x))
    in_strides[7](x, mid)
    copied[vyre.ceil_div(len(x), 64)](mid, y)


TOLD: list[tuple[Any, str, list[np.ndarray]]] = [
    # a pipeline, words of the warning, and arrays
    (half_of_it, "elements 50 to 99 of mid", [ones(100), ones(100)]),
    (without_edges, "element 0 of mid, and no stage before it has written it", [ones(100), ones(100)]),
    (rounds, "18 elements of mid, the first [0, 1]", [ones(20, 20)]),
    (sums_without_edges, "76 elements of mid, the first [0, 0]", [ones(20, 20), ones(20)]),
    (fifty, "write vyre.fill(mid, 0) before it", [ones(100), ones(100)]),
]
SILENT: list[tuple[Any, list[np.ndarray]]] = [
    (with_edges, [ones(100), ones(100)]),
    (filled, [ones(100), ones(100)]),
    (shrinking, [ones(100), ones(100)]),
    (of_elements, [ones(100), ones(100)]),
    (half_is_read, [ones(100), ones(100)]),
    (all_rows, [ones(20, 20), ones(20)]),
    (half_of_it, [ones(0), ones(0)]),
]


def said(pipeline: Any, arrays: list[np.ndarray]) -> list[str]:
    return warned(lambda: pipeline._warn(None, arrays, {}))


def test_elements_that_no_stage_has_written_are_told() -> None:
    def check(case: tuple[Any, str, list[np.ndarray]]) -> None:
        pipeline, words, arrays = case
        (warning,) = said(pipeline, arrays)
        assert warning.startswith("this stage reads ")
        assert words in warning

    each(TOLD, check)


def test_elements_that_are_written_or_not_read_are_not_told() -> None:
    each(SILENT, lambda case: None if not (text := said(*case)) else pytest.fail(str(text)))


LARGE: list[tuple[Any, str, list[np.ndarray]]] = [
    # pipelines of launches of which some invocations are run
    (
        half_of_it,
        "elements of mid such as 99968, and no stage before it has written them",
        [ones(100000), ones(100000)],
    ),
    (without_edges, "elements of mid such as 0", [ones(100000), ones(100000)]),
    (large_plate, "elements of mid such as [0, 1]", [ones(400, 300)]),
    (large_sums, "elements of mid such as [0, 0]", [ones(400, 300), ones(400)]),
    (with_edges, "", [ones(100000), ones(100000)]),
    (filled, "", [ones(100000), ones(100000)]),
    (shrinking, "", [ones(100000), ones(100000)]),
    (of_elements, "", [ones(100000), ones(100000)]),
    (half_is_read, "", [ones(100000), ones(100000)]),
    (strided, "", [ones(100000), ones(100000)]),
    (large_rows, "", [ones(400, 300), ones(400)]),
]


def test_elements_of_large_launches() -> None:
    def check(case: tuple[Any, str, list[np.ndarray]]) -> None:
        pipeline, words, arrays = case
        pipeline._has_run = False
        assert [words in each for each in said(pipeline, arrays)] == [True] * bool(words)

    each(LARGE, check)


def test_pipelines_without_a_fault_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where launches are run whole, nor where some invocations of them are."""

    def check(seed: int) -> None:
        sound = sound_pipeline(seed)
        module, arrays = parse(sound.text), sound.arrays(seed)
        for most in (1 << 12, 0):
            monkeypatch.setattr(partly_written, "_MOST_RUN", most)
            found = pipeline_warnings(module, module.pipelines["main"], arrays, {})
            assert not [each.message for each in found if "this stage reads" in each.message]

    each(range(40), check)


def test_a_launch_that_is_too_small_is_one_mistake() -> None:
    """What it leaves out is told of it, and not of the stage that reads it."""
    (warning,) = said(small, [ones(100), ones(100)])
    assert warning.startswith("this launch has 64 invocations for the 100 elements")
    (warning,) = said(few_rows, [ones(20, 20), ones(20, 20)])
    assert warning.startswith("this launch has 10 workgroups for the 20 rows")


TEXT = """vyre 2
program @inner workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %i = global_id x
  %n = len @x
  %last = sub %n, 1 : u32
  %a = gt %i, 0 : u32
  %b = lt %i, %last : u32
  %c = and %a, %b
  if %c {
    %v = load @x[%i] : f32
    store %v, @y[%i] : f32
  }
}
program @copy workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %i = global_id x
  %v = load @x[%i] : f32
  store %v, @y[%i] : f32
}
pipeline @main {
  buffer @x : f32[128] read
  buffer @mid : f32[128]
  buffer @y : f32[128] write
  launch @inner grid(2) (@x, @mid)
  launch @copy grid(2) (@mid, @y)
}
"""


def test_vyre_run(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ones(128))
    ran = call_run("-", f"--in=x={tmp_path}/x.npy", text=TEXT)
    assert (
        "this stage reads 2 elements of @mid, the first 0, and no stage before it has written them"
        in ran.stderr
    )
    assert "help: let @inner store all elements, or write fill(@mid, 0) before it" in ran.stderr
    ran = call_run(
        "-",
        f"--in=x={tmp_path}/x.npy",
        text=TEXT.replace("  launch @inner", "  fill(@mid, 0.0)\n  launch @inner"),
    )
    assert (ran.returncode, ran.stderr) == (0, "")
