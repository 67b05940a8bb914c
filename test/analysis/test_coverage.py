"""What a workgroup has surely written, of what matrices and copies move: neither is a lane's own, nor is a copy there at once."""

from __future__ import annotations

import pytest

from vyre_opt import parse
from vyre_opt.analysis.coverage import CoverageWalk
from vyre_opt.analysis.footprint import Footprints

HEAD = """vyre 2
program @p workgroup(64) {
  buffer @x : u32[64] read binding(0)
  buffer @t : i32[32, 16] workgroup
  buffer @c : u32[64] workgroup
  %l = local_id x
  %s = subgroup_id
  %lane = lane_id
  %zero = const 0 : u32
  %sixteen = const 16 : u32
  %sixty_three = const 63 : u32
  %mirror = sub %sixty_three, %l : u32
  %own = mul %s, %sixteen : u32
  %number = const 1 : i32
  %two = const 2 : i32
  %m = splat %number : matrix<16x16xi32, acc>
  %v = load @x[%l] : u32
"""

STORE = "matrix_store %m, @t[%own, %zero] : matrix<16x16xi32, acc>"
LOAD = "%r = matrix_load @t[%own, %zero] : matrix<16x16xi32, acc>"
LOAD_BY_LANES = """for %i = 0 to 16 {
  %column = and %lane, %i : u32
  %row = add %own, %i : u32
  %e = load @t[%row, %zero] : i32
}"""
STORE_BY_LANES = """for %i = 0 to 32 step 4 {
  %q = div %l, %sixteen : u32
  %row = add %i, %q : u32
  %column = rem %l, %sixteen : u32
  store %number, @t[%row, %column] : i32
}"""
COPY = "copy_async %v, @c[%l] : u32"
READ_COPY = "%w = load @c[%mirror] : u32"
READ_OWN_COPY = "%w = load @c[%l] : u32"


def uncovered(*lines: str) -> set[str]:
    """The buffers of which something is read that is not known to be written."""
    program = parse(HEAD + "\n".join(lines) + "\n}").programs["p"]
    walk = CoverageWalk(Footprints(program), {"t", "c"})
    walk.run()
    return walk.failed.keys() | walk.refused.keys()


@pytest.mark.parametrize("write", [STORE, STORE_BY_LANES])
@pytest.mark.parametrize("read", [LOAD, LOAD_BY_LANES])
def test_a_barrier_of_the_workgroup_orders_matrices(write: str, read: str) -> None:
    if not (write is STORE_BY_LANES and read is LOAD_BY_LANES):
        assert uncovered(write, read)
        assert uncovered(write, "barrier subgroup", read)
    assert not uncovered(write, "barrier workgroup", read)


@pytest.mark.parametrize(
    ("read", "is_covered"),
    [
        ("%r = matrix_load @t[%zero, %zero] : matrix<32x16xi32, acc>", True),
        ("%at = const 8 : u32  %r = matrix_load @t[%at, %zero] : matrix<16x16xi32, acc>", True),
        ("%r = matrix_load<column_major> @t[%own, %zero] : matrix<16x16xi32, acc>", True),
        ("%at = const 17 : u32  %r = matrix_load @t[%at, %zero] : matrix<16x16xi32, acc>", False),
    ],
)
def test_all_rows_of_a_matrix_are_read(read: str, is_covered: bool) -> None:
    assert uncovered(STORE, "barrier workgroup", *read.split("  ")) == (set() if is_covered else {"t"})


def test_a_subgroup_alone_writes_its_own_rows_only() -> None:
    lines = ["%first = eq %s, %zero : u32", f"if %first {{\n{STORE}\n}}", "barrier workgroup"]
    assert uncovered(*lines, LOAD)
    assert not uncovered(*lines, "%r = matrix_load @t[%zero, %zero] : matrix<16x16xi32, acc>")


@pytest.mark.parametrize(
    ("lines", "is_covered"),
    [
        ([COPY, "copy_wait", "barrier workgroup", READ_COPY], True),
        ([COPY, "barrier workgroup", READ_COPY], False),
        ([COPY, "barrier workgroup", "copy_wait", READ_COPY], False),
        ([COPY, "copy_wait 1", "barrier workgroup", READ_COPY], False),
        ([COPY, "copy_wait 1", "copy_wait", "barrier workgroup", READ_COPY], True),
        ([COPY, READ_OWN_COPY], False),
        # a wait that only some lanes reach, or none
        ([COPY, "%p = eq %l, %zero : u32", "if %p {\ncopy_wait\n}", "barrier workgroup", READ_COPY], False),
        ([COPY, "for %i = 0 to %v {\ncopy_wait\n}", "barrier workgroup", READ_COPY], False),
        ([COPY, "for %i = 0 to 2 {\ncopy_wait\n}", "barrier workgroup", READ_COPY], True),
        # in each iteration, and after all of them
        ([f"for %i = 0 to 2 {{\n{COPY}\ncopy_wait\nbarrier workgroup\n{READ_COPY}\n}}"], True),
        ([f"for %i = 0 to 2 {{\n{COPY}\n}}", "copy_wait", "barrier workgroup", READ_COPY], True),
        ([f"for %i = 0 to %v {{\n{COPY}\n}}", "copy_wait", "barrier workgroup", READ_COPY], False),
    ],
)  # fmt: skip
def test_a_copy_is_written_by_the_wait_for_it(lines: list[str], is_covered: bool) -> None:
    assert uncovered(*lines) == (set() if is_covered else {"c"})
