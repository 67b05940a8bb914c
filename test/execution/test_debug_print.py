"""What programs print: the same lines on ref and cpu, in order, capped, and handed to whoever wants them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.quick import quick

import vyre_opt
from vyre_opt import dispatcher
from vyre_opt.execution import ProgramError
from vyre_opt.ir import parse
from vyre_opt.lowering.common import print_records
from vyre_opt.lowering.common.print_records import MAX_RECORDS, capacity, prints_of, with_print_records
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

TARGETS = pytest.mark.parametrize("target", ["ref", "cpu"])


def printed(run: Callable[[], object]) -> list[str]:
    lines: list[str] = []
    with vyre_opt.on_debug_print(lines.append):
        run()
    return lines


def lines_of(target: str, text: str, grid: Any, *arrays: Any) -> list[str]:
    module = parse(f"vyre 2\n{text}")
    (program,) = module.programs.values()
    return printed(lambda: dispatcher(target).dispatch(program, list(arrays), grid, module=module))


@TARGETS
def test_lines_are_in_the_order_of_invocations_and_of_their_prints(target: str) -> None:
    """Workgroups, then lanes, whose linear ids have x as the fastest; a lane that prints twice keeps its order."""
    text = """program @p workgroup(2, 3, 2) {
      %x = local_id x
      %y = local_id y
      %z = local_id z
      %wx = workgroup_id x
      %wy = workgroup_id y
      for %k = 0 to 2 { debug_print "%u%u %u%u%u: %u" %wx, %wy, %x, %y, %z, %k }
      debug_print "end of %u%u%u" %x, %y, %z
    }"""
    expected = []
    for wy in range(2):
        for wx in range(3):
            for z in range(2):
                for y in range(3):
                    for x in range(2):
                        expected += [f"{wx}{wy} {x}{y}{z}: {k}" for k in range(2)]
                        expected.append(f"end of {x}{y}{z}")
    assert lines_of(target, text, (3, 2)) == expected


@TARGETS
@pytest.mark.parametrize("prints", [False, True])
def test_a_buffer_with_the_name_of_the_records(target: str, prints: bool) -> None:
    """It is the program's own, and what is printed goes elsewhere."""
    line = 'debug_print "%u" %x' if prints else ""
    text = f"""program @p workgroup(2) {{
      buffer @debug_print.records : u32[2] read_write binding(0) live_in live_out
      %x = local_id x
      %old = load @debug_print.records[%x]
      %twice = add %old, %old
      store %twice, @debug_print.records[%x]
      {line}
    }}"""
    module = parse(f"vyre 2\n{text}")
    results: list[Any] = []
    words = np.array([3, 5], np.uint32)
    lines = printed(lambda: results.extend(dispatcher(target).dispatch(module.programs["p"], [words], 1)))
    assert [list(result) for result in results] == [[6, 10]]
    assert lines == (["0", "1"] if prints else [])


@TARGETS
def test_only_active_lanes_print(target: str) -> None:
    """In a branch, and in a loop that lanes leave one after the other; over more than a subgroup, the last one short."""
    text = """program @p workgroup(40) {
      %l = local_id x
      %four = const 4 : u32
      %q = rem %l, %four : u32
      %zero = const 0 : u32
      %first = eq %q, %zero : u32
      %high = const 30 : u32
      %late = gt %l, %high : u32
      %both = and %first, %late : bool
      if %both {
        for %k = 0 to %l step 16 { debug_print "%u at %u" %l, %k }
      }
    }"""
    assert lines_of(target, text, 1) == [f"{lane} at {k}" for lane in (32, 36) for k in range(0, lane, 16)]


VALUES = {
    "bool": ([True, False], ["true", "false"]),
    "u8": ([0, 255], ["0", "255"]),
    "i8": ([-128, 127], ["-128", "127"]),
    "u64": ([2**64 - 1, 0], ["18446744073709551615", "0"]),
    "i64": ([-(2**63), -1], [str(-(2**63)), "-1"]),
    "f16": ([0.1, -65504.0], ["0.1", "-65500.0"]),
    "f32": ([0.1, np.nan], ["0.1", "nan"]),
    "f64": ([0.1, -np.inf], ["0.1", "-inf"]),
}


@TARGETS
@pytest.mark.parametrize("dtype", VALUES)
def test_values_of_a_type(target: str, dtype: str) -> None:
    values, shown = VALUES[dtype]
    name = {"u": "uint", "i": "int", "f": "float", "b": "bool"}[dtype[0]] + dtype.strip("uifbol")
    text = f"""program @p workgroup(2) {{
      buffer @x : {dtype}[2] read binding(0)
      %i = local_id x
      %zero = const 0 : u32
      %v = load @x[%i] : {dtype}
      %w = load @x[%zero] : vec<2 x {dtype}>
      debug_print "%v %v" %v, %w
    }}"""
    assert lines_of(target, text, 1, np.array(values, name)) == [
        f"{s} [{shown[0]}, {shown[1]}]" for s in shown
    ]


@TARGETS
def test_a_launch_keeps_so_many_lines_and_counts_the_rest(target: str) -> None:
    text = 'program @p workgroup(256) { %g = global_id x debug_print "%u" %g debug_print "again" }'
    lines = lines_of(target, text, 400)
    assert len(lines) == MAX_RECORDS + 1
    assert lines[-1] == f"... and {2 * 400 * 256 - MAX_RECORDS:,} more lines of @p: a launch keeps 4,096"
    assert all(re.fullmatch(r"\d+|again", line) for line in lines[:-1])


@TARGETS
@pytest.mark.parametrize(("most", "lanes", "count"), quick([(1 << 15, 64, 4), (1 << 22, 512, 32)]))
def test_wide_records_are_fewer(
    monkeypatch: pytest.MonkeyPatch, target: str, most: int, lanes: int, count: int
) -> None:
    """What is kept takes 4 MiB at most."""
    operands = ", ".join(["%v"] * count)
    text = f"""program @p workgroup({lanes}) {{
      %l = local_id x
      %v = splat %l : vec<64 x u32>
      debug_print "{"%v" * count}" {operands}
    }}"""
    (program,) = parse(f"vyre 2\n{text}").programs.values()
    assert (with_print_records(program).buffers["debug_print.records"].size_bytes or 0) <= 4 << 20
    monkeypatch.setattr(print_records, "MAX_RECORD_BYTES", most)
    lines = lines_of(target, text, 1)
    assert len(lines) == capacity(prints_of(program)) + 1 < lanes
    assert lines[-1].startswith(f"... and {lanes - capacity(prints_of(program))} more lines")


@TARGETS
def test_what_was_printed_before_a_fault_is_shown(target: str) -> None:
    text = """program @p workgroup(4) {
      %l = local_id x
      debug_print "before %u" %l
      %two = const 2 : u32
      %fine = ne %l, %two : u32
      assert %fine, "two"
      debug_print "after"
    }"""
    lines: list[str] = []
    (program,) = parse(f"vyre 2\n{text}").programs.values()
    with vyre_opt.on_debug_print(lines.append), pytest.raises(ProgramError, match="assert: two"):
        dispatcher(target).dispatch(program, [], 1)
    assert lines == [f"before {lane}" for lane in range(4)]


SCALE = """vyre 2
program @scale workgroup(2) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  param @k : f32
  %i = global_id x
  %k = param @k : f32
  %v = load @x[%i] : f32
  %w = mul %k, %v : f32
  debug_print "%u: %v" %i, %w
  store %w, @y[%i] : f32
}
"""


@TARGETS
def test_each_call_of_an_executable_prints(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Planned calls would skip what reads the records, so there are none; without a handler lines go to stdout."""
    scale = vyre_opt.compile(SCALE, target=target)
    x = np.array([1, 2, 3, 4], np.float32)
    for k in (1, 2, 3):
        y = scale({"x": x}, 2, lengths={"y": 4}, params={"k": k})["y"]
        assert list(y) == list(k * x)
        assert capsys.readouterr().out.splitlines() == [f"{i}: {float(k * v)}" for i, v in enumerate(x)]


@TARGETS
def test_launches_of_a_pipeline_print_one_after_the_other(target: str) -> None:
    text = (
        SCALE
        + """pipeline @main {
  buffer @x : f32[4] read
  buffer @t : f32[4]
  buffer @y : f32[4] write live_out
  repeat 2 {
    launch @scale grid(2) (@x, @t) params(@k = 2.0)
    launch @scale grid(2) (@t, @y) params(@k = 0.5)
  }
}
"""
    )
    run = vyre_opt.compile(text, target=target)
    x = np.array([1, 2, 3, 4], np.float32)
    once = [f"{i}: {float(2 * v)}" for i, v in enumerate(x)] + [f"{i}: {float(v)}" for i, v in enumerate(x)]
    for _ in range(3):
        assert printed(lambda: run({"x": x})) == 2 * once


def test_a_handler_holds_inside_of_its_block() -> None:
    (program,) = parse('vyre 2\nprogram @p workgroup(1) { debug_print "here" }').programs.values()
    outer: list[str] = []
    with vyre_opt.on_debug_print(outer.append):
        assert printed(lambda: CpuDispatcher().dispatch(program, [], 1)) == ["here"]
        assert not outer
        CpuDispatcher().dispatch(program, [], 1)
    assert outer == ["here"]
    with pytest.raises(TypeError, match="a function of a line, not list"), vyre_opt.on_debug_print([]):  # type: ignore[arg-type]
        pass


def test_a_process_of_its_own_passes_lines_on() -> None:
    limits = vyre_opt.Limits(time=60)
    with vyre_opt.compile(SCALE, limits=limits) as scale:
        x = np.array([1, 2], np.float32)
        lines = printed(lambda: scale({"x": x}, 1, lengths={"y": 2}, params={"k": 1}))
    assert lines == ["0: 1.0", "1: 2.0"]


def test_a_program_without_prints_is_compiled_as_it_is() -> None:
    """It costs nothing then: no buffer, no parameter, no look at records."""
    (program,) = parse("vyre 1\nprogram @p workgroup(1) { }").programs.values()
    assert with_print_records(program) is program
    assert CpuDispatcher().prepared(program).records is None
