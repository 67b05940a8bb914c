"""examples/python/prefix_sum.py in Triton; arrays are torch's, whose 32 bits wrap alike with a sign and without."""

from typing import Any

import torch
import triton
import triton.language as tl

jit: Any = triton.jit


@jit
def add(a, b):
    return a + b


@jit
def sum_tiles(x, sums, n, tile: tl.constexpr):
    i = tl.program_id(0) * tile + tl.arange(0, tile)
    value = tl.load(x + i, mask=i < n, other=0)
    tl.store(sums + tl.program_id(0), tl.sum(value, axis=0))


@jit
def scan_sums(sums, count, block: tl.constexpr):
    total = 0
    for first in range(0, count, block):
        i = first + tl.arange(0, block)
        value = tl.load(sums + i, mask=i < count, other=0)
        tl.store(sums + i, total + tl.associative_scan(value, 0, add), mask=i < count)
        total += tl.sum(value, axis=0)


@jit
def scan_tiles(x, sums, y, n, tile: tl.constexpr):
    number = tl.program_id(0)
    i = number * tile + tl.arange(0, tile)
    before = tl.load(sums + number - 1, mask=number > 0, other=0)
    value = tl.load(x + i, mask=i < n, other=0)
    tl.store(y + i, before + tl.associative_scan(value, 0, add), mask=i < n)


def run(x, y):
    x, y = x.view(torch.int32), y.view(torch.int32)
    n, tile = x.numel(), 4096
    tiles = triton.cdiv(n, tile)
    sums = torch.empty(tiles, dtype=x.dtype, device=x.device)
    sum_tiles[(tiles,)](x, sums, n, tile=tile)
    scan_sums[(1,)](sums, tiles, block=1024)
    scan_tiles[(tiles,)](x, sums, y, n, tile=tile)
