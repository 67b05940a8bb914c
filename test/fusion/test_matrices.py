"""Hand-offs by matrices are no one's own: no launches are joined over them, no barrier goes, nothing becomes a tile."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_opt import PassManager, parse, run

STORE = """
program @first workgroup(32) {
  buffer @x : f32[64, 32] read binding(0)
  buffer @t : f32[64, 32] write binding(1)
  %w = workgroup_id x
  %sixteen = const 16 : u32
  %r = mul %w, %sixteen : u32
  %z = const 0 : u32
  %m = matrix_load @x[%r, %z] : matrix<16x32xf32, acc>
  matrix_store %m, @t[%r, %z] : matrix<16x32xf32, acc>
}"""

PLAIN = """
program @first workgroup(32) {
  buffer @x : f32[64, 32] read binding(0)
  buffer @t : f32[64, 32] write binding(1)
  %w = workgroup_id x
  %l = local_id x
  for %i = 0 to 16 {
    %sixteen = const 16 : u32
    %r0 = mul %w, %sixteen : u32
    %r = add %r0, %i : u32
    %v = load @x[%r, %l] : f32
    store %v, @t[%r, %l] : f32
  }
}"""

SECOND = """
program @second workgroup(32) {
  buffer @t : f32[64, 32] read binding(0)
  buffer @y : f32[64, 32] write binding(1)
  %w = workgroup_id x
  %l = local_id x
  %three = const 3 : u32
  %sixteen = const 16 : u32
  %o = ORDER %three, %w : u32
  %r0 = mul %o, %sixteen : u32
  BODY
}"""

BY_ELEMENTS = """for %i = 0 to 16 {
    %r = add %r0, %i : u32
    %v = load @t[%r, %l] : f32
    store %v, @y[%r, %l] : f32
  }"""

BY_MATRIX = """%z = const 0 : u32
  %m = matrix_load @t[%r0, %z] : matrix<16x32xf32, acc>
  matrix_store %m, @y[%r0, %z] : matrix<16x32xf32, acc>"""

PIPELINE = """
pipeline @main {
  buffer @x : f32[64, 32] read
  buffer @t : f32[64, 32]
  buffer @y : f32[64, 32] write
  launch @first grid(4) (@x, @t)
  launch @second grid(4) (@t, @y)
}
"""


@pytest.mark.parametrize("order", ["and", "sub"])  # the own workgroup's rows, another's
@pytest.mark.parametrize("body", [BY_ELEMENTS, BY_MATRIX])
@pytest.mark.parametrize("first", [STORE, PLAIN])
def test_launches_that_hand_over_matrices_stay_apart(first: str, body: str, order: str) -> None:
    if first is PLAIN and body is BY_ELEMENTS:
        return  # which is joined, or not, for other reasons
    text = "vyre 2\n" + first + SECOND.replace("ORDER", order).replace("BODY", body) + PIPELINE
    module = parse(text)
    PassManager("default").run(module)
    assert len(module.pipelines["main"].stages) == 2
    x = np.random.default_rng(0).random((64, 32), np.float32)
    for target in ("ref", "cpu"):
        np.testing.assert_array_equal(run(text, [x], target=target)["y"], x)


def test_a_barrier_after_a_matrix_stays() -> None:
    """By the slots that the interpreter happens to use, each lane would read what it has stored itself."""
    text = """vyre 2
    program @p workgroup(32) {
      buffer @t : f32[16, 32] workgroup
      buffer @x : f32[16, 32] read binding(0)
      buffer @y : f32[16, 32] write binding(1)
      %z = const 0 : u32
      %m = matrix_load @x[%z, %z] : matrix<16x32xf32, acc>
      matrix_store %m, @t[%z, %z] : matrix<16x32xf32, acc>
      barrier workgroup
      %l = local_id x
      for %i = 0 to 16 {
        %v = load @t[%i, %l] : f32
        store %v, @y[%i, %l] : f32
      }
    }"""
    module = parse(text)
    PassManager("barrier_elim,store_forward,dce").run(module)
    assert [op.name for op in module.programs["p"].walk()].count("barrier") == 1
