"""A grid without workgroups runs nothing: on each target, before and after passes, alone and in pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import BadInputs, BadLaunch, parse, run
from vyre_opt.lang import Read, ReadWrite, Write, f32, u32
from vyre_opt.passes import PassManager

TARGETS = ["ref", "cpu"]
PASSES = [None, "default"]


@vyre.program(workgroup=64)
def doubled(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = x[i] * 2


@vyre.program(workgroup=64)
def strided(x: Read[f32], y: Write[f32]) -> None:
    for i in range(vyre.global_id(0), len(y), vyre.global_size(0)):
        y[i] = x[i] + 1


@vyre.program(workgroup=(8, 8))
def counted(total: ReadWrite[u32]) -> None:
    if vyre.local_id(0) + vyre.local_id(1) == 0:
        vyre.atomic_add(total, 0, 1)
    vyre.barrier()


@vyre.pipeline
def chain(x: Read[f32], y: Write[f32]) -> None:
    t = vyre.buffer(f32, len(x))
    doubled[vyre.ceil_div(len(x), 64)](x, t)
    strided[vyre.ceil_div(len(t), 64)](t, y)


@vyre.pipeline
def partly(x: Read[f32], n: u32, y: ReadWrite[f32]) -> None:
    t = vyre.buffer(f32, len(x))
    doubled[vyre.ceil_div(len(x), 64)](x, t)
    strided[n](t, y)
    doubled[0](x, y)
    for _ in range(2):
        strided[1, n](t, y)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("grid", [0, (0, 3), (2, 0, 1)])
def test_a_kernel_over_no_workgroups(target: str, grid: Any) -> None:
    total = np.full(1, 7, np.uint32)
    for _ in range(3):
        counted.options(target=target)[grid](total)
    assert total.tolist() == [7]
    counted.options(target=target)[2, 3](total)
    assert total.tolist() == [13]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("size", [0, 1, 100])
def test_arrays_of_any_length(target: str, passes: str | None, size: int) -> None:
    x, y = np.arange(size, dtype=np.float32), np.full(size, -1, np.float32)
    doubled.options(target=target, passes=passes)[vyre.ceil_div(size, 64)](x, y)
    assert y.tolist() == (2 * x).tolist()
    call = chain.options(target=target, passes=passes)
    for _ in range(3):
        y[:] = -1
        call(x, y)
        assert y.tolist() == (2 * x + 1).tolist()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.filterwarnings("ignore:all 2 rounds do the same:vyre_opt.ProgramWarning")
def test_stages_over_no_workgroups_leave_what_was_there(target: str, passes: str | None) -> None:
    x, y = np.ones(4, np.float32), np.full(4, 9, np.float32)
    call = partly.options(target=target, passes=passes)
    for n, expected in ((0, 9), (1, 3), (0, 3)):
        call(x, n, y)
        assert y.tolist() == [expected] * 4


TEXT = """vyre 1
program @ones workgroup(64) {
  buffer @y : f32[?] write binding(0)
  %g = global_id x
  %n = len @y
  %s = global_size x
  %one = const 1.0 : f32
  for %i = %g to %n step %s {
    store %one, @y[%i] : f32
  }
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_new_outputs_that_nothing_writes(target: str) -> None:
    """Memory of an earlier call shows nowhere, though the loop would write the output whole over any other grid."""
    for grid in (1, 0):
        out = run(TEXT, grid=grid, lengths={"y": 5000}, target=target)["y"]
        if target == "cpu":
            assert set(out.tolist()) == {float(grid)}
    kept = run(TEXT, {"y": np.full(3, 5, np.float32)}, grid=(1, 0), target=target)
    assert kept["y"].tolist() == [5, 5, 5]


HANDOFF = (
    TEXT
    + """program @count workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %g = global_id x
  %n = len @x
  %inside = lt %g, %n : u32
  if %inside {
    %v = load @x[%g] : f32
    %w = add %v, %v : f32
    store %w, @y[%g] : f32
  }
}
pipeline @main {
  buffer @flags : u32[?] read
  buffer @t : f32[?] live_in live_out
  buffer @y : f32[?] write
  launch @ones grid(GRID) (@t)
  launch @count grid(ceil_div(len(@t), 64)) (@t, @y)
}
"""
)


@pytest.mark.parametrize("grid", ["len(@flags)", "ceil_div(len(@t), 7)", "max(1, len(@flags))"])
@pytest.mark.parametrize("flags", [0, 2])
def test_a_loop_over_the_grid_is_joined_only_where_it_runs(grid: str, flags: int) -> None:
    """launch_fusion gives a grid-stride loop as many workgroups as it has elements, unless its own grid may be 0."""
    text = HANDOFF.replace("GRID", grid)
    module = parse(text)
    PassManager("default").run(module)
    may_be_empty = grid == "len(@flags)"
    assert (len(module.pipelines["main"].stages) == 2) is may_be_empty
    inputs = {"flags": np.zeros(flags, np.uint32), "t": np.full(100, 4, np.float32)}
    expected = 8 if may_be_empty and not flags else 2
    for passes in PASSES:
        outputs = run(text, inputs, lengths={"y": 100}, passes=passes)
        assert outputs["y"].tolist() == [expected] * 100


def test_negative_and_huge_grids_are_errors() -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    for grid, message in (
        (-1, "grid x is -1; a grid has 0 or more workgroups along each axis"),
        ((0, -2), "grid y is -2; a grid has 0 or more workgroups along each axis"),
        (1 << 31, "a grid has at most 2147483647 workgroups along x"),
        ((0, 1 << 16), "a grid has at most 65535 workgroups along y"),
    ):
        with pytest.raises(BadInputs, match=message):
            doubled[grid](x, y)

    @vyre.pipeline
    def negative(x: Read[f32], y: Write[f32]) -> None:
        doubled[len(x) - 5](x, y)

    with pytest.raises(
        BadLaunch, match="the grid of @doubled is -1 along x; a grid has 0 or more workgroups"
    ):
        negative(x, y)
