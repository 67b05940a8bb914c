"""`zero_memory`: memory of a GPU that no program wrote is zero, if that is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_gpu import CupyArray, aligned, numpy
from support.unwritten import COUNT, EVERY_THIRD

import vyre_opt
from vyre_opt import dispatcher
from vyre_opt.lowering.common.zeroed_tiles import with_zeroed_tiles
from vyre_opt.targets.cuda import CudaDispatcher

TEXT = f"""vyre 1
{EVERY_THIRD}{COUNT}
pipeline @main {{
  buffer @x : u32[?] read
  buffer @counted : u32[32] live_in live_out read_write
  buffer @y : u32[?] write
  repeat 3 {{
    launch @count grid(1) (@counted)
  }}
  launch @third grid(2) (@x, @y)
}}
"""

TILES = """vyre 1
program @tiles workgroup(4, 2) {
  buffer @a : vec<2 x f32>[5] workgroup
  buffer @b : bool[700] workgroup
  buffer @c : u32[3000] workgroup
  buffer @out : u32[?] write binding(0)
  %x = local_id x
  %y = local_id y
  %z = const 0 : u32
  %v = load @a[%x] : vec<2 x f32>
  %e = extract %v[0] : vec<2 x f32>
  %u = bitcast %e : f32 -> u32
  %t = load @b[%y] : bool
  %one = const 1 : u32
  %w = select %t, %one, %u : u32
  %c4 = const 4 : u32
  %row = mul %y, %c4 : u32
  %lane = add %row, %x : u32
  for %i = %lane to 3000 step 8 {
    store %i, @c[%i] : u32
  }
  store %w, @out[%lane] : u32
}
"""


@pytest.fixture
def zeroing(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(gpu, "options", replace(gpu.options, zero_memory=True))
    return gpu


@pytest.mark.parametrize("on_gpu", [False, True])
def test_outputs_and_storage(zeroing: Any, on_gpu: bool) -> None:
    put, read = (CupyArray, numpy) if on_gpu else (np.asarray, np.asarray)
    x = aligned(np.arange(1, 61, dtype=np.uint32))
    expected = np.where(np.arange(60) % 3, 0, x)
    third = vyre_opt.compile(TEXT, entry="third", target=zeroing)
    main = vyre_opt.compile(TEXT, entry="main", target=zeroing)
    for _ in range(3):
        y = third([put(x)], 2, lengths={"y": 60})["y"]
        assert np.array_equal(read(y), expected)
        outputs = main([put(x), put(aligned(np.zeros(32, np.uint32)))], lengths={"y": 60})
        assert np.array_equal(read(outputs["y"]), expected)
        assert read(outputs["counted"]).sum() == 3 * sum(range(32))


def test_tiles_are_zeroed_before_the_program_begins() -> None:
    """The interpreter, which reports reads of what nobody wrote, finds none; @c is written before it is read."""
    module = vyre_opt.parse(TILES)
    program = module.programs["tiles"]
    zeroed = with_zeroed_tiles(program)
    assert sum(op.name == "for" for op in zeroed.walk()) == 3
    (out,) = dispatcher("ref").dispatch(zeroed, [np.zeros(8, np.uint32)], 1)
    assert out.tolist() == [0] * 8
    assert [op.name for op in program.walk()].count("for") == 1, "the program itself is as it was"


@pytest.mark.parametrize(("value", "zeroes"), [("1", True), ("0", False), ("", False)])
def test_the_environment(monkeypatch: pytest.MonkeyPatch, value: str, zeroes: bool) -> None:
    monkeypatch.setenv("VYRE_ZERO_MEMORY", value)
    assert CudaDispatcher().options.zero_memory is zeroes
    assert CudaDispatcher(zero_memory=True).options.zero_memory
