"""What analyses say of buffers of several dimensions: bounds, dependences and coverage along each of them."""

from __future__ import annotations

import pytest

from vyre_opt import parse
from vyre_opt.analysis.affine import AffineExpr
from vyre_opt.analysis.affine_analysis import Unknown
from vyre_opt.analysis.bounds import BoundsProofs
from vyre_opt.analysis.coverage import CoverageWalk
from vyre_opt.analysis.dependence import DependenceTest
from vyre_opt.analysis.elements import Elements
from vyre_opt.analysis.footprint import Footprints
from vyre_opt.analysis.virtual_index import RADIX, components
from vyre_opt.ir import Program


def program(body: str, workgroup: str = "16, 16", shape: str = "?, ?") -> Program:
    return parse(f"""vyre 2
    program @p workgroup({workgroup}) {{
      buffer @x : u32[{shape}] read_write binding(0) live_in live_out
      buffer @t : u32[16, 17] workgroup
      %c = global_id x
      %r = global_id y
      %lx = local_id x
      %ly = local_id y
      %n = len @x, 0
      %m = len @x, 1
      %one = const 1 : u32
      {body}
    }}
    """).programs["p"]


GUARDED = """
  %below = lt %r, %n : u32
  %left = lt %c, %m : u32
  %inside = and %below, %left : bool
  if %inside {
    BODY
  }
"""


def test_each_dimension_needs_a_proof() -> None:
    p = program("%rows = lt %r, %n : u32 if %rows { %v = load @x[%r, %c] : u32 }")
    proofs = BoundsProofs(p)
    (load,) = (op for op in p.walk() if op.name == "load")
    assert load not in proofs.proven
    assert proofs.along[load] == (True, False)
    whole = program(GUARDED.replace("BODY", "%v = load @x[%r, %c] : u32"))
    assert len(BoundsProofs(whole).proven) == 1


@pytest.mark.parametrize(
    ("index", "is_apart"),
    [
        ("%r, %c", True),
        ("%c, %r", True),
        ("%one, %c", False),  # all rows of lanes write row 1
        ("%ly, %c", False),  # workgroups below each other write the same rows
    ],
)
def test_columns_alone_do_not_tell_rows_apart(index: str, is_apart: bool) -> None:
    p = program(GUARDED.replace("BODY", f"%v = load @x[{index}] : u32 store %v, @x[{index}] : u32"))
    footprints = Footprints(p)
    load, store = footprints.accesses("x")
    test = DependenceTest(footprints, (None, None, 1))
    assert test.disjoint_between_lanes(load, store) is is_apart


def test_rows_that_differ_are_apart_whatever_their_columns() -> None:
    body = "%r1 = add %r, %one : u32 %v = load @x[%one, %c] : u32 %two = const 2 : u32 store %v, @x[%two, %c] : u32"
    footprints = Footprints(program(body))
    load, store = footprints.accesses("x")
    assert DependenceTest(footprints, (None, None, 1)).disjoint(load, store)


def test_an_index_that_may_wrap_has_no_expression() -> None:
    """Of column + 1, an invocation beyond 2^32 - 2 accesses column 0; where columns are below a length, none does."""
    body = "%next = add %c, %one : u32 %v = load @x[%one, %next] : u32"
    (access,) = Footprints(program(body)).accesses("x")
    assert isinstance(access.index, Unknown)
    assert access.index.reason == "along dimension 1 it may wrap around its type"
    (access,) = Footprints(program(GUARDED.replace("BODY", body))).accesses("x")
    assert isinstance(access.index, AffineExpr)
    assert access.describe() == "load @x[1, 16*workgroup_id.x + local_id.x + 1]"


def coverage(body: str) -> CoverageWalk:
    walk = CoverageWalk(Footprints(program(body)), {"t", "x"})
    walk.run()
    return walk


def test_a_tile_is_covered_by_all_of_its_lanes() -> None:
    body = "store %r, @t[%ly, %lx] : u32 barrier workgroup %v = load @t[%lx, %ly] : u32"
    assert list(coverage(body).order.values()) == ["barrier"]
    assert "t" in coverage(body.replace("barrier workgroup", "")).failed


def test_a_column_that_no_lane_writes_is_not_covered() -> None:
    body = """store %r, @t[%ly, %lx] : u32 barrier workgroup
    %next = add %lx, %one : u32 %v = load @t[%ly, %next] : u32"""
    walk = coverage(body)
    assert "t" in walk.failed or "t" in walk.refused


def test_a_condition_is_one_along_its_dimension() -> None:
    """What was written where the row is below 8 is not what is read where the column is."""
    body = """
      %eight = const 8 : u32
      %w = workgroup_id x
      %e = add %w, %eight : u32
      %first = lt %ROW, %e : u32
      if %first { store %r, @x[%r, %c] : u32 }
      barrier workgroup
      %second = lt %c, %e : u32
      if %second { %v = load @x[%r, %c] : u32 }
    """
    assert "x" in coverage(body.replace("%ROW", "%r")).failed
    assert "x" not in coverage(body.replace("%ROW", "%c")).failed


def test_components_are_those_of_each_dimension() -> None:
    (access,) = Footprints(program(GUARDED.replace("BODY", "%v = load @x[%c, %r] : u32"))).accesses("x")
    row, column = components(access.expr, 2)
    assert (str(row), str(column)) == (
        "16*workgroup_id.x + local_id.x",
        "16*workgroup_id.y + local_id.y",
    )


@pytest.mark.parametrize("dimensions", [2, 3])
def test_elements_of_several_dimensions(dimensions: int) -> None:
    """A box of rows and columns; what is too wide for a row of the grid is not tracked, and never another element."""
    row = RADIX ** (dimensions - 1)
    start = Elements.single(0, dimensions)
    assert start is not None
    box = start.spread(row, 4)
    assert box is not None
    box = box.spread(1, 5)
    assert box is not None
    assert len(box) == 20
    moved = box.shifted(1 - row)
    assert moved is not None
    assert len(box.minus(moved)) == 20 - 3 * 4
    assert start.spread(1, 1 << 12) is None
    assert Elements.single(1 << 12, dimensions) is None
    assert Elements.of([0, row, row + 3], dimensions) is not None
    assert Elements.of([0, 1 << 12], dimensions) is None
