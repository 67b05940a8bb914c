"""Pipelines whose arrays happen to be of equal lengths are joined by that; those of other lengths are right, too."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import ProgramError, Read, Write, f32, global_id
from vyre_opt.driver.pipeline import MAX_VARIANTS
from vyre_opt.execution import PipelineExecutable

TEXT = """vyre 2

program @relu workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n
  if %inside {
    %v = load @x[%i]
    %w = max %v, 0.0
    store %w, @y[%i]
  }
}

program @add workgroup(64) {
  buffer @a : f32[?] read binding(0)
  buffer @b : f32[?] read binding(1)
  buffer @y : f32[?] write binding(2)
  %i = global_id x
  %n = len @y
  %inside = lt %i, %n
  if %inside {
    %v = load @a[%i]
    %w = load @b[%i]
    %s = add %v, %w
    store %s, @y[%i]
  }
}

pipeline @main {
  buffer @x : f32[?] read
  buffer @b : f32[?] read
  buffer @y : f32[?] write live_out
  buffer @mid : f32[len(@x)]
  launch @relu grid(ceil_div(len(@x), 64)) (@x, @mid)
  launch @add grid(ceil_div(len(@y), 64)) (@mid, @b, @y)
}
"""


@vyre.program
def relu(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = max(x[i], 0.0)


@vyre.program
def add(a: Read[f32], b: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(y):
        y[i] = a[i] + b[i]


@vyre.pipeline
def residual(x: Read[f32], b: Read[f32], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, len(x))
    relu[vyre.ceil_div(len(x), 256)](x, mid)
    add[vyre.ceil_div(len(x), 256)](mid, b, y)


def arrays(*lengths: int) -> list[np.ndarray]:
    rng = np.random.default_rng(lengths[0])
    return [rng.random(length, np.float32) - np.float32(0.5) for length in lengths]


@pytest.mark.parametrize("target", ["cpu", "ref"])
def test_lengths_of_all_kinds(target: str) -> None:
    """Those of a call that asks for more than there is are at fault, as without any pass."""
    executable = vyre.compile(TEXT, target=target, passes="default")
    plain = vyre.compile(TEXT, target=target)
    for x, b, y in product((1, 64, 100), (64, 100, 130), (64, 100)):
        left, right, out = arrays(x, b, y)
        inputs = {"x": left, "b": right, "y": out}
        if y > min(x, b):
            for each in (executable, plain):
                with pytest.raises(ProgramError, match="out of bounds"):
                    each(inputs)
            continue
        (found,) = executable(inputs).values()
        np.testing.assert_array_equal(found, np.maximum(left, 0)[:y] + right[:y])
    assert isinstance(executable, PipelineExecutable)
    assert len(executable._variants) == MAX_VARIANTS


def test_what_is_handed_over_is_in_registers() -> None:
    """No buffer is left between the launches where all arrays are equally long."""
    executable = vyre.compile(TEXT, passes="default")
    left, right, out = arrays(1000, 1000, 1000)
    for _ in range(2):
        (found,) = executable({"x": left, "b": right, "y": out}).values()
        np.testing.assert_array_equal(found, np.maximum(left, 0) + right)
    assert isinstance(executable, PipelineExecutable)
    (variant,) = executable._variants.values()
    assert [*variant.pipeline.buffers] == ["x", "b", "y"]
    assert "mid" in executable.pipeline.buffers


def test_calls_in_place() -> None:
    for lengths in ((1000, 1000, 1000), (1000, 1200, 700), (1000, 1000, 1000)):
        left, right, out = arrays(*lengths)
        residual(left, right, out)
        count = lengths[2]
        np.testing.assert_array_equal(out, np.maximum(left, 0)[:count] + right[:count])
