"""Claims that a launch writes all of a buffer, held against what the interpreter writes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import vyre_opt
from vyre_opt.analysis.whole_writes import whole_writes
from vyre_opt.ir.written_elements import wholly_written

HEADER = """vyre 1
program @p workgroup(8) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  %g = global_id x
  %s = global_size x
  %n = len @y
  %m = len @x
  %c9 = const 9 : u32
"""
STORE = "store %g, @y[%g] : u32"
IF = "%in{0} = lt %g, {1} : u32\n if %in{0} {{\n {2}\n }}"
FORMS = {
    "each its own": IF.format(1, "%n", STORE),
    "below another length": IF.format(1, "%m", IF.format(2, "%n", STORE)),
    "below a constant": IF.format(1, "%c9", IF.format(2, "%n", STORE)),
    "below both": "%a = lt %g, %n : u32\n %b = lt %g, %m : u32\n %both = and %a, %b : bool\n if %both {\n "
    + STORE
    + "\n }",
    "below one or the other": "%a = lt %g, %n : u32\n %b = lt %m, %g : u32\n %both = and %a, %b : bool\n"
    " if %both {\n " + STORE + "\n }",
    "strided": "for %i = %g to %n step %s {\n store %i, @y[%i] : u32\n }",
    "strided to another length": "%e = min %m, %n : u32\n for %i = %g to %m step %s {\n %in = lt %i, %n : u32\n"
    " if %in {\n store %i, @y[%i] : u32\n }\n }",
    "strided from 8 on": "%f = add %g, %c9 : u32\n for %i = %f to %n step %s {\n store %i, @y[%i] : u32\n }",
    "only some": "%r = rem %g, %c9 : u32\n %o = lt %r, %m : u32\n if %o {\n "
    + IF.format(1, "%n", STORE)
    + "\n }",
    "the other arm": "%in1 = lt %g, %c9 : u32\n if %in1 {\n } else {\n " + IF.format(2, "%n", STORE) + "\n }",
    "each by a loop that may be empty": "for %i = %c9 to %m step 1 {\n " + IF.format(1, "%n", STORE) + "\n }",
    "one beside": "%h = add %g, %c9 : u32\n %in = lt %h, %n : u32\n if %in {\n store %g, @y[%h] : u32\n }",
}
PROVEN = {"below both", "each its own", "below another length", "below a constant", "strided"}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_claimed_is_written(form: str) -> None:
    text = f"{HEADER}  {FORMS[form]}\n}}\n"
    program = vyre_opt.parse(text).programs["p"]
    forms, claims = whole_writes(program), 0
    run = vyre_opt.compile(text, target="ref")
    for workgroups, count, other in product((1, 2, 3), (0, 1, 8, 9, 10, 16, 17), (0, 7, 9, 24)):
        claimed = "y" in wholly_written(forms, (workgroups, 1, 1), {"x": (other,), "y": (count,)})
        if claimed:
            y = run([np.zeros(other, "u4")], workgroups, lengths={"y": count})["y"]
            assert np.array_equal(y, np.arange(count)), (workgroups, count, other)
        claims += claimed and count > 0
    assert (claims > 0) == (form in PROVEN)


def test_every_case_of_the_plain_form_is_claimed() -> None:
    program = vyre_opt.parse(f"{HEADER}  {FORMS['each its own']}\n}}\n").programs["p"]
    for workgroups, count in product(range(1, 5), range(40)):
        claimed = wholly_written(whole_writes(program), (workgroups, 1, 1), {"x": (0,), "y": (count,)})
        assert claimed == ({"y"} if count <= 8 * workgroups else set())


def test_a_buffer_that_is_read_as_well_has_no_claim() -> None:
    text = HEADER.replace("u32[?] write", "u32[?] read_write live_out") + "  %v = load @y[%g] : u32\n"
    program = vyre_opt.parse(f"{text}  {STORE}\n}}\n").programs["p"]
    assert whole_writes(program) == {}


SHAPED = """vyre 2
program @p workgroup(4, 2) {
  buffer @x : u32[?, ?] read binding(0)
  buffer @y : u32[?, ?] write binding(1)
  %c = global_id x
  %r = global_id y
  %d = global_id z
  %sc = global_size x
  %rows = len @y, 0
  %columns = len @y, 1
  %xrows = len @x, 0
  %three = const 3 : u32
  %in_row = lt %c, %columns : u32
  %in_column = lt %r, %rows : u32
  %inside = and %in_row, %in_column : bool
"""
OWN = "store %three, @y[%r, %c] : u32"
SHAPED_FORMS = {
    "each its own": f"if %inside {{ {OWN} }}",
    "one condition in the other": f"if %in_row {{ region @inner {{ if %in_column {{ {OWN} }} }} }}",
    "below another length": f"%p = lt %r, %xrows : u32 %q = and %p, %inside : bool if %q {{ {OWN} }}",
    "a row strided": "if %in_column { for %i = %c to %columns step %sc { store %three, @y[%r, %i] : u32 } }",
    "a condition on what strides": "if %inside { for %i = %c to %columns step %sc { store %three, @y[%r, %i] : u32 } }",
    "rows and columns exchanged": "%a = lt %c, %rows : u32 %b = lt %r, %columns : u32 %q = and %a, %b : bool"
    " if %q { store %three, @y[%c, %r] : u32 }",
    "the diagonal": "%a = lt %c, %rows : u32 %q = and %a, %in_row : bool if %q { store %three, @y[%c, %c] : u32 }",
    "some layers": f"%p = lt %d, %xrows : u32 %q = and %p, %inside : bool if %q {{ {OWN} }}",
    "one row": "%zero = const 0 : u32 if %inside { store %three, @y[%zero, %c] : u32 }",
    "the length of the other dimension": f"%p = lt %r, %columns : u32 %q = and %p, %inside : bool if %q {{ {OWN} }}",
}
SHAPED_PROVEN = {
    "each its own",
    "one condition in the other",
    "below another length",
    "a row strided",
    "rows and columns exchanged",
    "the length of the other dimension",
}


@pytest.mark.parametrize("form", SHAPED_FORMS)
def test_what_is_claimed_of_several_dimensions_is_written(form: str) -> None:
    """Of some grids and shapes all is written, of others not, in whichever dimension it is too short."""
    text = f"{SHAPED}  {SHAPED_FORMS[form]}\n}}\n"
    forms, claims = whole_writes(vyre_opt.parse(text).programs["p"]), 0
    run = vyre_opt.compile(text, target="ref")
    for across, down, rows, columns, other in product(
        (1, 2), (1, 2), (1, 2, 3, 4, 5), (1, 3, 4, 8, 9), (0, 4)
    ):
        shapes = {"x": (other, 7), "y": (rows, columns)}
        if "y" in wholly_written(forms, (across, down, 1), shapes):
            claims += 1
            y = run([np.zeros((other, 7), "u4")], (across, down), lengths={"y": (rows, columns)})["y"]
            assert (y == 3).all(), (across, down, rows, columns, other)
    assert (claims > 0) == (form in SHAPED_PROVEN)
