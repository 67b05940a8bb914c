"""Rows of a matrix further apart than they are long, zeros between them: so that all of them begin aligned.

A lane writes 16 bytes, of which it reads the elements one by one, as their rows may begin anywhere.
"""

from __future__ import annotations

from functools import lru_cache

from ..ir.builder import Builder
from ..ir.program import Program, Value
from ..ir.types import DataType
from .collective import guarded

__all__ = ["pitch_of", "pitched_rows", "pitched_rows_grid"]

LANES = 256
ALIGNED = 16  # bytes


def pitch_of(columns: int, dtype: DataType) -> int:
    """The least number of elements from row to row of which all begin at a multiple of 16 bytes."""
    piece = ALIGNED // (dtype.size_bytes or 1)
    return -(-columns // piece) * piece


@lru_cache(maxsize=64)
def pitched_rows(columns: int, dtype: DataType) -> Program:
    """The program `pitched_rows`: rows of @x, of `columns`, to those of @y, which are `pitch_of` elements apart."""
    b = Builder("pitched_rows", workgroup=LANES)
    b.buffer("x", dtype, None, "read", 0)
    b.buffer("y", dtype, None, "write", 1, live_out=True)
    pitch, piece = pitch_of(columns, dtype), ALIGNED // (dtype.size_bytes or 1)
    at = b.mul(b.global_id("x"), piece)
    row, first = b.div(at, pitch), b.rem(at, pitch)
    count = b.len("x")

    def element(column: Value) -> Value:
        index = b.add(b.mul(row, columns), column)
        exists = b.and_(b.lt(column, columns), b.lt(index, count))
        return guarded(b, exists, lambda: b.load("x", index))

    with b.if_(b.le(b.add(at, piece), b.len("y"))):
        b.store(b.vector(*[element(b.add(first, k)) for k in range(piece)]), "y", at)
    return b.finish(verify=False)


def pitched_rows_grid(columns: int, rows: int, dtype: DataType) -> int:
    """Workgroups for `rows` rows."""
    return max(1, -(-rows * pitch_of(columns, dtype) * (dtype.size_bytes or 1) // (ALIGNED * LANES)))
