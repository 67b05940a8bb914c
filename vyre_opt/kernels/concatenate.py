"""Two arrays, one behind the other: the program `concatenate`."""

from __future__ import annotations

from functools import cache

from ..ir.builder import Builder
from ..ir.program import Program
from ..ir.types import DataType

__all__ = ["concatenate", "concatenate_grid"]

LANES = 256


@cache
def concatenate(dtype: DataType) -> Program:
    """@left and @right to @out, of as many elements as both.  A lane does an element."""
    b = Builder("concatenate", workgroup=LANES)
    left, right = b.buffer("left", dtype, None, "read", 0), b.buffer("right", dtype, None, "read", 1)
    out = b.buffer("out", dtype, None, "write", 2, live_out=True)
    element, first = b.global_id("x"), b.len(left)
    with b.if_(b.lt(element, b.min(b.len(out), first))):
        b.store(b.load(left, element), out, element)
    behind = b.sub(element, first)
    is_behind = b.and_(b.ge(element, first), b.lt(behind, b.len(right)))
    with b.if_(b.and_(is_behind, b.lt(element, b.len(out)))):
        b.store(b.load(right, behind), out, element)
    return b.finish(verify=False)


def concatenate_grid(count: int) -> int:
    """Workgroups for a result of `count` elements."""
    return max(1, -(-count // LANES))
