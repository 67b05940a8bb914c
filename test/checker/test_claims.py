"""What the checker takes for proven, and what it refuses, each with the words that say why."""

from __future__ import annotations

from typing import Any

import pytest

from vyre_opt import parse
from vyre_opt.certificates.writer import findings, generic_text

HAND_OFF = """
program @p workgroup(64) {{
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  buffer @h : {h}
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
  %c63 = const 63 : u32
  %c64 = const 64 : u32
  %base = mul %w, %c64 : u32
  %v = load @x[%g] : u32
  {store}
  {barrier}
  {load}
  store %r, @y[%g] : u32
}}
"""

STORAGE = {
    "h": "u32[4096] read_write",
    "store": "store %v, @h[%g] : u32",
    "barrier": "barrier workgroup",
    "load": "%m = sub %c63, %l : u32\n  %i = add %base, %m : u32\n  %r = load @h[%i] : u32",
}
TILE = {
    "h": "u32[64] workgroup",
    "store": "%c4096 = const 4096 : u32\n  check_bounds<store> @h[%g], %c4096 : u32\n  store %v, @h[%l] : u32",
    "barrier": "barrier workgroup",
    "load": "%m = sub %c63, %l : u32\n  %r = load @h[%m] : u32",
}
TILE_CLAIM = {
    "claim": "tile",
    "program": "p",
    "buffers": {"h": {"const": 0, "times": {"workgroup_id.x": 64}}},
}


def generic(text: str) -> str:
    return generic_text(parse(f"vyre 2\n{text}"))


def said(before: str, after: str, claims: list[dict[str, Any]]) -> tuple[str, str]:
    """The worst status of all findings, and its words."""
    found = findings(generic(before), generic(after), "a_pass", claims)
    order = ("refused", "trusted", "proven")
    worst = min(found, key=lambda finding: order.index(finding.status))
    return worst.status, worst.why


TILES: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "a hand-off within the workgroup": ({}, {}, ""),
    "its own lane's, without a barrier": (
        {"barrier": "", "load": "%r = load @h[%g] : u32"},
        {"barrier": "", "load": "%r = load @h[%l] : u32"},
        "",
    ),
    "nothing orders the lanes": ({"barrier": ""}, {"barrier": ""}, "no store of the workgroup"),
    "a barrier of subgroups orders subgroups": (
        {"barrier": "barrier subgroup"},
        {"barrier": "barrier subgroup"},
        "no store of the workgroup",
    ),
    "the barrier went": ({}, {"barrier": ""}, "a barrier is not there any more"),
    "another workgroup's": (
        {"load": "%m = add %g, %c64 : u32\n  %r = load @h[%m] : u32"},
        {"load": "%m = add %l, %c64 : u32\n  %r = load @h[%m] : u32"},
        "no store of the workgroup",
    ),
    "half of the lanes store": (
        {"store": "%few = lt %l, 32 : u32\n  if %few {\n    store %v, @h[%g] : u32\n  }"},
        {
            "store": "%few = lt %l, 32 : u32\n  if %few {\n    check_bounds<store> @h[%g], 4096 : u32\n"
            "    store %v, @h[%l] : u32\n  }"
        },
        "no store of the workgroup",
    ),
    "data decides what is stored": (
        {"store": "%few = lt %v, 32 : u32\n  if %few {\n    store %v, @h[%g] : u32\n  }"},
        {
            "store": "%few = lt %v, 32 : u32\n  if %few {\n    check_bounds<store> @h[%g], 4096 : u32\n"
            "    store %v, @h[%l] : u32\n  }"
        },
        "no store of the workgroup",
    ),
    "a branch of one condition stores and reads": (
        {
            "store": "%few = lt %v, 32 : u32\n  if %few {\n    store %v, @h[%g]\n  }",
            "barrier": "",
            "load": "%r = if %few -> (u32) {\n    %u = load @h[%g]\n    yield %u\n  } else {\n    yield %v\n  }",
        },
        {
            "store": "%few = lt %v, 32 : u32\n  if %few {\n    store %v, @h[%l]\n  }",
            "barrier": "",
            "load": "%r = if %few -> (u32) {\n    %u = load @h[%l]\n    yield %u\n  } else {\n    yield %v\n  }",
        },
        "",
    ),
    "a branch reads what the other arm stores": (
        {
            "store": "%few = lt %v, 32 : u32\n  if %few {\n    store %v, @h[%g]\n  }",
            "barrier": "",
            "load": "%r = if %few -> (u32) {\n    yield %v\n  } else {\n    %u = load @h[%g]\n    yield %u\n  }",
        },
        {
            "store": "%few = lt %v, 32 : u32\n  if %few {\n    store %v, @h[%l]\n  }",
            "barrier": "",
            "load": "%r = if %few -> (u32) {\n    yield %v\n  } else {\n    %u = load @h[%l]\n    yield %u\n  }",
        },
        "no store of the workgroup",
    ),
    "both arms store": (
        {
            "store": "%few = lt %v, 32 : u32\n  if %few {\n    store %v, @h[%g]\n  } else {\n    store 7, @h[%g]\n  }"
        },
        {
            "store": "%few = lt %v, 32 : u32\n  if %few {\n    check_bounds<store> @h[%g], 4096 : u32\n    store %v, @h[%l]\n"
            "  } else {\n    check_bounds<store> @h[%g], 4096 : u32\n    store 7, @h[%l]\n  }"
        },
        "",
    ),
    "the tile is short": ({}, {"h": "u32[63] workgroup"}, "not known to lie in the tile"),
    "another value is stored": (
        {},
        {"store": "%z = add %v, 1 : u32\n  store %z, @h[%l] : u32"},
        "another value is stored",
    ),
    "accesses move by different distances": (
        {},
        {"load": "%m = sub 62, %l : u32\n  %r = load @h[%m] : u32", "h": "u32[128] workgroup"},
        "another value",
    ),
    "the host sees it": (
        {"h": "u32[4096] read_write binding(2) live_out"},
        {},
        "is seen outside",
    ),
    "what is stored does not fit": (
        {},
        {
            "h": "u8[64] workgroup",
            "store": "%n = cast %v : u32 -> u8\n  store %n, @h[%l] : u8",
            "load": "%m = sub %c63, %l : u32\n  %q = load @h[%m] : u8\n  %r = cast %q : u8 -> u32",
        },
        "not known to fit u8",
    ),
    "what is stored fits": (
        {"store": "%b = and %v, 255 : u32\n  store %b, @h[%g] : u32"},
        {
            "h": "u8[64] workgroup",
            "store": "%b = and %v, 255 : u32\n  %n = cast %b : u32 -> u8\n  check_bounds<store> @h[%g], 4096 : u32\n"
            "  store %n, @h[%l] : u8",
            "load": "%m = sub %c63, %l : u32\n  %q = load @h[%m] : u8\n  %r = cast %q : u8 -> u32",
        },
        "",
    ),
    "a check that nothing implies": (
        {},
        {"store": "check_bounds<store> @h[%g], 64 : u32\n  store %v, @h[%l] : u32"},
        "no access of this block is of the index",
    ),
    "a loop fills it": (
        {
            "h": "u32[16384] read_write",
            "store": "for %k = 0 to 4 step 1 {\n    %a = mul %w, 256 : u32\n    %b = mul %k, 64 : u32\n    %c = add %a, %b\n"
            "    %i = add %c, %l\n    store %v, @h[%i]\n  }",
            "load": "%a = mul %w, 256 : u32\n  %b = sub 255, %l : u32\n  %c = add %a, %b\n  %r = load @h[%c]",
        },
        {
            "h": "u32[256] workgroup",
            "store": "for %k = 0 to 4 step 1 {\n    %a = mul %w, 256 : u32\n    %b = mul %k, 64 : u32\n    %c = add %a, %b\n"
            "    %i = add %c, %l\n    check_bounds<store> @h[%i], 16384 : u32\n    %j = add %b, %l\n    store %v, @h[%j]\n  }",
            "load": "%b = sub 255, %l : u32\n  %r = load @h[%b]",
        },
        "",
    ),
}
LOOP_CLAIM = {**TILE_CLAIM, "buffers": {"h": {"const": 0, "times": {"workgroup_id.x": 256}}}}


@pytest.mark.parametrize("name", TILES)
def test_a_tile(name: str) -> None:
    before, after, why = TILES[name]
    texts = HAND_OFF.format(**STORAGE | before), HAND_OFF.format(**TILE | after)
    status, words = said(*texts, [LOOP_CLAIM if "loop" in name else TILE_CLAIM])
    assert (status, why in words) == ("refused" if why else "proven", True), words


def test_a_tile_elsewhere_than_claimed() -> None:
    claim = {**TILE_CLAIM, "buffers": {"h": {"const": 0, "times": {"workgroup_id.x": 63}}}}
    status, words = said(HAND_OFF.format(**STORAGE), HAND_OFF.format(**TILE), [claim])
    assert (status, "lies elsewhere" in words) == ("refused", True)


def test_a_change_without_a_claim() -> None:
    status, words = said(HAND_OFF.format(**STORAGE), HAND_OFF.format(**TILE), [])
    assert (status, words) == ("refused", "it changed, and no claim is about it")


PUT = """
program @put workgroup(64) {{
  buffer @a : u32[256] read binding(0)
  buffer @b : u32[256] write binding(1) live_out
  %i = global_id x
  %v = load @a[%i]
  %w = add %v, 1 : u32
  store %w, @b[{put}]
}}
"""
GET = """
program @get workgroup(64) {{
  buffer @b : u32[256] read binding(0)
  buffer @c : u32[256] write binding(1) live_out
  %i = global_id x
  %l = local_id x
  %n = xor %i, 1 : u32
  %far = sub 255, %i : u32
  %v = load @b[{get}]
  store %v, @c[%i]
}}
"""
APART = """
pipeline @main {{
  buffer @x : u32[256] read
  buffer @m : u32[256] {m}
  buffer @y : u32[256] write
  launch @put grid(4) (@x, @m)
  launch @get grid(4) (@m, @y)
  {more}
}}
"""
ONE = """
program @both workgroup(64) grid(4) {{
  buffer @a : u32[256] read binding(0)
  buffer @b : u32[256] read_write {bound}
  buffer @c : u32[256] write binding(2) live_out
  %i = global_id x
  %v = load @a[%i]
  %w = add %v, {add} : u32
  store %w, @b[{put}]
  {barrier}
  %n = xor %i, 1 : u32
  %far = sub 255, %i : u32
  %u = load @b[{get}]
  store %u, @c[%i]
}}

pipeline @main {{
  buffer @x : u32[256] read
  {m}
  buffer @y : u32[256] write
  launch @both grid({grid}) ({args})
  {more}
}}
"""
USUAL = {"put": "%i", "get": "%n", "m": "", "more": ""}
JOINED = {
    **USUAL,
    "bound": "",
    "add": "1",
    "barrier": "barrier workgroup",
    "grid": "4",
    "args": "@x, @y",
}
KEPT = {"m": "buffer @m : u32[256] live_out", "bound": "binding(1) live_out", "args": "@x, @m, @y"}
JOIN_CLAIM = {
    "claim": "join",
    "pipeline": "main",
    "program": "both",
    "at": [0, 1],
    "barriers": [1],
    "buffers": {"x": "a", "m": "b", "y": "c"},
}
Changes = dict[str, str]
JOINS: dict[str, tuple[Changes, Changes, dict[str, Any], str]] = {
    "a hand-off within workgroups": ({}, {}, {}, ""),
    "lane by lane": ({"get": "%i"}, {"get": "%i", "barrier": ""}, {"barriers": []}, ""),
    "between lanes without a barrier": ({}, {"barrier": ""}, {"barriers": []}, "in another lane"),
    "a barrier that is not there": ({}, {"barrier": ""}, {}, "no barrier stands before"),
    "between workgroups": ({"get": "%far"}, {"get": "%far"}, {}, "in another workgroup"),
    "another body": ({}, {"add": "2"}, {}, "is of another value"),
    "another grid": ({}, {"grid": "5"}, {}, ""),
    "another element": ({}, {"get": "%i"}, {}, "another value"),
    "the pipeline gives it back": ({"m": "live_out"}, {}, {}, "lets others see it"),
    "it stays": ({"m": "live_out"}, KEPT, {}, ""),
    "another launch reads it": (
        {"more": "launch @get grid(4) (@m, @y)"},
        {"more": "launch @both grid(4) (@x, @y)"},
        {},
        "lets others see it",
    ),
    "buffers change places": (
        {},
        {},
        {"buffers": {"x": "b", "m": "a", "y": "c"}},
        "does not launch @both so",
    ),
    "one launch alone": ({}, {}, {"at": [1]}, "other workgroups or grids"),
    "a launch that is not there": ({}, {}, {"at": [0, 7]}, "malformed"),
}


@pytest.mark.parametrize("name", JOINS)
def test_a_join(name: str) -> None:
    before, after, claim, why = JOINS[name]
    changes = USUAL | before
    written = PUT.format(**changes) + GET.format(**changes) + APART.format(**changes)
    claims = [{**JOIN_CLAIM, **claim}, {"claim": "same", "pipeline": "main"}]
    if name == "another grid":  # the program fixes one, so the text is no valid one
        after = {**after, "grid": "4", "more": "host_read @y"}
        why = "other stages"
    found = findings(generic(written), generic(ONE.format(**JOINED | after)), "a_pass", claims)
    refused = [finding.why for finding in found if finding.status == "refused"]
    assert bool(refused) == bool(why), refused
    assert not why or any(why in words for words in refused), refused


TWO_INPUTS = """
program @a workgroup(64) {
  buffer @p : u32[256] read binding(0)
  buffer @q : u32[256] read binding(1)
  buffer @o : u32[256] write binding(2)
  %i = global_id x
  %u = load @p[%i]
  %v = load @q[%i]
  %w = sub %u, %v : u32
  store %w, @o[%i]
}

pipeline @m {
  INPUTS
  buffer @t : u32[256]
  buffer @y : u32[256] write live_out
  launch @a grid(4) (@x, @z, @t)
  launch @a grid(4) (@t, @z, @y)
}
"""
INPUTS = "  buffer @x : u32[256] read\n", "  buffer @z : u32[256] read\n"


def test_calls_pass_buffers_in_the_order_of_their_declarations() -> None:
    before, after = (TWO_INPUTS.replace("  INPUTS\n", "".join(each)) for each in (INPUTS, INPUTS[::-1]))
    status, words = said(before, after, [{"claim": "same", "pipeline": "m"}])
    assert (status, "in another order" in words) == ("refused", True), words
