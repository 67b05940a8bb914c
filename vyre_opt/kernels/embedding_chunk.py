"""Lookups of a chunk that share a slice of the middle core: a workgroup has one digit i_1 and one chunk of the lookups.

    indices of the chunk  ->  @order, the positions of those with the digit, and their number in @found

The grid has a workgroup for each digit and chunk; the digit varies fastest.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.program import Value
from ..ir.types import DataType
from .embedding_cores import EmbeddingCores
from .embedding_indices import EmbeddingIndices

__all__ = ["ORDER_BYTES", "ChunkLookups", "chunk_grid"]

ORDER = DataType.U16
ORDER_BYTES = 2


def chunk_grid(digits: int, chunk: int, count: int) -> int:
    """Workgroups for `count` lookups."""
    return digits * max(1, -(-count // chunk))


class ChunkLookups:
    """Declares @order, @found and, for indices that are checked, @outside."""

    def __init__(
        self, b: Builder, cores: EmbeddingCores, indices: EmbeddingIndices, chunk: int, lanes: int
    ) -> None:
        self.b, self.cores, self.indices, self.chunk, self.lanes = b, cores, indices, chunk, lanes
        b.buffer("order", ORDER, chunk, "workgroup")
        b.buffer("found", DataType.U32, 1, "workgroup")
        if indices.checked is not None:
            b.buffer("outside", DataType.U32, 1, "workgroup")
        self.lane = b.local_id("x", name="lane")
        workgroup, digits = b.workgroup_id("x"), cores.shape.p[1]
        self.digit = b.rem(workgroup, digits, name="digit")
        self.first = b.mul(b.div(workgroup, digits), chunk, name="first")

    def collect(self) -> Value:
        """Find the lookups; returns how many there are."""
        b, lanes = self.b, self.lanes
        with b.if_(b.eq(self.lane, 0)):
            b.store(b.const(0), "found", 0)
            if self.indices.checked is not None:
                b.store(b.const(0), "outside", 0)
        b.barrier("workgroup")
        count = b.len("indices")
        exist = b.min(b.sub(b.max(count, self.first), self.first), self.chunk)
        rounds = b.div(exist, 4 * lanes)
        with b.for_(0, rounds) as loop:  # four at once, so that their loads overlap
            start = b.add(b.mul(loop.index, 4 * lanes), self.lane)
            positions = [b.add(start, k * lanes) if k else start for k in range(4)]
            indices = [self.indices.load(b.add(self.first, position)) for position in positions]
            for position, index in zip(positions, indices, strict=True):
                self._keep(position, index)
        with b.for_(b.add(b.mul(rounds, 4 * lanes), self.lane), exist, lanes) as loop:
            self._keep(loop.index, self.indices.load(b.add(self.first, loop.index)))
        b.barrier("workgroup")
        return b.load("found", 0, name="n")

    def _keep(self, position: Value, index: Value) -> None:
        b = self.b
        with b.if_(b.eq(self.cores.digit(self.indices.row(index), 1), self.digit)):
            slot = b.atomic_add("found", 0, 1)
            b.store(b.cast(position, ORDER), "order", slot)
            if self.indices.checked is not None:
                with b.if_(self.indices.is_outside(index)):
                    b.atomic_or("outside", 0, 1)

    def lookup(self, slot: Value) -> Value:
        """The number of the lookup that was found as number `slot`."""
        b = self.b
        return b.add(self.first, b.cast(b.load("order", slot), DataType.U32))

    def slice_of(self, lookup: Value, k: int) -> Value:
        """Offset in its buffer of the slice of core k that a lookup takes."""
        row = self.indices.row(self.indices.load(lookup))
        return self.cores.slice_start(self.cores.digit(row, k), k)

    def trap_if_outside(self) -> None:
        """Trap at the end of the program, if an index of these lookups was out of range."""
        b = self.b
        if self.indices.checked is not None:
            with b.if_(b.and_(b.eq(self.lane, 0), b.ne(b.load("outside", 0), 0))):
                self.indices.trap()
