"""Slices of programs: equal where only what is stored differs, and never where a proof about accesses could."""

from __future__ import annotations

from support.each import each

from vyre_opt import parse
from vyre_opt.fusion.access_slice import access_slice

TEXT = """vyre 1
program @p workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %g = global_id x
  %n = len @y
  %c = const 3 : u32
  %inside = lt %g, %n : u32
  if %inside {
    %i = and %g, %c : u32
    %v = load @x[%i] : u32
    %s = mul %v, %v : u32
    store %s, @y[%g] : u32
  }
}
"""


def slice_of(*edits: tuple[str, str]) -> object:
    text = TEXT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (program,) = parse(text).programs.values()
    return access_slice(program)


UNSEEN = [
    ("%s = mul %v, %v : u32", "%t = add %v, %g : u32 %s = mul %t, %c : u32"),
    ("%s = mul %v, %v : u32", "%s = const 7 : u32"),
    ("program @p", "program @q"),
    ("%inside", "%in"),
    ("@x", "@other"),
]


def test_what_is_stored_and_names_do_not_count() -> None:
    def check(edit: tuple[str, str]) -> None:
        assert slice_of(edit) == slice_of()

    each(UNSEEN, check)


SEEN = [
    ("const 3", "const 7"),
    ("and %g, %c", "and %g, %v0"),
    ("store %s, @y[%g]", "store %s, @y[%c]"),
    ("store %s, @y[%g]", "store %s, @y[%s]"),
    ("lt %g, %n", "gt %g, %n"),
    ("len @y", "len @x"),
    ("  if %inside {", "  barrier workgroup\n  if %inside {"),
    ("workgroup(64)", "workgroup(32)"),
    ("workgroup(64)", "workgroup(64) grid(4)"),
    ("@x : u32[?] read ", "@x : u32[?] read_write live_in "),
    ("@x : u32[?]", "@x : u32[64]"),
    ("binding(1) live_out", "binding(1)"),
    ("    %s = mul %v, %v : u32\n", "    %s = load @x[%v] : u32\n"),
]


def test_what_accesses_depend_on_counts() -> None:
    def check(edit: tuple[str, str]) -> None:
        edits = [("  %c = const", "  %zero = const 0 : u32\n  %v0 = load @x[%zero] : u32\n  %c = const")]
        assert slice_of(*edits, edit) != slice_of(*edits)

    each(SEEN, check)


def test_which_of_two_buffers_counts() -> None:
    """Buffers are told apart by their places, not by their names."""
    swapped = [
        ("@x : u32[?] read binding(0)", "@x : u32[?] read binding(1)"),
        ("write binding(1)", "write binding(0)"),
    ]
    assert slice_of(*swapped) != slice_of()
