"""vyre-opt --upgrade: a text of version 1 in version 2, with all that its author wrote but the names of constants."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tools_inside import call_opt

from vyre_opt import fingerprint, parse

OLD = """// A comment before the version.
vyre 1  // and one behind it

func @f(%x : u32) -> u32 {
  %seven = const 7 : u32
  yield %seven
}

program @p workgroup(64) {
  buffer @x : f32[?] read  binding(0)   // aligned
  buffer @y : f32[?] write binding(1)

  %i     = global_id x
  %first = const 0 : u32
  %mask  = const 0xff : u32  // of a byte
  %gain  = const 0.5 : f32   %bias = const 1 : f32
  %none  = const 0 : u32     %low   = and %i, %mask : u32
  %v     = load @x[%first] : f32  // not %first
  %w     = fma %v, %gain, %bias : f32  %unused = const 3 : u32
  debug_print "%u %%gain" %low
  %c = lt %none, %low : u32
  if %c { %one = const 1.5 : f32 store %one, @y[%i] : f32 }
  store %w, @y[%i]
}
"""
NEW = """// A comment before the version.
vyre 2  // and one behind it

func @f(%x : u32) -> u32 {
  yield 7
}

program @p workgroup(64) {
  buffer @x : f32[?] read  binding(0)   // aligned
  buffer @y : f32[?] write binding(1)

  %i     = global_id x
  // of a byte
  %low   = and %i, 0xff : u32
  %v     = load @x[0] : f32  // not %first
  %w     = fma %v, 0.5, 1 : f32  %unused = const 3 : u32
  debug_print "%u %%gain" %low
  %c = lt 0, %low : u32
  if %c { store 1.5, @y[%i] : f32 }
  store %w, @y[%i]
}
"""
COMMENTED = """vyre 1

func @f(%x : vec<2 x u32>) -> vec<2 x u32> {
  %c = const // why: two lanes
    [0x10, // "one"
     2] : // and their type
    vec<2 x u32>   // behind it
  %y = add %x, %c : vec<2 x u32>
  yield %y
}
"""
COMMENTED_NEW = """vyre 2

func @f(%x : vec<2 x u32>) -> vec<2 x u32> {
  // why: two lanes
    // "one"
     // and their type
    // behind it
  %y = add %x, [0x10, 2] : vec<2 x u32>
  yield %y
}
"""
KEPT = """vyre 1

program @kept workgroup(64) {
  buffer @y : u32[?] write binding(0)
  buffer @v : u32[64] read_write binding(1) live_in live_out
  %n = const 8 : u32
  %at = const 3 : u64
  %shown = const 5 : u32
  %a = const 6 : u32
  %b = add %a, %a
  %lanes = const [1, 2] : vec<2 x u32>
  %r = add %lanes, %lanes : vec<2 x u32>
  %zeros = const 0 : vec<2 x u32>
  for %k = 0 to %n step 1 {
    store %b, @y[%k] : u32
  }
  debug_print "%u %v" %shown, %r
  store %b, @y[%at] : u32
  store %zeros, @v[%b]
}
"""


def upgraded(text: str, tmp_path: Path) -> str:
    (tmp_path / "old.vyre").write_text(text)
    done = call_opt("--upgrade", tmp_path / "old.vyre")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_constants_go_where_they_are_used(tmp_path: Path) -> None:
    """As they were written, 0xff as that; comments, layout and strings stay; a second time nothing changes."""
    text = upgraded(OLD, tmp_path)
    assert text == NEW
    assert fingerprint(parse(text)) == fingerprint(parse(OLD))
    assert upgraded(text, tmp_path) == text


def test_comments_within_a_constant_stay(tmp_path: Path) -> None:
    """Though the constant spans several lines and goes; its value is read without them."""
    text = upgraded(COMMENTED, tmp_path)
    assert text == COMMENTED_NEW
    assert fingerprint(parse(text)) == fingerprint(parse(COMMENTED))


@pytest.mark.parametrize("space", [" ", "\n    ", " // 16\n"])
def test_constants_in_the_generic_form(space: str, tmp_path: Path) -> None:
    """All of such a constant goes: its attributes and its types too."""
    text = "vyre 1\n\nfunc @f(%x : u32) -> u32 {\n  CONST\n  %y = add %x, %value : u32\n  yield %y\n}\n"
    written = f'%value = "const"(){space}{{value = 0x10}}{space}: () -> (u32)'
    comments = ["  // 16\n", "// 16\n"] if "//" in space else []
    after = text.replace("vyre 1", "vyre 2").replace("  CONST\n", "".join(comments)).replace("%value", "0x10")
    assert upgraded(text.replace("CONST", written), tmp_path) == after


def test_line_ends_stay(tmp_path: Path) -> None:
    """Also where a file mixes them."""
    old = OLD.replace("\n", "\r\n").replace("// aligned\r\n", "// aligned\n")
    new = NEW.replace("\n", "\r\n").replace("// aligned\r\n", "// aligned\n")
    (tmp_path / "old.vyre").write_bytes(f"{old}// -----\r\n{old}".encode())
    assert (
        call_opt("--upgrade", "--split-input-file", "old.vyre", "-o", "new.vyre", cwd=tmp_path).returncode
        == 0
    )
    assert (tmp_path / "new.vyre").read_bytes() == f"{new}// -----\r\n{new}".encode()


def test_what_needs_its_name_keeps_it(tmp_path: Path) -> None:
    """A bound, an index of another type, what is printed, a list for several ops, and where no type is written."""
    assert upgraded(KEPT, tmp_path) == KEPT.replace("vyre 1", "vyre 2")


def test_a_file_of_several_texts(tmp_path: Path) -> None:
    """Each part by itself; the markers, and comments between them, stay."""
    text = f"// RUN: it\n// -----\n{OLD}// -----\n{NEW}"
    (tmp_path / "all.vyre").write_text(text)
    done = call_opt("--upgrade", "--split-input-file", tmp_path / "all.vyre")
    assert done.stdout == f"// RUN: it\n// -----\n{NEW}// -----\n{NEW}"


def test_a_wrong_text_stays_as_it_is(tmp_path: Path) -> None:
    """Exit 1 and the place of the error; the file that was to be replaced is not touched."""
    path = tmp_path / "x.vyre"
    path.write_text(OLD.replace("%v, %gain", "%v, %no_gain"))
    before = path.read_bytes()
    done = call_opt("--upgrade", path, "-o", path)
    assert done.returncode == 1
    assert "x.vyre:19:20: error: %no_gain is not defined" in done.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("option", ["--pass=cse", "-O", "--emit=json", "--print-generic", "--spec=k=1"])
def test_it_is_for_texts_alone(option: str, tmp_path: Path) -> None:
    """What asks for the module beside it is a wrong command line."""
    (tmp_path / "old.vyre").write_text(OLD)
    done = call_opt("--upgrade", option, tmp_path / "old.vyre")
    assert done.returncode == 2
    assert "--upgrade changes the text alone" in done.stderr
