"""The indices of a table's lookups, as they come or checked.

Checked, @indices are integers of any type.  One that is out of range is worked on as the table's last row, so that all
lanes compute something valid; its row is written as zeros, and its lookup traps at the end.
"""

from __future__ import annotations

from math import prod

from ..ir.builder import Builder
from ..ir.embedding_shape import EmbeddingShape
from ..ir.program import Value
from ..ir.types import DataType
from .collective import as_type
from .embedding_cores import EmbeddingCores

__all__ = ["EmbeddingIndices", "table_buffers"]

OUTSIDE = (1 << 32) - 1  # no table has as many rows


class EmbeddingIndices:
    """Declares @indices.  `checked`: their type; None for u32 below the table's rows, which are not checked."""

    def __init__(
        self, b: Builder, shape: EmbeddingShape, binding: int, checked: DataType | None = None
    ) -> None:
        self.b, self.rows, self.checked = b, prod(shape.p), checked
        b.buffer("indices", checked or DataType.U32, None, "read", binding)

    def load(self, number: Value) -> Value:
        """The index of a lookup, a u32; OUTSIDE for one that is out of range."""
        b, index = self.b, self.b.load("indices", number)
        if self.checked is None:
            return index
        wide = as_type(b, index, DataType.U64)  # a negative one is beyond any table
        return b.select(b.ge(wide, b.const(self.rows, DataType.U64)), OUTSIDE, as_type(b, wide, DataType.U32))

    def row(self, index: Value) -> Value:
        """The row to work on, for what `load` gave."""
        return index if self.checked is None else self.b.min(index, self.rows - 1)

    def is_outside(self, index: Value) -> Value:
        return self.b.eq(index, OUTSIDE)

    def or_zero(self, value: Value, index: Value) -> Value:
        """A value to be written, of the row of an index."""
        return self.b.select(self.is_outside(index), 0.0, value)

    def trap(self) -> None:
        self.b.trap(f"an index is out of range: the table has {self.rows} rows")


def table_buffers(
    b: Builder,
    shape: EmbeddingShape,
    dtype: DataType,
    out_dtype: DataType,
    separate: bool,
    checked: DataType | None,
) -> tuple[EmbeddingCores, EmbeddingIndices]:
    """Declares what every form has: the cores, @indices, and @out in rows."""
    cores = EmbeddingCores(b, shape, dtype, separate)
    indices = EmbeddingIndices(b, shape, cores.count, checked)
    b.buffer("out", out_dtype, None, "write", cores.count + 1, live_out=True)
    return cores, indices
