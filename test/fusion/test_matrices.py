"""Hand-offs by matrices are no one's own: no launches are joined over them, no barrier goes, nothing becomes a tile."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_opt import PassManager, parse, run

COPY = """
program @NAME workgroup(32) {
  buffer @from : f32[64, 32] read binding(0)
  buffer @to : f32[64, 32] write binding(1)
  %w = workgroup_id x
  %l = local_id x
  %zero = const 0 : u32
  %three = const 3 : u32
  %sixteen = const 16 : u32
  %o = ORDER, %w : u32
  %r0 = mul %o, %sixteen : u32
  BODY
}"""

BY_ELEMENTS = """for %i = 0 to 16 {
    %r = add %r0, %i : u32
    %v = load @from[%r, %l] : f32
    store %v, @to[%r, %l] : f32
  }"""

BY_MATRIX = """%z = const 0 : u32
  %m = matrix_load @from[%r0, %z] : matrix<16x32xf32, acc>
  matrix_store %m, @to[%r0, %z] : matrix<16x32xf32, acc>"""

PIPELINE = """
pipeline @main {
  buffer @x : f32[64, 32] read
  buffer @t : f32[64, 32]
  buffer @y : f32[64, 32] write
  launch @first grid(4) (@x, @t)
  launch @second grid(4) (@t, @y)
}
"""


def _copy(name: str, order: str, body: str) -> str:
    return COPY.replace("NAME", name).replace("ORDER", order).replace("BODY", body)


@pytest.mark.parametrize("order", ["and %three", "sub %three"])  # the own workgroup's rows, another's
@pytest.mark.parametrize(
    ("first", "second"), [(BY_MATRIX, BY_ELEMENTS), (BY_MATRIX, BY_MATRIX), (BY_ELEMENTS, BY_MATRIX)]
)
def test_launches_that_hand_over_matrices_stay_apart(first: str, second: str, order: str) -> None:
    text = "vyre 2\n" + _copy("first", "add %zero", first) + _copy("second", order, second) + PIPELINE
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
