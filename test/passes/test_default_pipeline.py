"""The default pipeline, `-O`: it is data that reads back, and programs and pipelines keep their meaning."""

from __future__ import annotations

import numpy as np
import pytest
from support import Settings, random_program
from support.handoff import handoff_program
from support.properties import check_pipeline
from support.quick import quick

import vyre_opt
from vyre_opt import PassManager, parse
from vyre_opt.ir import Launch
from vyre_opt.passes.pipeline_text import DEFAULT_PIPELINE, format_pipeline, parse_pipeline
from vyre_opt.passes.registry import PassError

DECODE_SCAN = """vyre 1
program @decode workgroup(64) {
  buffer @text : vec<2 x u8>[?] read binding(0)
  buffer @bytes : u8[?] write binding(1) live_out
  %g = global_id x
  %p = load @text[%g] : vec<2 x u8>
  %a = extract %p[0] : vec<2 x u8>
  %b = extract %p[1] : vec<2 x u8>
  %v = xor %a, %b : u8
  store %v, @bytes[%g] : u8
}
program @scan workgroup(64) {
  buffer @x : u8[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %w = workgroup_id x
  %l = local_id x
  %g = global_id x
  %z = const 0 : u32
  %c = const 64 : u32
  %base = mul %w, %c : u32
  %s = for %k = 0 to %l step 1 iter(%acc = %z : u32) {
    %i = add %base, %k : u32
    %v = load @x[%i] : u8
    %u = cast %v : u8 -> u32
    %n = add %acc, %u : u32
    yield %n
  }
  store %s, @y[%g] : u32
}
pipeline @main {
  buffer @text : vec<2 x u8>[1024] read
  buffer @mid : u8[1024]
  buffer @sums : u32[1024] write live_out
  launch @decode grid(16) (@text, @mid)
  launch @scan grid(16) (@mid, @sums)
}
"""


def test_it_is_text_that_reads_back() -> None:
    """Each member alone, the name among others, and the dump of the schedule."""
    assert format_pipeline(parse_pipeline("default")) == ",".join(DEFAULT_PIPELINE)
    assert format_pipeline(parse_pipeline("cse,default,dce")) == ",".join(["cse", *DEFAULT_PIPELINE, "dce"])
    scheduled = format_pipeline(PassManager("default").passes)
    assert format_pipeline(PassManager(scheduled).passes) == scheduled


@pytest.mark.parametrize("text", ["default{x=1}", "default dce", "defaults"])
def test_what_it_is_not(text: str) -> None:
    with pytest.raises(PassError):
        parse_pipeline(text)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_decode_scan_becomes_one_launch_with_a_tile_and_the_same_sums(target: str) -> None:
    text = np.random.default_rng(1).integers(0, 256, (1024, 2), np.uint8)
    plain = vyre_opt.run(DECODE_SCAN, {"text": text}, target="ref")
    fused = vyre_opt.run(DECODE_SCAN, {"text": text}, target=target, passes="default")
    np.testing.assert_array_equal(fused["sums"], plain["sums"])

    module = parse(DECODE_SCAN)
    PassManager("default").run(module)
    (launch,) = module.pipelines["main"].stages
    assert isinstance(launch, Launch)
    (tile,) = [b for b in module.programs[launch.program].buffers.values() if b.is_workgroup]
    assert tile.size_bytes == 64
    assert "mid" not in module.pipelines["main"].buffers


def test_second_run_changes_nothing() -> None:
    """Nothing is joined, hoisted or noted that was not before."""
    module = parse(DECODE_SCAN)
    manager = PassManager("default")
    manager.run(module)
    assert not manager.run(module).changed


@pytest.mark.parametrize("seed", quick(range(100, 115), keep=2))
def test_random_programs_keep_their_outputs(seed: int) -> None:
    check_pipeline(random_program(seed, Settings(statements=6)), "default")
    check_pipeline(handoff_program(seed), "default")
