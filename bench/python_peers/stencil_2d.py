"""examples/python/stencil_2d.py in Triton; arrays are torch's."""

from typing import Any

import triton
import triton.language as tl

jit: Any = triton.jit


@jit
def stencil(rows, columns, x, y, block_rows: tl.constexpr, block_columns: tl.constexpr):
    i = tl.program_id(1) * block_rows + tl.arange(0, block_rows)[:, None]
    j = tl.program_id(0) * block_columns + tl.arange(0, block_columns)[None, :]
    at = i * columns + j
    inside = (i < rows) & (j < columns)
    inner = (i > 0) & (i < rows - 1) & (j > 0) & (j < columns - 1)
    middle = tl.load(x + at, mask=inside)
    total = middle + tl.load(x + at - 1, mask=inner) + tl.load(x + at + 1, mask=inner)
    total = total + tl.load(x + at - columns, mask=inner) + tl.load(x + at + columns, mask=inner)
    tl.store(y + at, tl.where(inner, 0.2 * total, middle), mask=inside)


def run(x, y):
    rows, columns = x.shape
    grid = (triton.cdiv(columns, 128), triton.cdiv(rows, 8))
    stencil[grid](rows, columns, x, y, block_rows=8, block_columns=128)
