"""Workgroup memory through which invocations exchange elements of slices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..ir.builder import Builder
from ..ir.program import AccessMode, Value
from ..ir.rewrite import fresh_name
from ..ir.types import DataType
from ..records import dataclass

__all__ = ["Memory", "Tile"]


@dataclass(frozen=True)
class Tile:
    """A block in workgroup memory: at a stage along the first dimension of a buffer, transposed or not."""

    buffer: str
    stage: Value
    is_transposed: bool = False


class Memory:
    """One buffer for each use and type, with the length of its longest use."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.names: dict[tuple[str, DataType], str] = {}

    def of(self, use: str, dtype: DataType, count: int) -> str:
        buffers, key = self.b.program.buffers, (use, dtype)
        if key not in self.names:
            name = self.names[key] = fresh_name(f"{use}.{dtype}", buffers)
            self.b.buffer(name, dtype, count, AccessMode.WORKGROUP.value)
        buffer = buffers[self.names[key]]
        if buffer.count is None or buffer.count < count:
            buffers[buffer.name] = replace(buffer, shape=(count,))
        return buffer.name

    def tile(self, use: str, dtype: DataType, shape: tuple[int, ...]) -> str:
        """A buffer of several dimensions: one for each use, type and shape."""
        key = f"{use}.{'x'.join(map(str, shape))}", dtype  # the name of the buffer has no shape
        if key not in self.names:
            name = self.names[key] = fresh_name(f"{use}.{dtype}", self.b.program.buffers)
            self.b.buffer(name, dtype, shape, AccessMode.WORKGROUP.value)
        return self.names[key]

    def fresh(self, use: str, dtype: DataType, count: int) -> str:
        """Memory of a cluster for a single use, which needs no barrier against readers of earlier contents."""
        name = fresh_name(f"{use}.{dtype}", self.b.program.buffers)
        self.b.buffer(name, dtype, count, AccessMode.CLUSTER.value)
        return name

    def from_first(self, dtype: DataType, make: Callable[[], Value]) -> Value:
        """Value that the first invocation computes and all get, so that it is uniform for the verifier."""
        b, place = self.b, self.of("handed", dtype, 1)
        b.barrier()
        with b.if_(b.eq(b.local_id("x"), 0)):
            b.store(make(), place, 0)
        b.barrier()
        return b.load(place, 0)
