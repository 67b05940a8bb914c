"""Trees of shuffles whose root one lane has, and all store, are told; what one lane stores, and trees that all lanes have, are not."""

from __future__ import annotations

from pathlib import Path

from support.warned import check_silent, check_told

from vyre_opt import parse, verify

HEAD = """import vyre_opt as vyre
from vyre_opt.lang import *

@vyre.program(workgroup=64)
def kernel(x: Read[f32], y: ReadWrite[f32]):
    i, lane = vyre.global_id(0), vyre.lane_id()
    v = x[i]
"""
DOWN = 'for d in vyre.static((16, 8, 4, 2, 1)):\n    v += vyre.subgroup_shuffle(v, d, "down")\n'
UP = 'for d in vyre.static((1, 2, 4, 8, 16)):\n    v += vyre.subgroup_shuffle(v, d, "up")\n'
REDUCED = 'v = vyre.subgroup_reduce(v, combine="add")\n'
TOLD = [
    # lines, words of the warning, and an edit that makes them right
    (f"{DOWN}y[i] = x[i] / v", 'write vyre.subgroup_reduce(v, combine="add"), which gives it to all lanes', (DOWN, REDUCED)),
    (f"{DOWN}if i < len(y):\n    y[i] = x[i] / v", "lane 0 of each subgroup alone", ('"down"', '"xor"')),
    (f"{DOWN}vyre.atomic_add(y, 0, v)", "write if vyre.lane_id() == 0: vyre.atomic_add(y, 0, v)", ("vyre.atomic", "if vyre.lane_id() == 0: vyre.atomic")),
    (f"{UP}y[i] = v", "the last lane of each subgroup alone", (UP, 'v = vyre.subgroup_scan(v, combine="add")\n')),
    ('for k in range(5):\n    v += vyre.subgroup_shuffle(v, 16 >> u32(k), "down")\ny[i] = v', "all lanes store theirs here", ('"down"', '"xor"')),
    ('d = u32(16)\nwhile d > 0:\n    v += vyre.subgroup_shuffle(v, d, "down")\n    d //= 2\ny[i] = v', "all lanes store theirs here", ('"down"', '"xor"')),
]  # fmt: skip
SILENT = [
    f"{DOWN}v = vyre.subgroup_shuffle(v, 0)\ny[i] = x[i] / v",
    f"{DOWN}if lane == 0:\n    y[i // 32] = v",
    f"{DOWN}if vyre.local_id(0) % 32 < 1:\n    vyre.atomic_add(y, 0, v)",
    f"{DOWN}y[i] = v if lane == 0 else 0.0",
    f"{DOWN}t, l = vyre.shared(f32, 64), vyre.local_id(0)\nt[l] = v\nvyre.barrier()\nif l == 0:\n    vyre.atomic_add(y, 0, t[0] + t[32])",
    UP.replace("    v += ", "    s = ") + "    v += s if lane >= d else 0.0\ny[i] = v",
    DOWN.replace("16, 8, ", "") + "y[i] = v",  # sums of the eight from each lane on
    'for d in vyre.static((1, 2, 4, 8, 16)):\n    v = max(v, vyre.subgroup_shuffle(v, d, "up"))\ny[i] = v',
    'for d in vyre.static((16, 8, 4, 2, 1)):\n    v = max(v, vyre.subgroup_shuffle(v, d, "down"))\ny[i] = v',
]


def test_a_root_that_all_lanes_store_is_told_and_the_remedy_is_right(tmp_path: Path) -> None:
    check_told(tmp_path, HEAD, TOLD, "tree")


def test_a_root_of_one_lane_is_not_told(tmp_path: Path) -> None:
    check_silent(tmp_path, HEAD, SILENT, "tree")


TEXT = """vyre 2
program @sums workgroup(32) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %i = global_id x
  %v = load @x[%i] : f32
  %s = for %k = 0 to 5 step 1 iter(%a = %v : f32) {
    %d = shr 16, %k : u32
    %o = subgroup_shuffle<down> %a, %d : f32
    %b = add %a, %o : f32
    yield %b
  }
  store %s, @y[%i] : f32
}
"""


def test_text() -> None:
    (warning,) = [each for each in verify(parse(TEXT)) if "tree" in each.message]
    assert warning.help == "write subgroup_reduce of %v, which gives it to all lanes"
    assert not [each for each in verify(parse(TEXT.replace("<down>", "<xor>"))) if "tree" in each.message]
