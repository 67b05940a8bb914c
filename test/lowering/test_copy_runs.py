"""Which asynchronous copies go by the engine for bulk copies: runs that nobody can tell from copies by each invocation."""

from __future__ import annotations

import pytest
from support.copy_programs import StreamedTiles
from support.quick import quick

from vyre_opt import parse
from vyre_opt.analysis.alignment import Alignment
from vyre_opt.analysis.bounds import BoundsProofs
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.copy_runs import CopyRuns, copy_runs
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.ptx import emit_ptx
from vyre_opt.lowering.nvptx.targets import gpu

HEAD = """vyre 2
program @p workgroup(64) grid(4) {
  buffer @x : f32[65536] read binding(0)
  buffer @open : f32[?] read binding(1)
  buffer @y : f32[65536] read_write binding(2) live_in live_out
  buffer @t : f32[4096] workgroup
  buffer @u : f32[64] workgroup
  %l = local_id x
  %w = workgroup_id x
  %one = const 1 : u32
  %two = const 2 : u32
  %four = const 4 : u32
  %last = const 63 : u32
  %size = const 256 : u32
  %own = mul %l, %four : u32
  %start = mul %w, %size : u32
  %i = add %start, %own : u32
  %p = eq %w, %one : u32
  %q = eq %l, %one : u32
"""
COPY = "%v = load @x[%i] : vec<4 x f32>\ncopy_async %v, @t[%own] : vec<4 x f32>"
READ = "%r = load @t[%l] : f32\nstore %r, @y[%l] : f32"
BEFORE = READ.replace("%r", "%before")
MEET = "barrier workgroup"
AWAITED = f"copy_wait\n{MEET}\n{READ}"


def _numbered(lines: str, count: int, lower: str = "%l", step: str = "64") -> str:
    """Pieces that a loop hands out by turns."""
    return f"for %n = {lower} to {count} step {step} {{\n{lines}\n}}"


BY_NUMBER = "%a = mul %n, %four : u32\n%b = load @x[%a] : vec<4 x f32>\ncopy_async %b, @t[%a] : vec<4 x f32>"

# (pieces, bytes) of each run; () where there are none
CASES: dict[str, tuple[str, tuple[tuple[int, int], ...]]] = {
    "a piece of each invocation": (f"{COPY}\n{AWAITED}", ((64, 1024),)),
    "one in a branch of the whole workgroup": (f"if %p {{\n{COPY}\n}}\n{AWAITED}", ((64, 1024),)),
    "one in a branch of some invocations": (f"if %q {{\n{COPY}\n}}\n{AWAITED}", ()),
    "elements one by one": (
        f"%a = add %start, %l : u32\n%v = load @x[%a] : f32\ncopy_async %v, @t[%l] : f32\n{AWAITED}",
        ((64, 256),),
    ),
    "elements from an odd place": (
        f"%a = add %l, %one : u32\n%v = load @x[%a] : f32\ncopy_async %v, @t[%l] : f32\n{AWAITED}",
        (),
    ),
    "elements to an odd place": (
        f"%a = add %l, %one : u32\n%v = load @x[%l] : f32\ncopy_async %v, @t[%a] : f32\n{AWAITED}",
        (),
    ),
    "elements from a place that nobody knows": (
        f"%n = len @open : u32\n%a = add %l, %n : u32\n%v = load @x[%a] : f32\ncopy_async %v, @t[%l] : f32\n{AWAITED}",
        (),
    ),
    "elements backwards": (
        f"%a = sub %last, %l : u32\n%v = load @x[%a] : f32\ncopy_async %v, @t[%l] : f32\n{AWAITED}",
        (),
    ),
    "every other piece": (
        "%a = mul %own, %two : u32\n%v = load @x[%own] : vec<4 x f32>\n"
        f"copy_async %v, @t[%a] : vec<4 x f32>\n{AWAITED}",
        (),
    ),
    "a loop that hands out pieces": (f"{_numbered(BY_NUMBER, 500)}\n{AWAITED}", ((500, 8000),)),
    "one with another step": (f"{_numbered(BY_NUMBER, 500, step='32')}\n{AWAITED}", ()),
    "one that begins elsewhere": (f"{_numbered(BY_NUMBER, 500, lower='%own')}\n{AWAITED}", ()),
    "one that some invocations leave out": (
        f"{_numbered(f'%h = lt %n, %size : u32{chr(10)}if %h {{{chr(10)}{BY_NUMBER}{chr(10)}}}', 500)}\n{AWAITED}",
        (),
    ),
    "rows that are further apart in workgroup memory": (
        _numbered(
            "%c = const 32 : u32\n%d = const 136 : u32\n%row = div %n, %c : u32\n%rest = rem %n, %c : u32\n"
            "%a = mul %n, %four : u32\n%b = load @x[%a] : vec<4 x f32>\n%e = mul %row, %d : u32\n"
            "%f = mul %rest, %four : u32\n%g = add %e, %f : u32\ncopy_async %b, @t[%g] : vec<4 x f32>",
            96,
        )
        + f"\n{AWAITED}",
        ((32, 512),),
    ),
    "rows that are short": (
        _numbered(
            "%row = div %n, %four : u32\n%a = mul %n, %four : u32\n%b = load @x[%a] : vec<4 x f32>\n"
            "%c = mul %row, %four : u32\n%e = add %a, %c : u32\ncopy_async %b, @t[%e] : vec<4 x f32>",
            96,
        )
        + f"\n{AWAITED}",
        (),
    ),
    "a place that a loop carries around": (
        "for %k = 0 to 8 step 1 iter(%at = %start : u32) {\n%a = add %at, %own : u32\n"
        f"%v = load @x[%a] : vec<4 x f32>\ncopy_async %v, @t[%own] : vec<4 x f32>\ncopy_wait\n{MEET}\n"
        "%z = add %at, %size : u32\nyield %z\n}",
        ((64, 1024),),
    ),
    "a place that a loop moves by one element": (
        "for %k = 0 to 8 step 1 iter(%at = %start : u32) {\n%a = add %at, %own : u32\n"
        f"%v = load @x[%a] : vec<4 x f32>\ncopy_async %v, @t[%own] : vec<4 x f32>\ncopy_wait\n{MEET}\n"
        "%z = add %at, %one : u32\nyield %z\n}",
        (),
    ),
    "a place that moves with the turns of the loop that hands out": (
        "for %n = %l to 500 step 64 iter(%at = %start : u32) {\n%a = mul %n, %four : u32\n%f = add %a, %at : u32\n"
        "%b = load @x[%f] : vec<4 x f32>\ncopy_async %b, @t[%a] : vec<4 x f32>\n"
        f"%z = add %at, %size : u32\nyield %z\n}}\n{AWAITED}",
        (),
    ),
    "from a buffer that is written": (f"{COPY.replace('@x', '@y')}\n{AWAITED}", ()),
    "an index of 32 bits that may wrap": (
        "%n = len @open : u32\n%a = mul %n, %four : u32\n%b = add %a, %own : u32\n"
        f"%v = load @open[%b] : vec<4 x f32>\ncopy_async %v, @t[%own] : vec<4 x f32>\n{AWAITED}",
        (),
    ),
    "an index of 64 bits": (
        "%n = len @open : u64\n%f = const 4 : u64\n%a = mul %n, %f : u64\n%o = cast %own : u32 -> u64\n"
        f"%b = add %a, %o : u64\n%v = load @open[%b] : vec<4 x f32>\ncopy_async %v, @t[%own] : vec<4 x f32>\n{AWAITED}",
        ((64, 1024),),
    ),
    "a wait by some invocations": (f"{COPY}\nif %q {{\ncopy_wait\n}}\ncopy_wait\n{MEET}", ()),
    "a read before": (f"{BEFORE}\n{COPY}\n{AWAITED}", ()),
    "a read and a barrier before": (f"{BEFORE}\n{MEET}\n{COPY}\n{AWAITED}", ((64, 1024),)),
    "a read and a barrier of the subgroup before": (f"{BEFORE}\nbarrier subgroup\n{COPY}\n{AWAITED}", ()),
    "a read on one way": (f"if %p {{\n{BEFORE}\n}}\n{COPY}\n{AWAITED}", ()),
    "a barrier on one way": (f"{BEFORE}\nif %p {{\n{MEET}\n}}\n{COPY}\n{AWAITED}", ()),
    "a read in the turn before": (f"for %k = 0 to 9 step 1 {{\n{COPY}\n{AWAITED}\n}}", ()),
    "a read in the turn before, and a barrier": (
        f"for %k = 0 to 9 step 1 {{\n{COPY}\n{AWAITED}\n{MEET}\n}}",
        ((64, 1024),),
    ),
    "a read in the turn before, of another tile": (
        f"for %k = 0 to 9 step 1 {{\n{COPY}\ncopy_wait\n{MEET}\n%r = load @u[%l] : f32\n}}",
        ((64, 1024),),
    ),
    "a store before": (f"%z = const 0.0 : f32\nstore %z, @t[%l] : f32\n{COPY}\n{AWAITED}", ()),
    "another copy to the tile, by each invocation": (
        f"{COPY}\n%s = sub %last, %l : u32\n%e = load @x[%s] : f32\n%h = add %size, %l : u32\n"
        f"copy_async %e, @t[%h] : f32\n{AWAITED}",
        (),
    ),
    "another copy to another tile, by each invocation": (
        f"{COPY}\n%s = sub %last, %l : u32\n%e = load @x[%s] : f32\ncopy_async %e, @u[%l] : f32\n{AWAITED}",
        ((64, 1024),),
    ),
}  # fmt: skip


def _runs(lines: str) -> CopyRuns | None:
    program = parse(f"{HEAD}{lines}\n}}").programs["p"]
    return copy_runs(program, BoundsProofs(program, proves=False), Alignment(program), clamps=False)


@pytest.mark.parametrize("name", CASES)
def test_runs(name: str) -> None:
    lines, expected = CASES[name]
    runs = _runs(lines)
    assert tuple((run.pieces, run.size) for run in (runs.runs.values() if runs else ())) == expected


def test_a_fence_stands_where_stores_come_before() -> None:
    """What is only read needs none, nor does what is written behind the barrier."""
    stored = f"%z = const 0.0 : f32\nstore %z, @t[%l] : f32\n{MEET}\n{COPY}\n{AWAITED}\n{MEET}"
    runs = _runs(stored)
    assert runs is not None
    assert len(runs.fences) == 1
    runs = _runs(f"{BEFORE}\n{MEET}\n{COPY}\n{AWAITED}\n{MEET}")
    assert runs is not None
    assert not runs.fences


def test_what_is_under_way_at_the_end_is_waited_for() -> None:
    for lines, drains in {
        f"{COPY}\ncopy_wait": False,
        COPY: True,
        f"{COPY}\ncopy_wait 1": True,
        f"{COPY}\nif %p {{\ncopy_wait\n}}": True,
        f"copy_wait\n{COPY}": True,
    }.items():
        runs = _runs(lines)
        assert runs is not None
        assert runs.drains == drains, lines


def _lowered(lines: str, bounds: str) -> str:
    return lower([Unit(parse(f"{HEAD}{lines}\n}}").programs["p"])], gpu("sm_90"), bounds).text


@pytest.mark.parametrize("bounds", ["none", "clamp", "trap"])
def test_only_what_surely_is_in_bounds_is_copied_so_where_bounds_matter(bounds: str) -> None:
    """The four workgroups and their 256 elements are known to fit; the length of @open is not."""
    inside = f"{COPY}\ncopy_wait\n{MEET}"
    unknown = inside.replace("@x[%i]", "@open[%i]").replace(
        "%v = load", "%i64 = cast %i : u32 -> u64\n%v = load"
    )
    unknown = unknown.replace("@open[%i]", "@open[%i64]")
    assert "cp.async.bulk" in _lowered(inside, bounds)
    assert ("cp.async.bulk" in _lowered(unknown, bounds)) == (bounds == "none")


def test_nothing_faults_beside_them() -> None:
    """An invocation that ends in a fault would begin no copies, and others would wait for them."""
    beside = "%e = len @open : u32\n%g = load @open[%e] : f32\nstore %g, @y[%l] : f32"
    text = f"{COPY}\n{AWAITED}\n{beside}"
    assert "cp.async.bulk" in _lowered(text, "none")
    assert "cp.async.bulk" not in _lowered(text, "trap")


def test_a_tile_that_leaves_no_room_for_objects_is_copied_by_each_invocation() -> None:
    most = gpu("sm_90").shared_bytes // 4
    for count, bulk in {most - 64: True, most: False}.items():
        text = f"{HEAD}{COPY}\ncopy_wait\n}}".replace("buffer @u : f32[64] workgroup", "")
        program = parse(text.replace("f32[4096] workgroup", f"f32[{count}] workgroup")).programs["p"]
        assert ("cp.async.bulk" in lower([Unit(program)], gpu("sm_90"), "none").text) == bulk


@pytest.mark.parametrize("target", quick(["sm_90a", "sm_121", "sm_90", "sm_100", "sm_120"], keep=2))
@pytest.mark.parametrize("start", quick(range(0, 80, 2)))
def test_ptxas_takes_random_programs(assemble, target: str, start: int) -> None:
    units = [Unit(StreamedTiles(seed).program()) for seed in range(start, start + 2)]
    for bounds, level in (("none", 2), ("none", 3), ("trap", 0)):
        text = emit_ptx(lower(units, gpu(target), bounds), gpu(target), level=level)
        assert "cp.async.bulk" in text or bounds == "trap"
        assemble(text, target)
