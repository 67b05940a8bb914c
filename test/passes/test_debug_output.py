"""--debug-only: every pass says what it tries and where, in order; nothing is worked out for it where nobody looks."""

from __future__ import annotations

import re

import pytest
from support.each import each

from vyre_opt import PassManager, fingerprint, parse, print_program
from vyre_opt.passes import PassContext
from vyre_opt.passes.manager import DebugOutput
from vyre_opt.passes.registry import BUILTIN, LEGALIZATIONS

BARRIERS = """vyre 1

program @p workgroup(64) {
  buffer @x : u32[256] read binding(0)
  buffer @y : u32[256] write binding(1) live_out
  buffer @t : u32[64] workgroup

  %l = local_id x
  %four = const 4 : u32
  %three = const 3 : u32
  %seven = add %three, %four : u32
  %i = mul %l, %four : u32
  %a = load @x[%i] : u32
  %b = load @x[%i] : u32
  store %a, @t[%l] : u32
  barrier workgroup
  barrier workgroup
  %o = sub %seven, %l : u32
  %c = load @t[%o] : u32
  %n = for %k = 0 to 4 step 1 iter(%acc = %c : u32) {
    %inner = mul %seven, %three : u32
    %varying = mul %k, %three : u32
    %some = add %acc, %inner : u32
    %next = add %some, %varying : u32
    yield %next
  }
  %low = lt %l, %four : u32
  %z = if %low -> u32 {
    %q = add %n, %b : u32
    yield %q
  } else {
    yield %n
  }
  store %z, @y[%i] : u32
}
"""

VECTORS = """vyre 1

program @v workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %l = local_id x
  %one = const 1 : u32
  %i = mul %l, %l : u32
  %j = add %i, %one : u32
  %a = load @x[%i] : f32
  %b = load @x[%j] : f32
  %s = add %a, %b : f32
  store %s, @y[%l] : f32
}
"""

PIPELINE = """vyre 1

func @half(%x : u32) -> u32 {
  %two = const 2 : u32
  %y = div %x, %two : u32
  yield %y
}

program @first workgroup(64) {
  buffer @x : u32[4096] read binding(0)
  buffer @m : u32[4096] write binding(1) live_out
  spec @k : u32 = 3
  %g = global_id x
  %v = load @x[%g] : u32
  %h = call @half(%v) : (u32) -> u32
  %k = spec @k : u32
  %s = add %h, %k : u32
  store %s, @m[%g] : u32
}

program @second workgroup(64) {
  buffer @m : u32[4096] read binding(0)
  buffer @y : u32[4096] write binding(1) live_out
  %g = global_id x
  %v = load @m[%g] : u32
  store %v, @y[%g] : u32
}

pipeline @main {
  buffer @a : f32[4096] read
  buffer @b : f32[4096]
  buffer @x : u32[4096] read
  buffer @m : u32[4096]
  buffer @y : u32[4096] write live_out
  launch @first grid(64) (@x, @m)
  launch @second grid(64) (@m, @y)
  math.softmax(@a, @b) {columns = 64}
}
"""

SAYS = {
    "barrier_elim": (BARRIERS, r"p\.vyre:1[67]:3: stays: it orders accesses of @t"),
    "batch_loads": (BARRIERS, r"the target is no GPU"),
    "keep_loads": (BARRIERS, r"the target is no GPU"),
    "canonicalize": (BARRIERS, r"p\.vyre:11:3: folds: %seven = add %three, %four"),
    "coarsen": (PIPELINE, r"the target is no GPU"),
    "cse": (BARRIERS, r"p\.vyre:14:3: %b = load %i equals %a = load %i of p\.vyre:13:3"),
    "dce": (BARRIERS.replace("store %z", "store %n"), r"p\.vyre:28:3: nothing needs %z = if %low"),
    "decode_scan_fuse": (PIPELINE, r"buffers that may hand over: none; 16384 bytes"),
    "expand_kernels": (PIPELINE, r"p\.vyre:\d+:3: applied: math\.softmax is expanded"),
    "expand_ops": (BARRIERS, r"on module"),  # with such ops: test/lit/passes/expand_ops.vyre
    "fold": (BARRIERS, r"p\.vyre:11:3: folds: %seven = add %three, %four"),
    "fusion_pressure": (PIPELINE, r"note: @main: 1 of \d links to fuse"),
    "inline": (PIPELINE, r"p\.vyre:15:3: applied: @half is inlined here, 3 ops"),
    "join_rows": (PIPELINE, r"on module"),
    "launch_fusion": (PIPELINE, r"in @main, 3 launches in a row: @first, @second, @math_softmax; groups begin at numbers \[0, 2\]"),
    "licm": (BARRIERS, r"p\.vyre:22:5: %varying = mul %k, %three stays at level 1: %k is computed in this loop"),
    "lower_slices": (BARRIERS, r"p\.vyre:\d+:9: on program @"),
    "privatize": (PIPELINE, r"the target is no GPU"),
    "reductions": (BARRIERS, r"p\.vyre:19:3: %c = load %o: 56 lanes load what is not known"),
    "simplify_cf": (BARRIERS, r"p\.vyre:28:3: this if becomes selects; its results: 1, ops that run always now: 1"),
    "specialize": (PIPELINE, r"applied: @first with @k = 3"),
    "store_forward": (BARRIERS, r"p\.vyre:19:3: %c = load %o stays: nothing is known of this element of @t"),
    "tune": (PIPELINE, r"on module"),
    "unroll": (BARRIERS, r"p\.vyre:20:3: this loop has 4 iterations of 5 ops"),
    "vectorize_access": (VECTORS, r"no vector of 2 lanes of @x here: its index is known to be a multiple of 2\^0"),
    "verify": (BARRIERS, r"on module"),
    **{name: (BARRIERS, r"p\.vyre:\d+:9: on program @") for name in LEGALIZATIONS if name != "legalize"},
}  # fmt: skip


def debug_lines(text: str, passes: str, names: frozenset[str] | None = None) -> list[str]:
    lines: list[str] = []
    PassManager(passes, debug=DebugOutput(names, lines.append)).run(parse(text, "p.vyre"))
    return lines


def test_every_pass_says_what_it_does() -> None:
    """One line a message, with the pass at its head and the place of what it is about."""

    def check(name: str) -> None:
        text, pattern = SAYS[name]
        options = "{budget=1 rounds=1 reuse=false target=ref}" if name == "tune" else ""
        text = text.replace("math.softmax(@a, @b) {columns = 64}", "") if name == "tune" else text
        needed = {"licm": "cse,", "decode_scan_fuse": "specialize,inline,"}.get(name, "")
        lines = debug_lines(text, f"{needed}{name}{options}", frozenset([name]))
        assert all(line.startswith(f"[{name}] ") and line.endswith("\n") for line in lines), lines
        assert any(re.search(pattern, line) for line in lines), "".join(lines)

    each(SAYS, check)
    assert {*SAYS} == {*BUILTIN, *LEGALIZATIONS} - {"legalize"}  # which stands for others


def test_it_changes_nothing() -> None:
    for text in (BARRIERS, VECTORS, PIPELINE):
        quiet, watched = parse(text), parse(text)
        PassManager("specialize,default").run(quiet)
        PassManager("specialize,default", debug=DebugOutput(None, lambda line: None)).run(watched)
        assert print_program(watched) == print_program(quiet)
        assert fingerprint(watched) == fingerprint(quiet)


def test_only_the_passes_that_are_named() -> None:
    lines = debug_lines(BARRIERS, "cse,canonicalize,licm", frozenset(["cse", "licm"]))
    assert {line.split("]")[0] for line in lines} == {"[cse", "[licm"}
    every = debug_lines(BARRIERS, "cse,canonicalize,licm")
    assert [line for line in every if not line.startswith("[canonicalize]")] == lines


def test_a_message_that_nobody_reads_is_not_put_together() -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    ctx = PassContext()
    assert not ctx.is_debugging
    ctx.debug("{}", Costly())
    with pytest.raises(AssertionError, match="formatted"):
        PassContext(debug_sink=lambda line: None).debug("{}", Costly())


def test_braces_in_values_are_text() -> None:
    """A remark's message is a value: what a program's names hold is no format."""
    lines: list[str] = []
    ctx = PassContext(running="p", debug_sink=lines.append)
    ctx.remark("note", "a {brace} and {0}")
    assert lines == ["[p] note: a {brace} and {0}\n"]
