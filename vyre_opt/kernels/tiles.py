"""Which tiles of the work a workgroup does: the one of its number, or every so many of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..ir.builder import Builder
from ..ir.program import Value

__all__ = ["each_tile", "tiles_of"]


def tiles_of(b: Builder, count: Value, tile: int) -> Value:
    """ceil(count / tile), without a sum that could wrap."""
    if tile == 1:
        return count
    whole = b.div(count, tile)
    return b.add(whole, b.cast(b.ne(b.rem(count, tile), 0), count.type))


@contextmanager
def each_tile(b: Builder, tiles: Value, strided: bool) -> Iterator[Value]:
    """The body once for each tile of this workgroup.

    `strided`: tiles workgroup_id, workgroup_id + num_workgroups, and so on below `tiles`, so
    that any grid does all the work.  Else tile workgroup_id, for a grid of just `tiles`
    workgroups; what would be work beyond the last tile is the body's to refuse.
    """
    if not strided:
        yield b.workgroup_id("x")
        return
    with b.for_(b.workgroup_id("x"), tiles, b.num_workgroups("x")) as loop:
        yield loop.index
