"""Claims that a launch writes all of a buffer, held against what the interpreter writes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import vyre_opt
from vyre_opt.analysis.whole_writes import whole_writes, wholly_written

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
        claimed = "y" in wholly_written(forms, (workgroups, 1, 1), {"x": other, "y": count})
        if claimed:
            y = run([np.zeros(other, "u4")], workgroups, lengths={"y": count})["y"]
            assert np.array_equal(y, np.arange(count)), (workgroups, count, other)
        claims += claimed and count > 0
    assert (claims > 0) == (form in PROVEN)


def test_every_case_of_the_plain_form_is_claimed() -> None:
    program = vyre_opt.parse(f"{HEADER}  {FORMS['each its own']}\n}}\n").programs["p"]
    for workgroups, count in product(range(1, 5), range(40)):
        claimed = wholly_written(whole_writes(program), (workgroups, 1, 1), {"x": 0, "y": count})
        assert claimed == ({"y"} if count <= 8 * workgroups else set())


def test_a_buffer_that_is_read_as_well_has_no_claim() -> None:
    text = HEADER.replace("u32[?] write", "u32[?] read_write live_out") + "  %v = load @y[%g] : u32\n"
    program = vyre_opt.parse(f"{text}  {STORE}\n}}\n").programs["p"]
    assert whole_writes(program) == {}
