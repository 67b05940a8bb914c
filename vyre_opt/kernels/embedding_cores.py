"""The cores of a table as buffers: one after the other in @cores, or @core0, @core1, ... of their own."""

from __future__ import annotations

from math import prod

from ..ir.builder import Builder
from ..ir.embedding_shape import EmbeddingShape
from ..ir.program import Value
from ..ir.types import DataType
from .collective import as_type, offset

__all__ = ["EmbeddingCores"]


class EmbeddingCores:
    """Declares the buffers of the cores, from binding 0 on.  `count`: how many buffers."""

    def __init__(self, b: Builder, shape: EmbeddingShape, dtype: DataType, separate: bool) -> None:
        self.b, self.shape, self.separate = b, shape, separate
        sizes = [shape.p[k] * shape.slice_size(k) for k in range(len(shape.p))]
        self.count = len(sizes) if separate else 1
        if separate:
            for k, size in enumerate(sizes):
                b.buffer(f"core{k}", dtype, size, "read", k)
        else:
            b.buffer("cores", dtype, sum(sizes), "read", 0)

    def digit(self, index: Value, k: int) -> Value:
        """Digit k of an index of the table."""
        below = prod(self.shape.p[k + 1 :])
        digit = self.b.div(index, below) if below > 1 else index
        return self.b.rem(digit, self.shape.p[k]) if k else digit

    def slice_start(self, digit: Value, k: int) -> Value:
        """Offset in its buffer of the slice of core k with this digit."""
        start = self.b.mul(digit, self.shape.slice_size(k))
        return start if self.separate else offset(self.b, start, self.shape.start(k))

    def load(self, k: int, index: Value, lanes: int = 1) -> Value:
        """An element of core k or a vector of them, as f32."""
        loaded = self.b.load(f"core{k}" if self.separate else "cores", index, lanes=lanes)
        return as_type(self.b, loaded, loaded.type.with_element(DataType.F32))
