"""examples/python/layernorm.py in Triton, by blocks of a row as its tutorial does it; arrays are torch's."""

from typing import Any

import triton
import triton.language as tl

jit: Any = triton.jit


@jit
def layernorm(eps, x, weight, bias, y, columns, block: tl.constexpr):
    start = tl.program_id(0) * columns
    total = tl.zeros([block], dtype=tl.float32)
    for first in range(0, columns, block):
        j = first + tl.arange(0, block)
        total += tl.load(x + start + j, mask=j < columns, other=0.0)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros([block], dtype=tl.float32)
    for first in range(0, columns, block):
        j = first + tl.arange(0, block)
        value = tl.load(x + start + j, mask=j < columns, other=0.0)
        centred = tl.where(j < columns, value - mean, 0.0)
        squares += centred * centred
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    for first in range(0, columns, block):
        j = first + tl.arange(0, block)
        inside = j < columns
        value = tl.load(x + start + j, mask=inside)
        w = tl.load(weight + j, mask=inside)
        b = tl.load(bias + j, mask=inside)
        tl.store(y + start + j, (value - mean) * scale * w + b, mask=inside)


def run(eps, x, weight, bias, y):
    rows, columns = x.shape
    block = min(16384, triton.next_power_of_2(columns))
    warps = min(max(block // 256, 1), 8)
    layernorm[(rows,)](eps, x, weight, bias, y, columns, block=block, num_warps=warps)
