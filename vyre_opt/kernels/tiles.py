"""Tiles of the work that a workgroup does: the one of its own number, or a grid-stride loop over tiles."""

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
    """Emits the body once, for each tile of this workgroup.

    `strided`: a grid-stride loop over tiles workgroup_id, workgroup_id + num_workgroups, ... below `tiles`,
    so that any grid does all the work.  Otherwise the workgroup does tile workgroup_id, and the grid must be
    `tiles` workgroups; the body itself must skip what lies beyond the end of the data.
    """
    if not strided:
        yield b.workgroup_id("x")
        return
    with b.for_(b.workgroup_id("x"), tiles, b.num_workgroups("x")) as loop:
        yield loop.index
