"""Pipelines as people write them: kernels beside stages of their own, over different grids, computed alike after -O."""

from __future__ import annotations

import numpy as np
import pytest
from support.each import each
from support.natural_pipelines import natural_pipeline
from support.pipeline_runs import launches
from support.quick import quick

from vyre_opt import PassManager, compile, parse
from vyre_opt.ir import Launch
from vyre_opt.ir.grids import show_extent


def check(seed: int, target: str) -> tuple[int, int]:
    """The launches before and after the default passes, after which the pipeline must compute the same."""
    natural = natural_pipeline(seed)
    expected = compile(natural.text, target="ref", entry="main")(natural.inputs, lengths=natural.lengths)
    module = parse(natural.text)
    before = launches(module.pipelines["main"])
    PassManager("default").run(module)
    actual = compile(module, target=target, entry="main")(natural.inputs, lengths=natural.lengths)
    for name, array in expected.items():
        assert np.array_equal(array, actual[name]), (seed, name)
    return before, launches(module.pipelines["main"])


@pytest.mark.parametrize(
    ("target", "count"), quick([("ref", 8), ("cpu", 3), ("ref", 24), ("cpu", 24)], keep=2)
)
def test_outputs_stay(target: str, count: int) -> None:
    before, after = np.sum([check(seed, target) for seed in range(count)], axis=0)
    assert after < 0.75 * before


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(100, 1300, 100))
def test_outputs_stay_in_a_campaign(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed, "ref")


HEX_AND_COUNT = """vyre 1
program @count workgroup(256) {
  buffer @bytes : u8[?] read binding(0)
  buffer @lines : u32[1] read_write binding(1) live_in live_out
  %g = global_id x
  %n = len @bytes
  %inside = lt %g, %n : u32
  if %inside {
    %b = load @bytes[%g] : u8
    %c10 = const 10 : u8
    %is = eq %b, %c10 : u8
    if %is {
      %zero = const 0 : u32
      %one = const 1 : u32
      %old = atomic_add @lines[%zero], %one : u32
    }
  }
}
pipeline @main {
  buffer @text : u8[?] read
  buffer @decoded : u8[?]
  buffer @lines : u32[1] read_write live_in live_out
  decode.hex(@text, @decoded)
  launch @count grid(ceil_div(len(@decoded), 256)) (@decoded, @lines)
}
"""


def test_a_decoder_of_open_size_and_a_count_are_one_launch() -> None:
    """One code for every length: the grid is an expression, and a workgroup beyond the end does nothing."""
    module = parse(HEX_AND_COUNT)
    PassManager("default").run(module)
    (launch,) = module.pipelines["main"].walk()
    assert isinstance(launch, Launch)
    runs = [compile(module, target=target, entry="main") for target in ("ref", "cpu")]

    def check_size(size: int) -> None:
        data = np.random.default_rng(size).integers(8, 12, size, np.uint8)
        text = np.frombuffer(data.tobytes().hex().encode(), np.uint8)
        for run in runs:
            outputs = run({"text": text, "lines": np.zeros(1, np.uint32)}, lengths={"decoded": size})
            assert outputs["lines"][0] == np.count_nonzero(data == 10)

    each((1, 7, 255, 256, 2047, 2048, 2049, 18000), check_size)


TURNS = """vyre 1
program @mirror_rows workgroup(64) {
  buffer @x : u8[?] read binding(0)
  buffer @y : u8[?] write binding(1) live_out
  buffer @row : u8[64] workgroup
  %g = global_id x
  %l = local_id x
  %last = const 63 : u32
  %other = sub %last, %l : u32
  %v = load @x[%g] : u8
  store %v, @row[%l] : u8
  barrier workgroup
  %m = load @row[%other] : u8
  store %m, @y[%g] : u8
}
pipeline @main {
  buffer @text : u8[4096] read
  buffer @decoded : u8[2048]
  buffer @rows : u8[2048] write live_out
  decode.hex(@text, @decoded) {schedule_lanes = 64}
  launch @mirror_rows grid(32) (@decoded, @rows)
}
"""


def test_workgroup_memory_is_used_in_turn() -> None:
    """A barrier ends each turn, since the next one stores to the same memory; the interpreter finds races."""
    data = np.random.default_rng(1).integers(0, 256, 2048, np.uint8)
    text = np.frombuffer(data.tobytes().hex().encode(), np.uint8)
    module = parse(TURNS)
    PassManager("default").run(module)
    assert launches(module.pipelines["main"]) == 1
    for target in ("ref", "cpu"):
        outputs = compile(module, target=target, entry="main")({"text": text})
        assert np.array_equal(outputs["rows"], data.reshape(-1, 64)[:, ::-1].ravel())


SCALARS = (
    HEX_AND_COUNT.replace("vyre 1", "vyre 2")
    .replace("  buffer @bytes", "  param @which : u8\n  buffer @bytes", 1)
    .replace("const 10 : u8", "param @which : u8")
    .replace("pipeline @main {", "pipeline @main {\n  param @ending : u8")
    .replace(
        "(@decoded, @lines)\n", "(@decoded, @lines) params(@which = @ending)\n"
        "  launch @count grid(ceil_div(len(@decoded), 256)) (@decoded, @tabs) params(@which = 9)\n"
    )
    .replace("  decode.hex", "  buffer @tabs : u32[1] read_write live_in live_out\n  decode.hex")
)  # fmt: skip


def test_launches_over_a_chosen_grid_keep_their_scalars() -> None:
    module = parse(SCALARS)
    PassManager("default").run(module)
    assert launches(module.pipelines["main"]) == 1
    data = np.random.default_rng(5).integers(8, 12, 5000, np.uint8)
    inputs = {
        "text": np.frombuffer(data.tobytes().hex().encode(), np.uint8),
        "lines": np.zeros(1, np.uint32),
        "tabs": np.zeros(1, np.uint32),
    }
    for target in ("ref", "cpu"):
        run = compile(module, target=target, entry="main")
        for ending in (8, 10):
            outputs = run(inputs, lengths={"decoded": data.size}, params={"ending": ending})
            assert outputs["lines"] == np.count_nonzero(data == ending)
            assert outputs["tabs"] == np.count_nonzero(data == 9)


def test_a_grid_of_a_scalar_is_left_alone() -> None:
    text = SCALARS.replace("param @ending : u8", "param @ending : u8\n  param @groups : u32")
    module = parse(
        text.replace(
            "grid(ceil_div(len(@decoded), 256)) (@decoded, @lines)", "grid(@groups) (@decoded, @lines)"
        )
    )
    PassManager("default").run(module)
    stages = [each for each in module.pipelines["main"].walk() if isinstance(each, Launch)]
    assert [each.program for each in stages] == ["decode_hex_then_count", "count"]  # the one behind it joins
    assert show_extent(stages[1].grid[0]) == "@groups"


def test_lines_come_in_the_order_of_workgroups() -> None:
    """So a program that prints has its own grid."""
    text = HEX_AND_COUNT.replace("vyre 1", "vyre 2").replace("%zero =", 'debug_print "%u" %g\n      %zero =')
    module = parse(text)
    remarks = PassManager("launch_fusion").run(module).remarks
    assert launches(module.pipelines["main"]) == 2
    assert any("lines of @count come in the order of its workgroups" in r.message for r in remarks)
