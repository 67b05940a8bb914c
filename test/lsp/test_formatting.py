"""The formatter writes what the printer would, keeps comments, and changes nothing but space."""

from __future__ import annotations

import random
import re

import pytest

from vyre_opt import parse
from vyre_opt.ir import print_program
from vyre_opt.lsp.analysis import Analyzer
from vyre_opt.lsp.formatting import formatted
from vyre_opt.syntax.printer import canonical_text


@pytest.mark.parametrize("generic", [False, True])
def test_what_the_printer_writes_stays(valid_texts, generic):
    for text in valid_texts:
        printed = print_program(parse(text), generic)
        assert formatted(printed) == printed


def comments(text):
    return [line.partition("//")[2].strip() for line in text.splitlines() if "//" in line]


def test_meaning_and_comments_stay_and_a_second_time_changes_nothing(valid_texts):
    """With all space between tokens made another, where it may be."""
    choose = random.Random(1)
    for text in valid_texts:
        spoiled = re.sub(r"^ +", lambda m: " " * choose.randrange(9), text, flags=re.MULTILINE)
        spoiled = re.sub(r"(?<=[,:=]) (?=[\w%@])", lambda m: choose.choice((" ", "  ", "\t", "")), spoiled)
        if "//" not in text:
            spoiled = re.sub(r",", choose.choice((",", " ,", ",\n")), spoiled)
        try:
            before = [canonical_text(item) for item in parse(spoiled).order]
        except Exception:  # the space was in a string
            continue
        once = formatted(spoiled)
        assert [canonical_text(item) for item in parse(once).order] == before
        assert comments(once) == comments(spoiled)
        assert formatted(once) == once


def test_comments_stay_where_they_are():
    text = """vyre 1 // the version
// above a program
program @p workgroup( 1 ){ // behind its head
      // inside
 buffer   @x:u32[1]   write binding(0) live_out // short
 buffer @another : u32[1] write binding(1) live_out // aligned with it
  %a   =  const 1:u32
  store %a, // in the middle
     @x[%a] : u32


  store %a,@another[ %a ]:u32
  // at the end
}
// behind all
"""
    assert (
        formatted(text)
        == """vyre 1  // the version
// above a program
program @p workgroup(1) {  // behind its head
  // inside
  buffer @x : u32[1] write binding(0) live_out        // short
  buffer @another : u32[1] write binding(1) live_out  // aligned with it
  %a = const 1 : u32
  store %a,  // in the middle
      @x[%a] : u32

  store %a, @another[%a] : u32
  // at the end
}
// behind all
"""
    )


def test_parts_that_do_not_parse_stay_as_they_are():
    good, bad = "program @p   workgroup(1) {\n}\n\n", "program @q   workgroup(1) {\n   %a =\n}\n"
    for text in (f"vyre 1\n\n{good}{bad}", f"vyre 1\n\n{bad}\n{good}"):
        analysis = Analyzer("a.vyre").analyze(text)
        written = formatted(text, analysis.broken)
        assert bad in written
        assert "program @p workgroup(1) {" in written
