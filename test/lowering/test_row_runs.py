"""Which programs run along rows on the CPU, and that their inner code has no mask, no check and no gather."""

from __future__ import annotations

import re

import pytest

from vyre_opt.ir import parse
from vyre_opt.lowering.host.function_builder import SimdFeatures
from vyre_opt.lowering.host.legalization import legal_program
from vyre_opt.lowering.host.program import lower

WIDE = SimdFeatures(frozenset({8, 16, 32, 64}), frozenset({32, 64}), frozenset({32, 64}))
COPY = "%v = load @x[%i, %j] : f32 store %v, @y[%i, %j] : f32"


def code(body: str, workgroup: str = "16, 16", more: str = "") -> str:
    module = parse(f"""vyre 1
    program @p workgroup({workgroup}) {{
      buffer @x : f32[?, ?] read binding(0)
      buffer @y : f32[?, ?] read_write binding(1) live_in live_out
      {more}
      %j = global_id x
      %i = global_id y
      %c1 = const 1 : u32
      {body}
    }}""")
    program = legal_program(module.programs["p"], module)
    layout = "e-m:e-i64:64-n8:16:32:64-S128"
    return lower(program, {}, "x86_64-unknown-linux-gnu", layout, WIDE).text


def rows(text: str) -> str:
    """The function with the body of rows, "" where there is none."""
    found = re.search(r"define internal void @vyre\.rows\(.*?^}$", text, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


GUARDED = f"""
  %n = len @x, 1
  %m = len @x, 0
  %p = lt %j, %n : u32
  %q = lt %i, %m : u32
  %pq = and %p, %q : bool
  if %pq {{ {COPY} }}"""


@pytest.mark.parametrize("workgroup", ["16, 16", "32, 8", "8, 4, 2", "256, 1", "5, 3"])
def test_whole_vectors_have_no_mask_and_no_check(workgroup: str) -> None:
    text = code(GUARDED, workgroup)
    loop = rows(text)
    loop = loop[loop.index("\nrun.") : loop.index("\nendrun.")]
    assert "load <32 x float>" in loop
    assert "store <32 x float>" in loop
    assert not re.search(r"masked|icmp \w+ <|select|@vyre.fault|trap|call(?! i64 @llvm.sm(in|ax))", loop)
    assert loop.count("br i1") == 1  # back to its begin


def test_code_before_a_fault_is_compiled_quickly() -> None:
    text = code(GUARDED)
    assert re.search(r"@vyre.groups\(.*optnone", text)
    assert "@vyre.fault(" in text
    assert "@vyre.fault(" not in rows(text)


REFUSED = {
    "a local id": f"%l = local_id x %p = eq %l, %c1 : u32 if %p {{ {COPY} }}",
    "a column": "%v = load @x[%i, %j] : f32 store %v, @y[%j, %i] : f32",
    "an atomic of its own element": f"%o = atomic_add<relaxed> @n[%j], %c1 : u32 {COPY}",
    "an atomic in order": f"%o = atomic_add<acq_rel> @n[%c1], %c1 : u32 {COPY}",
    "an index from memory": "%k = load @n[%j] : u32 %v = load @x[%i, %k] : f32 store %v, @y[%i, %j] : f32",
    "an assertion": f'%p = lt %j, %i : u32 assert %p, "no" {COPY}',
    "memory of the workgroup": f"store %c1, @tile[%c1] : u32 {COPY}",
    "a barrier": f"barrier workgroup {COPY}",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_what_runs_by_workgroups(body: str) -> None:
    more = "buffer @n : u32[?] read_write binding(2) live_in live_out buffer @tile : u32[64] workgroup"
    more = more if "@tile" in body else more.partition("buffer @tile")[0]
    assert not rows(code(body, more=more))


TOTAL = """
  %n = len @x, 1
  %m = len @x, 0
  %p = lt %j, %m : u32
  if %p {{
    %zero = const 0.0 : f32
    %t = for %c = 0 to %n step {step} iter(%a = %zero : f32) {{
      %v = load @x[%j, %c] : f32
      %b = add %a, %v : f32
      yield %b
    }}
    for %c = 0 to %n step {step} {{ store %t, @y[%j, %c] : f32 }}
  }}"""


def test_rows_of_lanes_are_moved_in_tiles() -> None:
    text = code(TOTAL.format(step=1), "256")
    assert "call void @vyre.tile.load(" in rows(text)
    assert "call void @vyre.tile.store(" in rows(text)
    assert not re.search(r"gather|scatter", rows(text))


def test_other_loops_are_not() -> None:
    assert not rows(code(TOTAL.format(step=2), "256"))


STRIDED = """
  %r = workgroup_id x
  %l = local_id x
  %n = len @x, 1
  for %c = %l to %n step {step} {{
    %v = load @x[%r, %c] : f32
    store %v, @y[%r, %c] : f32
  }}"""


@pytest.mark.parametrize(("step", "fetches"), [(256, True), (32, False)])
def test_loops_that_leap_fetch_ahead(step: int, fetches: bool) -> None:
    """A processor follows memory that is read in order by itself."""
    assert ("@llvm.prefetch.p0(" in code(STRIDED.format(step=step), str(step))) is fetches
