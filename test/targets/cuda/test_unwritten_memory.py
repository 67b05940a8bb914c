"""`zero_memory` on a GPU: what nobody wrote is zero, workgroup memory too."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_opt

pytestmark = pytest.mark.gpu

PROGRAMS = """vyre 1
program @show workgroup(128) {
  buffer @tile : u32[4096] workgroup
  buffer @out : u32[?] write binding(0)
  %l = local_id x
  %w = workgroup_id x
  %size = const 4096 : u32
  %start = mul %w, %size : u32
  for %i = %l to 4096 step 128 {
    %v = load @tile[%i] : u32
    %at = add %start, %i : u32
    store %v, @out[%at] : u32
  }
}
program @fill workgroup(128) {
  buffer @tile : u32[4096] workgroup
  buffer @out : u32[?] write binding(0)
  %l = local_id x
  %w = workgroup_id x
  %odd = const 1431655765 : u32
  for %i = %l to 4096 step 128 {
    store %odd, @tile[%i] : u32
  }
  barrier workgroup
  %v = load @tile[%l] : u32
  store %v, @out[%w] : u32
}
"""


def test_workgroup_memory_and_outputs(cuda):
    torch = pytest.importorskip("torch")
    gpu = cuda(zero_memory=True)
    show, fill = (vyre_opt.compile(PROGRAMS, entry=name, target=gpu) for name in ("show", "fill"))
    for on_gpu in (True, False):

        def make(count, on_gpu=on_gpu):
            return {"out": torch.full((count,), 7, device="cuda").to(torch.uint32)} if on_gpu else []

        for _ in range(4):
            filled = fill(make(3000), 3000, lengths={"out": 3000})["out"]
            shown = show(make(3000 * 4096), 3000, lengths={"out": 3000 * 4096})["out"]
            assert (np.asarray(filled.cpu() if on_gpu else filled) == 1431655765).all()
            assert not np.asarray(shown.cpu() if on_gpu else shown).any()


def test_without_it_nothing_is_promised_but_the_option_is_what_zeroes(cuda):
    """The program that shows its tile is another kernel with the option: it begins by zeroing the tile."""
    from vyre_opt.lowering.common.zeroed_tiles import with_zeroed_tiles

    program = vyre_opt.parse(PROGRAMS).programs["show"]
    assert with_zeroed_tiles(program) is not program
    assert cuda(zero_memory=True).prepare(program).kernel.program is not program
    assert cuda().prepare(program).kernel.program is program
