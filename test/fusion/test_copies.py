"""Copies to workgroup memory where a workgroup of a joined launch runs several of a launch, one after the other."""

from __future__ import annotations

import numpy as np
from support.certifying import decisions_of

from vyre_opt import PassManager, parse, run

PREFETCH = """vyre 2
program @first workgroup(32) {
  buffer @x : u32[256] read binding(0)
  buffer @m : u32[256] write binding(1)
  buffer @t : u32[64] workgroup
  %g = global_id x
  %l = local_id x
  %half = const 32 : u32
  %next = add %l, %half : u32
  %v = load @x[%g] : u32
  copy_async %v, @t[%l] : u32
  copy_wait
  copy_async %v, @t[%next] : u32
  %w = load @t[%l] : u32
  store %w, @m[%g] : u32
}
program @second workgroup(32) {
  buffer @m : u32[256] read binding(0)
  buffer @y : u32[64] write binding(1)
  %g = global_id x
  %four = const 4 : u32
  %b = mul %g, %four : u32
  %z = const 0 : u32
  %s = for %i = 0 to 4 step 1 iter(%acc = %z : u32) {
    %j = add %b, %i : u32
    %v = load @m[%j] : u32
    %n = add %acc, %v : u32
    yield %n
  }
  store %s, @y[%g] : u32
}
pipeline @main {
  buffer @x : u32[256] read
  buffer @m : u32[256]
  buffer @y : u32[64] write
  launch @first grid(8) (@x, @m)
  launch @second grid(2) (@m, @y)
}
"""


def test_a_workgroup_waits_for_what_the_one_before_it_in_turn_has_copied() -> None:
    """What nobody waits for by the end of a workgroup need not arrive, but its memory is used again."""
    module = parse(PREFETCH)
    PassManager("launch_fusion").run(module)
    (launch,) = module.pipelines["main"].stages
    assert launch.grid == (2, 1, 1)
    x = np.arange(256, dtype=np.uint32)
    for target in ("ref", "cpu"):
        y = run(PREFETCH, [x], target=target, passes="default")["y"]
        np.testing.assert_array_equal(y, x.reshape(64, 4).sum(axis=1))
    assert {d.status for d in decisions_of(PREFETCH)} == {"proved"}
