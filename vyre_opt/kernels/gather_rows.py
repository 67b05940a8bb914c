"""Rows of bytes from places of an array: the program `gather_rows`.

    @data    u8[?]
    @begins  u32[n]          the place of the first byte of each row
    @rows    u8[n * width]   row after row; bytes behind the end of @data are 0

`width`: bytes of a row.
"""

from __future__ import annotations

from functools import cache

from ..ir.builder import Builder
from ..ir.program import Program
from ..ir.types import DataType
from .collective import guarded

__all__ = ["INVOCATIONS", "gather_rows"]

INVOCATIONS = 256
"""Of a workgroup."""


@cache
def gather_rows() -> Program:
    """The program; each call returns the same, which must not be changed."""
    b = Builder("gather_rows", workgroup=INVOCATIONS)
    data = b.buffer("data", DataType.U8, None, "read", 0)
    begins = b.buffer("begins", DataType.U32, None, "read", 1)
    rows = b.buffer("rows", DataType.U8, None, "write", 2, live_out=True)
    width = b.param("width", DataType.U32)
    own = b.global_id("x")
    with b.if_(b.lt(own, b.len(rows))):
        place = b.add(b.load(begins, b.div(own, width)), b.rem(own, width))
        b.store(guarded(b, b.lt(place, b.len(data)), lambda: b.load(data, place)), rows, own)
    return b.finish()
