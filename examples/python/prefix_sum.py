"""The inclusive prefix sum of an array of any length, as a pipeline of three launches.

Each workgroup adds up a tile; one workgroup scans the sums of the tiles; each workgroup scans its tile from there.
"""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, u32

LANES, TILE = 256, 4096


@vyre.func
def workgroup_scan(value, partial):
    """The sum over a workgroup up to each invocation, and the sum over all of it."""
    inner = vyre.subgroup_scan(value)
    if vyre.lane_id() == 31:
        partial[vyre.subgroup_id()] = inner
    vyre.barrier()
    before, total = 0, 0
    for k in range(LANES // 32):
        before += partial[k] if k < vyre.subgroup_id() else 0
        total += partial[k]
    vyre.barrier()
    return before + inner, total


@vyre.func
def scan(x, y, first, last, total, partial):
    """Prefix sums of x[first:last] to y by a workgroup, on top of `total`."""
    for start in range(first, last, LANES):
        i = start + vyre.local_id(0)
        inclusive, added = workgroup_scan(x[i] if i < last else 0, partial)
        if i < last:
            y[i] = total + inclusive
        total += added


@vyre.program(workgroup=LANES)
def sum_tiles(x: Read[u32], sums: Write[u32]) -> None:
    partial = vyre.shared(u32, LANES // 32)
    tile, total = vyre.workgroup_id(0), 0
    for i in range(tile * TILE + vyre.local_id(0), min(tile * TILE + TILE, len(x)), LANES):
        total += x[i]
    _, total = workgroup_scan(total, partial)
    if vyre.local_id(0) == 0:
        sums[tile] = total


@vyre.program(workgroup=LANES)
def scan_sums(sums: ReadWrite[u32]) -> None:
    partial = vyre.shared(u32, LANES // 32)
    scan(sums, sums, 0, len(sums), 0, partial)


@vyre.program(workgroup=LANES)
def scan_tiles(x: Read[u32], sums: Read[u32], y: Write[u32]) -> None:
    partial = vyre.shared(u32, LANES // 32)
    tile = vyre.workgroup_id(0)
    before = sums[tile - 1] if tile > 0 else 0
    scan(x, y, tile * TILE, min(tile * TILE + TILE, len(x)), before, partial)


@vyre.pipeline
def prefix_sum(x: Read[u32], y: Write[u32]) -> None:
    tiles = vyre.ceil_div(len(x), TILE)
    sums = vyre.buffer(u32, tiles)
    sum_tiles[tiles](x, sums)
    scan_sums[1](sums)
    scan_tiles[tiles](x, sums, y)


def main():
    x = np.random.default_rng(1).integers(0, 2**32, 1_000_000, np.uint32)
    y = np.empty_like(x)
    prefix_sum(x, y)
    assert np.array_equal(y, np.cumsum(x, dtype=np.uint32))
    print(f"prefix_sum: {len(x)} elements agree with NumPy")


if __name__ == "__main__":
    main()
