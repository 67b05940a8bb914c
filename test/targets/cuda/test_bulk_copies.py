"""Runs of asynchronous copies by the engine for bulk copies, where there is one."""

from __future__ import annotations

import numpy as np
import pytest
from support.copy_programs import StreamedTiles
from support.quick import quick

import vyre_opt
from vyre_opt.targets.cuda import CudaDispatcher

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("seed", quick(range(400), keep=20))
def test_tiles_come_through_a_ring_of_stages(seed: int) -> None:
    case = StreamedTiles(seed)
    gpu, program, arrays = CudaDispatcher(bounds="none"), case.program(), case.arrays()
    for _ in range(3):
        outputs = gpu.dispatch(program, arrays, (case.groups, 1, 1))
        for output, expected in zip(outputs, case.expected(), strict=True):
            np.testing.assert_array_equal(np.asarray(output).view(expected.dtype).ravel(), expected)


WITHOUT_BARRIERS = """vyre 2
program @p workgroup(256) grid(512) {
  buffer @x : u32[32768] read binding(0)
  buffer @y : u32[32768] write binding(1) live_out
  buffer @t : u32[32768] workgroup
  %l = local_id x
  %w = workgroup_id x
  %four = const 4 : u32
  %size = const 1024 : u32
  %own = mul %l, %four : u32
  for %k = 0 to 32 step 1 {
    %start = mul %k, %size : u32
    %i = add %start, %own : u32
    %v = load @x[%i] : vec<4 x u32>
    copy_async %v, @t[%i] : vec<4 x u32>
    copy_wait PENDING
  }
  copy_wait
  barrier workgroup
  %zero = const 0 : u32
  %is_first = eq %w, %zero : u32
  if %is_first {
    for %k = %l to 32768 step 256 {
      %last = const 32767 : u32
      %m = sub %last, %k : u32
      %u = load @t[%m] : u32
      store %u, @y[%k] : u32
    }
  }
}"""


@pytest.mark.parametrize("pending", [0, 1, 3, 5])
def test_subgroups_may_run_ahead_of_each_other(pending: int) -> None:
    """No barrier lies between groups, so the objects that they wait for are all that holds a subgroup back."""
    x = np.arange(32768, dtype=np.uint32)
    text = WITHOUT_BARRIERS.replace("PENDING", str(pending))
    y = vyre_opt.run(text, [x, np.zeros_like(x)], target=CudaDispatcher(bounds="none"))["y"]
    np.testing.assert_array_equal(y, x[::-1])
