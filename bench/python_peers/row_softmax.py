"""examples/python/row_softmax.py in Triton, a row of any length by blocks; arrays are torch's."""

from typing import Any

import triton
import triton.language as tl

jit: Any = triton.jit


@jit
def softmax(columns, x, y, block: tl.constexpr):
    start = tl.program_id(0) * columns
    largest = tl.full([block], -float("inf"), dtype=tl.float32)
    for first in range(0, columns, block):
        j = first + tl.arange(0, block)
        value = tl.load(x + start + j, mask=j < columns, other=-float("inf"))
        largest = tl.maximum(largest, value)
    peak = tl.max(largest, axis=0)
    totals = tl.zeros([block], dtype=tl.float32)
    for first in range(0, columns, block):
        j = first + tl.arange(0, block)
        value = tl.load(x + start + j, mask=j < columns, other=-float("inf"))
        totals += tl.exp(value - peak)
    total = tl.sum(totals, axis=0)
    for first in range(0, columns, block):
        j = first + tl.arange(0, block)
        value = tl.load(x + start + j, mask=j < columns)
        tl.store(y + start + j, tl.exp(value - peak) / total, mask=j < columns)


def run(x, y):
    rows, columns = x.shape
    block = min(16384, triton.next_power_of_2(columns))
    warps = min(max(block // 256, 1), 8)
    softmax[(rows,)](columns, x, y, block=block, num_warps=warps)
