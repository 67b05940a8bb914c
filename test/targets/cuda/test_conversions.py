"""Casts of vectors to bf16, which a GPU may do two lanes at a time."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_opt

pytestmark = pytest.mark.gpu

COUNT = 1 << 20


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_vectors_are_rounded_to_bf16_as_on_a_cpu(lanes: int) -> None:
    """All upper halves of a float, and lower ones around a tie; numbers only, since which NaN comes is open."""
    upper = np.repeat(np.arange(1 << 16, dtype=np.uint32), COUNT >> 16)
    lower = np.resize(np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x4000, 0xC000], np.uint32), COUNT)
    bits = upper << 16 | np.random.default_rng(5).permuted(lower.reshape(-1, 8), axis=1).ravel()
    x = bits.view(np.float32)
    x = np.where(np.isnan(x), np.float32(1.5), x)
    text = f"""vyre 1
    program @p workgroup(64) {{
      buffer @x : f32[{COUNT}] read binding(0)
      buffer @y : bf16[{COUNT}] write binding(1)
      %g = global_id x
      %lanes = const {lanes} : u32
      %i = mul %g, %lanes : u32
      %v = load @x[%i] : vec<{lanes} x f32>
      %r = cast %v : vec<{lanes} x f32> -> vec<{lanes} x bf16>
      store %r, @y[%i] : vec<{lanes} x bf16>
    }}
    """
    grid = COUNT // lanes // 64
    on_gpu, on_cpu = (vyre_opt.run(text, [x], grid=grid, target=target)["y"] for target in ("cuda", "cpu"))
    np.testing.assert_array_equal(on_gpu, on_cpu)
