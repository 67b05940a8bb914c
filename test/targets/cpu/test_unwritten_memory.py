"""Memory that no program wrote is zero on the CPU: nobody sees what others left there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.unwritten import EVERY_THIRD

import vyre_opt
from vyre_opt import kernels
from vyre_opt.execution import output_memory
from vyre_opt.targets.cpu import threads

COPY_TILE = """vyre 1
program @show workgroup(32) {
  buffer @tile : u64[8192] workgroup
  buffer @out : u64[8192] write binding(0)
  %l = local_id x
  for %i = %l to 8192 step 32 {
    %v = load @tile[%i] : u64
    store %v, @out[%i] : u64
  }
}
"""

FILL_TILE = """vyre 1
program @fill workgroup(32) {
  buffer @tile : u64[8192] workgroup
  buffer @out : u64[?] write binding(0)
  %l = local_id x
  %w = workgroup_id x
  %odd = const 6148914691236517205 : u64
  for %i = %l to 8192 step 32 {
    store %odd, @tile[%i] : u64
  }
  barrier workgroup
  %v = load @tile[%l] : u64
  store %v, @out[%w] : u64
}
"""

THIRD = f"vyre 1\n{EVERY_THIRD}"
THROUGH_A_BUFFER = (
    THIRD
    + """
pipeline @main {
  buffer @x : u32[?] read
  buffer @own : u32[600000]
  buffer @seen : u32[600000] write
  buffer @y : u32[?] write
  launch @third grid(6250) (@x, @own)
  launch @copy grid(18750) (@own, @seen)
  launch @third grid(6250) (@own, @y)
}
program @copy workgroup(32) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  %g = global_id x
  %v = load @x[%g] : u32
  store %v, @y[%g] : u32
}
"""
)


def leave_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have large arrays begin as they would after others: full of what those had."""
    empty: Callable[..., np.ndarray] = output_memory.empty

    def dirty(count: int, dtype: np.dtype[Any]) -> np.ndarray:
        array = empty(count, dtype)
        array.view(np.uint8).fill(0xA5)
        return array

    monkeypatch.setattr(output_memory, "empty", dirty)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_traces(monkeypatch)


def test_workgroup_memory(traces: None) -> None:
    """Of every workgroup, also where other programs ran in the same memory before."""
    show, fill = vyre_opt.compile(COPY_TILE), vyre_opt.compile(FILL_TILE)
    for _ in range(4):
        assert fill([], 8, lengths={"out": 8})["out"].all()
        assert not show([], 5)["out"].any()


@pytest.mark.parametrize("count", [100, 600_000])
def test_outputs(traces: None, count: int) -> None:
    third, x = vyre_opt.compile(THIRD), np.arange(1, count + 1, dtype=np.uint32)
    for _ in range(4):  # the first call, and planned ones
        np.full(count, 0xA5A5A5A5, np.uint32)  # for NumPy to give away again
        y = third([x], count // 96 + 1, lengths={"y": count})["y"]
        assert np.array_equal(y, np.where(np.arange(count) % 3, 0, x))


SHAPED = """vyre 2
program @twice workgroup(32, 4) {
  buffer @x : u32[?, ?] read binding(0)
  buffer @y : u32[?, ?] write binding(1)
  %c = global_id x
  %r = global_id y
  %rows = len @y, 0
  %columns = len @y, 1
  %in_column = lt %r, %rows : u32
  %in_row = lt %c, %columns : u32
  %inside = and %in_column, %in_row : bool
  if %inside {
    %v = load @x[%r, %c] : u32
    %w = add %v, %v : u32
    store %w, @y[%r, %c] : u32
  }
}
pipeline @main {
  buffer @x : u32[?, ?] read
  buffer @m : u32[len(@x, 0), len(@x, 1)]
  buffer @y : u32[len(@x, 0), len(@x, 1)] write
  launch @twice grid(ceil_div(len(@x, 1), 32), ceil_div(len(@x, 0), 4)) (@x, @m)
  launch @twice grid(ceil_div(len(@x, 1), 32), ceil_div(len(@x, 0), 4)) (@m, @y)
}
"""


@pytest.mark.parametrize(("grid", "is_whole"), [((20, 150), True), ((19, 150), False), ((20, 149), False)])
def test_outputs_of_several_dimensions(
    traces: None, monkeypatch: pytest.MonkeyPatch, grid: tuple[int, int], is_whole: bool
) -> None:
    """One that the grid covers is not zeroed first; what a shorter grid leaves out, in either dimension, is zero."""
    cleared: list[int] = []
    clear_bytes = threads.clear_bytes

    def noted(target: int, size: int, workers: int) -> None:
        cleared.append(size)
        clear_bytes(target, size, workers)

    monkeypatch.setattr(threads, "clear_bytes", noted)
    twice = vyre_opt.compile(SHAPED, entry="twice")
    x = np.arange(1, 600 * 640 + 1, dtype=np.uint32).reshape(600, 640)
    expected = np.zeros_like(x)
    rows, columns = 4 * grid[1], 32 * grid[0]
    expected[:rows, :columns] = 2 * x[:rows, :columns]
    for _ in range(4):  # the first call, and planned ones
        assert np.array_equal(twice({"x": x}, grid, lengths={"y": x.shape})["y"], expected)
    assert cleared == ([] if is_whole else [x.nbytes] * 4)


def test_a_pipeline_of_several_dimensions(traces: None) -> None:
    plan = vyre_opt.compile(SHAPED, entry="main", passes="")
    x = np.arange(600 * 640, dtype=np.uint32).reshape(600, 640)
    for _ in range(4):
        assert np.array_equal(plan({"x": x})["y"], 4 * x)


def test_buffers_of_a_pipeline(traces: None) -> None:
    pipeline, x = vyre_opt.compile(THROUGH_A_BUFFER), np.arange(1, 600_001, dtype=np.uint32)
    expected = np.where(np.arange(600_000) % 3, 0, x)
    for _ in range(4):
        outputs = pipeline([x], lengths={"y": 600_000})
        assert np.array_equal(outputs["seen"], expected)
        assert np.array_equal(outputs["y"], expected)


def test_torch_tensors(traces: None) -> None:
    torch = pytest.importorskip("torch")
    third, x = vyre_opt.compile(THIRD), torch.arange(600_000, dtype=torch.int64).to(torch.uint32)
    for _ in range(3):
        y = third([x], 6251, lengths={"y": 600_000})["y"]
        assert np.array_equal(y.numpy(), np.where(np.arange(600_000) % 3, 0, np.arange(600_000)))


def _numbers(count: int, kind: str = "f4") -> np.ndarray:
    return np.random.default_rng(count).integers(1, 9, count).astype(kind)


WIDE = 1 << 19
"""Elements of which an array is large, so that its memory is reused."""


@pytest.mark.parametrize(
    "call",
    [
        lambda: kernels.softmax(_numbers(WIDE).reshape(-1, 64)),
        lambda: kernels.softmax(_numbers(24 * WIDE // 16).reshape(-1, 24)),
        lambda: kernels.softmax(_numbers(WIDE).reshape(2, -1)),
        lambda: kernels.prefix_scan(_numbers(WIDE, "i4")),
        lambda: kernels.softmax_step(_numbers(WIDE, "u4")),
        lambda: kernels.matvec_fixed(_numbers(WIDE, "i4"), _numbers(1, "i4")),
        lambda: kernels.tt_contract_step(_numbers(1), _numbers(WIDE).reshape(1, -1)),
        lambda: kernels.tt_embedding(
            [_numbers(64).reshape(8, 1, 4, 2), _numbers(128).reshape(8, 2, 8, 1)], _numbers(WIDE // 8, "u4")
        ),
        lambda: kernels.hex_decode(b"5a" * (4 * WIDE)),
        lambda: kernels.base64_decode(b"WlpaWlpa" * WIDE),
    ],
    ids=[
        "rows",
        "odd rows",
        "two rows",
        "prefix",
        "step",
        "matvec",
        "contract",
        "embedding",
        "hex",
        "base64",
    ],
)
def test_named_kernels_write_all_of_their_results(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[], np.ndarray]
) -> None:
    """Their results are not zeroed first, so nothing of what the memory held may remain."""
    first = call().copy()
    planned = call().copy()
    leave_traces(monkeypatch)
    again = call()
    assert first.nbytes >= output_memory.MIN_BYTES
    assert np.array_equal(first, planned)
    assert np.array_equal(first, again)
