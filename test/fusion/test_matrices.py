"""Hand-offs by matrices: launches become one where each workgroup reads its own tiles, behind a barrier of the workgroup."""

from __future__ import annotations

from string import Template

import numpy as np
import pytest
from support.certifying import decisions_of
from support.quick import quick

from vyre_opt import PassManager, parse, run

COPY = """
program @NAME workgroup(64) {
  buffer @from : f32[128, 32] read binding(0)
  buffer @to : f32[128, 32] write binding(1)
  %w = workgroup_id x
  %s = subgroup_id
  %lane = lane_id
  %zero = const 0 : u32
  %one = const 1 : u32
  %two = const 2 : u32
  %eight = const 8 : u32
  %sixteen = const 16 : u32
  %last = const 7 : u32
  %first = mul %w, %two : u32
  %own = add %first, %s : u32
  %tile = TILE : u32
  %r0 = mul %tile, %sixteen : u32
  BODY
}"""

BY_LANES = """for %i = 0 to 16 {
    %r = add %r0, %i : u32
    %v = load @from[%r, %lane] : f32
    store %v, @to[%r, %lane] : f32
  }"""

BY_MATRIX = """%m = matrix_load @from[%r0, %zero] : matrix<16x32xf32, acc>
  matrix_store %m, @to[%r0, %zero] : matrix<16x32xf32, acc>"""

PIPELINE = """
pipeline @main {
  buffer @x : f32[128, 32] read
  buffer @t : f32[128, 32]
  buffer @y : f32[128, 32] write
  launch @first grid(4) (@x, @t)
  launch @second grid(4) (@t, @y)
}
"""

OWN = "add %own, %zero"
OF_WORKGROUP = "xor %own, %one"  # of the other subgroup
OF_GRID = "sub %last, %own"

WAYS = [(BY_MATRIX, BY_LANES), (BY_MATRIX, BY_MATRIX), (BY_LANES, BY_MATRIX)]


def _copy(name: str, tile: str, body: str) -> str:
    return COPY.replace("NAME", name).replace("TILE", tile).replace("BODY", body)


def _pipeline(first: str, second: str, tile: str) -> str:
    return "vyre 2\n" + _copy("first", OWN, first) + _copy("second", tile, second) + PIPELINE


def _is_same(text: str) -> None:
    x = np.random.default_rng(0).random((128, 32), np.float32)
    for target in ("ref", "cpu"):
        np.testing.assert_array_equal(run(text, [x], target=target, passes="default")["y"], x)


TILES = (OWN, OF_WORKGROUP)


@pytest.mark.parametrize(
    ("first", "second", "tile"),
    quick([(*way, TILES[(k + shift) % 2]) for shift in (1, 0) for k, way in enumerate(WAYS)], keep=3),
)
def test_tiles_of_the_own_workgroup_are_handed_over_in_one_launch(first: str, second: str, tile: str) -> None:
    """Whichever subgroup wrote a tile, its lanes move elements for each other, so a barrier of the workgroup parts the two."""
    text = _pipeline(first, second, tile)
    module = parse(text)
    PassManager("launch_fusion").run(module)
    (launch,) = module.pipelines["main"].stages
    assert "t" not in module.pipelines["main"].buffers
    ops = list(module.programs[launch.program].body.ops)
    assert [op.attrs["scope"] for op in ops if op.name == "barrier"] == ["workgroup"]
    assert {d.status for d in decisions_of(text)} == {"proved"}
    _is_same(text)


@pytest.mark.parametrize(("first", "second"), WAYS)
def test_tiles_of_other_workgroups_keep_launches_apart(first: str, second: str) -> None:
    text = _pipeline(first, second, OF_GRID)
    module = parse(text)
    result = PassManager("launch_fusion").run(module)
    assert len(module.pipelines["main"].stages) == 2
    (refusal,) = [r for r in result.remarks if r.kind == "refused"]
    assert refusal.certificate["reason"] == "halo-producer"  # nor can the tiles be computed again
    assert "in another workgroup" in refusal.message
    _is_same(text)


@pytest.mark.parametrize(("moved_by", "rows"), [("%one", 1), ("%eight", 8)])
def test_a_tile_that_reaches_into_the_next_workgroups_is_refused(moved_by: str, rows: int) -> None:
    """The last rows of a matrix count, not those of its first element alone."""
    moved = BY_MATRIX.replace("@from[%r0", "@from[%at")
    second = (
        f"%at = add %r0, {moved_by} : u32\n  %inside = lt %own, %last : u32\n  if %inside {{\n"
        + moved
        + "\n}"
    )
    text = _pipeline(BY_MATRIX, second, OWN)
    result = PassManager("launch_fusion").run(parse(text))
    (refusal,) = [r for r in result.remarks if r.kind == "refused"]
    where = f"32*workgroup_id.x + 16*(local_id.x / 32) + {rows}, 0 .. +15, +31"
    assert f"matrix_load @t[{where}]" in refusal.message


VECTOR = Template("""vyre 2
program @factors workgroup(64) {
  buffer @z : f32[$count] read binding(0)
  buffer @v : f32[$count] write binding(1)
  %g = workgroup_id x
  %s = subgroup_id
  %lane = lane_id
  %two = const 2 : u32
  %rows = const $rows : u32
  %first = mul %g, %two : u32
  %own = add %first, %s : u32
  %r0 = mul %own, %rows : u32
  %r = add %r0, %lane : u32
  %is_row = lt %lane, %rows : u32
  if %is_row {
    %v = load @z[%r] : f32
    store %v, @v[%r] : f32
  }
}
program @scale workgroup(64) {
  buffer @v : f32[$count] read binding(0)
  buffer @x : f32[$count, 32] read binding(1)
  buffer @y : f32[$count, 32] write binding(2)
  %g = workgroup_id x
  %s = subgroup_id
  %zero = const 0 : u32
  %two = const 2 : u32
  %rows = const $rows : u32
  %first = mul %g, %two : u32
  %own = add %first, %s : u32
  %r0 = mul %own, %rows : u32
  %eight = const 8 : u32
  %at = $place : u32
  %f = matrix_load<column_major> @v[%at] : matrix<${rows}x32xf32, acc>
  %m = matrix_load @x[%r0, %zero] : matrix<${rows}x32xf32, acc>
  %p = mul %f, %m : matrix<${rows}x32xf32, acc>
  matrix_store %p, @y[%r0, %zero] : matrix<${rows}x32xf32, acc>
}
pipeline @main {
  buffer @z : f32[$count] read
  buffer @x : f32[$count, 32] read
  buffer @v : f32[$count]
  buffer @y : f32[$count, 32] write
  launch @factors grid(4) (@z, @v)
  launch @scale grid(4) (@v, @x, @y)
}
""")


def _is_scaled(text: str, count: int, elements: np.ndarray) -> None:
    """Row i of the result is that of @x by the element of @z that `elements[i]` says."""
    z, x = (np.random.default_rng(0).random(n, np.float32) for n in (count, (count, 32)))
    for target in ("ref", "cpu"):
        y = run(text, {"z": z, "x": x}, target=target, passes="default")["y"]
        np.testing.assert_array_equal(y, z[elements][:, None] * x)


def test_a_vector_that_a_matrix_reads_becomes_a_tile() -> None:
    """Its index in the tile is one of the subgroup, or the program would not verify."""
    text = VECTOR.substitute(rows=16, count=128, place="add %r0, %zero")
    module = parse(text)
    PassManager("launch_fusion,decode_scan_fuse").run(module)
    (program,) = module.programs.values()
    assert program.buffers["v"].is_workgroup
    assert program.buffers["v"].shape == (32,)
    assert {d.status for d in decisions_of(text)} == {"proved"}
    _is_scaled(text, 128, np.arange(128))


def test_a_halo_that_a_matrix_reads_is_computed_again() -> None:
    """Each subgroup reads from 8 elements before its own on, at an index that its lanes still agree on in the tile."""
    text = VECTOR.substitute(rows=32, count=256, place="sub_sat %r0, %eight")
    module = parse(text)
    PassManager("launch_fusion").run(module)
    (program,) = module.programs.values()
    assert program.buffers["v"].shape == (64 + 8,)
    assert {d.status for d in decisions_of(text)} == {"proved"}
    rows = np.arange(256)
    _is_scaled(text, 256, np.maximum(rows // 32 * 32 - 8, 0) + rows % 32)


def test_a_barrier_after_a_matrix_stays() -> None:
    """By the slots that the interpreter happens to use, each lane would read what it has stored itself."""
    text = """vyre 2
    program @p workgroup(32) {
      buffer @t : f32[16, 32] workgroup
      buffer @x : f32[16, 32] read binding(0)
      buffer @y : f32[16, 32] write binding(1)
      %z = const 0 : u32
      %m = matrix_load @x[%z, %z] : matrix<16x32xf32, acc>
      matrix_store %m, @t[%z, %z] : matrix<16x32xf32, acc>
      barrier workgroup
      %l = local_id x
      for %i = 0 to 16 {
        %v = load @t[%i, %l] : f32
        store %v, @y[%i, %l] : f32
      }
    }"""
    module = parse(text)
    PassManager("barrier_elim,store_forward,dce").run(module)
    assert [op.name for op in module.programs["p"].walk()].count("barrier") == 1
