"""The inclusive prefix sum of an array of any length, as a pipeline of launches.

A subgroup takes a tile of 1024 numbers.  Sums of tiles, and sums of 1024 of those, say where each tile begins.
"""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, u32

TILE = 1024
WORKGROUP_TILES = 8  # subgroups of a workgroup


@vyre.program(workgroup=256)
def sum_tiles(x: Read[u32], sums: Write[u32]) -> None:
    tile, total = vyre.workgroup_id(0) * WORKGROUP_TILES + vyre.subgroup_id(), 0
    for i in range(tile * TILE + vyre.lane_id(), min((tile + 1) * TILE, len(x)), 32):
        total += x[i]
    total = vyre.subgroup_reduce(total, "add")
    if vyre.lane_id() == 0 and tile < len(sums):
        sums[tile] = total


@vyre.func
def scan(x, y, first, last, total):
    """Prefix sums of x[first:last] to y by a subgroup, on top of `total`."""
    for start in range(first, last, 32):
        i = start + vyre.lane_id()
        sums = total + vyre.subgroup_scan(x[i] if i < last else 0)
        if i < last:
            y[i] = sums
        total = vyre.subgroup_shuffle(sums, 31)


@vyre.program(workgroup=256)
def scan_tiles(x: Read[u32], ends: Read[u32], y: Write[u32]) -> None:
    tile = vyre.workgroup_id(0) * WORKGROUP_TILES + vyre.subgroup_id()
    before = ends[tile - 1] if 0 < tile < len(ends) else 0
    scan(x, y, tile * TILE, min((tile + 1) * TILE, len(x)), before)


@vyre.program(workgroup=32)
def scan_all(x: Read[u32], y: Write[u32]) -> None:
    scan(x, y, 0, len(x), 0)


@vyre.pipeline
def prefix_sum(x: Read[u32], y: Write[u32]) -> None:
    tiles = vyre.ceil_div(len(x), TILE)
    sums, ends = vyre.buffer(u32, tiles), vyre.buffer(u32, tiles)
    outer = vyre.ceil_div(tiles, TILE)
    outer_sums, outer_ends = vyre.buffer(u32, outer), vyre.buffer(u32, outer)
    sum_tiles[vyre.ceil_div(tiles, WORKGROUP_TILES)](x, sums)
    sum_tiles[vyre.ceil_div(outer, WORKGROUP_TILES)](sums, outer_sums)
    scan_all[1](outer_sums, outer_ends)
    scan_tiles[vyre.ceil_div(outer, WORKGROUP_TILES)](sums, outer_ends, ends)
    scan_tiles[vyre.ceil_div(tiles, WORKGROUP_TILES)](x, ends, y)


def main():
    x = np.random.default_rng(1).integers(0, 2**32, 1_000_000, np.uint32)
    y = np.empty_like(x)
    prefix_sum(x, y)
    assert np.array_equal(y, np.cumsum(x, dtype=np.uint32))
    print(f"prefix_sum: {len(x)} elements agree with NumPy")


if __name__ == "__main__":
    main()
