"""Accesses of buffers of several dimensions: rows that are apart by constants, and checks that were made before."""

from __future__ import annotations

import pytest

from vyre_opt import parse
from vyre_opt.ir import Op, Program
from vyre_opt.lowering.common.row_major import row_major

TEXT = """vyre 2
program @p workgroup(64) {
  buffer @x : f32[?, ROWS, 32] read binding(0)
  buffer @y : f32[?] write binding(1)
  %h = workgroup_id y
  %l = local_id x
  %r = and %l, 7 : u32
  %r8 = add %r, 8 : u32
  %c = shr %l, 3 : u32
  BODY
}"""


def lowered(body: str, rows: str = "16", bounds: str = "trap") -> Program:
    return row_major(parse(TEXT.replace("ROWS", rows).replace("BODY", body)).programs["p"], bounds)


def traps(program: Program) -> int:
    return sum(op.name == "trap" for op in program.walk())


def constant_ahead(load: Op) -> int:
    """What is added last to the index of a load, 0 for no constant."""
    add = load.operands[0].owner
    assert isinstance(add, Op)
    last = add.operands[1].owner if add.name == "add" else None
    return last.attrs["value"] if isinstance(last, Op) and last.name == "const" else 0


BOTH = "%a = load @x[%h, %r, %c] : f32\n  %b = load @x[%h, %r8, %c] : f32\n  %s = add %a, %b : f32\n  store %s, @y[%l] : f32"


@pytest.mark.parametrize(("rows", "ahead"), [("16", [0, 256]), ("?", [0, 256])])
def test_rows_at_a_constant_distance_have_one_base(rows: str, ahead: list[int]) -> None:
    program = lowered(BOTH, rows)
    loads = [op for op in program.walk() if op.name == "load"]
    assert [constant_ahead(load) for load in loads] == ahead


def test_what_was_checked_is_not_checked_again() -> None:
    """One check of %h for both loads; all else is proven."""
    once = "%a = load @x[%h, %r, %c] : f32\n  store %a, @y[%l] : f32"
    assert traps(lowered(BOTH)) == traps(lowered(once)) == 1


def test_a_check_in_a_branch_counts_within_it_alone() -> None:
    body = "%p = lt %l, 5 : u32\n  if %p {\n  %a = load @x[%h, %r, %c] : f32\n  store %a, @y[%l] : f32\n  }\n"
    body += "  %b = load @x[%h, %r, %c] : f32\n  store %b, @y[%l] : f32"
    assert traps(lowered(body)) == 2


def test_a_longer_access_is_checked_again() -> None:
    body = "%a = load @x[%h, %r, %r] : f32\n  %v = load @x[%h, %r, %l] : vec<4 x f32>\n  %b = load @x[%h, %r, %l] : f32\n"
    body += "  %e = extract %v[0] : vec<4 x f32>\n  %s = add %e, %b : f32\n  %t = add %s, %a : f32\n  store %t, @y[%r] : f32"
    assert traps(lowered(body)) == 2  # of %h, and of four elements from %l on
