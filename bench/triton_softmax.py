"""Row softmax in Triton, as one writes it there: the peer of softmax_gpu."""

from typing import Any

import triton
import triton.language as tl

jit: Any = triton.jit


@jit
def softmax_rows(x, y, rows, columns, block: tl.constexpr, stages: tl.constexpr):
    """Persistent programs, a row at a time, held in registers."""
    at = tl.arange(0, block)
    inside = at < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=stages):
        value = tl.load(x + row * columns + at, mask=inside, other=-float("inf")).to(tl.float32)
        grown = tl.exp(value - tl.max(value, axis=0))
        tl.store(y + row * columns + at, grown / tl.sum(grown, axis=0), mask=inside)


@jit
def softmax_columns(x, y, columns: tl.constexpr, block: tl.constexpr):
    """A row a program, the number of columns compiled in."""
    at = tl.arange(0, block)
    inside = at < columns
    place = tl.program_id(0) * columns + at
    value = tl.load(x + place, mask=inside, other=-float("inf"))
    grown = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + place, grown / tl.sum(grown, axis=0), mask=inside)


def launch(x: Any, y: Any, processors: int, warps: int, programs: int, stages: int) -> None:
    """One run of rows of x into y, with `programs` for each of the GPU's processors."""
    block = triton.next_power_of_2(x.shape[1])
    grid = (min(x.shape[0], processors * programs),)
    softmax_rows[grid](x, y, x.shape[0], x.shape[1], block=block, stages=stages, num_warps=warps)
