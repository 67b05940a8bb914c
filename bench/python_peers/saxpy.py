"""examples/python/saxpy.py in Triton; arrays are torch's."""

from typing import Any

import triton
import triton.language as tl

jit: Any = triton.jit


@jit
def saxpy(a, x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i < n
    value = a * tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside)
    tl.store(y + i, value, mask=inside)


def run(a, x, y):
    n = y.numel()
    saxpy[(triton.cdiv(n, 1024),)](a, x, y, n, block=1024)
