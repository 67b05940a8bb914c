"""Rows of bytes from positions of an array, or of what text encodes: the program `gather_rows`.

    @data    u8[?]           bytes, or whole groups of characters
    @begins  u32[n]          the position of the first byte of each row
    @rows    u8[n * width]   row after row; any bytes for what is not in @data, and for characters that hold no bits
    @values  u8[256]         the value of each character; not for bytes

`width`: bytes of a row.  `skipped`: characters, or bytes, at the start of @data that do not count.
"""

from __future__ import annotations

from functools import cache

from ..ir.builder import Builder
from ..ir.program import Program, Value
from ..ir.types import DataType
from .collective import guarded

__all__ = ["INVOCATIONS", "gather_rows"]

INVOCATIONS = 256
"""Of a workgroup."""

U8, U32 = DataType.U8, DataType.U32


@cache
def gather_rows(encoding: str) -> Program:
    """The program for raw, hex or base64; each call returns the same, which must not be changed."""
    b = Builder("gather_rows", workgroup=INVOCATIONS)
    data = b.buffer("data", U8, None, "read", 0)
    begins = b.buffer("begins", U32, None, "read", 1)
    rows = b.buffer("rows", U8, None, "write", 2, live_out=True)
    values = None if encoding == "raw" else b.buffer("values", U8, 256, "read", 3)
    width, skipped = b.param("width", U32), b.param("skipped", U32)
    count = b.len(data)

    def character(position: Value) -> Value:
        """A byte of @data, or the bits of a character, as a u32."""
        position = b.add(position, skipped)
        octet = guarded(b, b.lt(position, count), lambda: b.cast(b.load(data, position), U32))
        return octet if values is None else b.cast(b.load(values, octet), U32)

    def decoded(position: Value) -> Value:
        if encoding == "raw":
            return character(position)
        if encoding == "hex":
            first = b.mul(position, 2)
            return b.or_(b.shl(character(first), 4), character(b.add(first, 1)))
        # byte r of three has bits of characters r and r + 1 of four: 6 and 2, 4 and 4, 2 and 6
        group, twice = b.div(position, 3), b.mul(b.rem(position, 3), 2)
        first = b.add(b.mul(group, 4), b.rem(position, 3))
        low = b.shr(character(b.add(first, 1)), b.sub(4, twice))
        return b.or_(b.shl(character(first), b.add(twice, 2)), low)

    element = b.global_id("x")
    with b.if_(b.lt(element, b.len(rows))):
        row = b.div(element, width)
        position = b.add(b.load(begins, row), b.sub(element, b.mul(row, width)))
        b.store(b.cast(decoded(position), U8), rows, element)
    return b.finish()
