"""The elements of buffers that a launch surely writes, as facts about a program (see analysis/whole_writes.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..records import dataclass

__all__ = ["Bound", "Shapes", "WholeWrite", "WrittenDimension", "wholly_written"]

MAX_ELEMENTS = (1 << 32) - 1
"""Ids and lengths are numbers of 32 bits in programs."""

Bound = int | tuple[str, int]
"""A constant, or the length of a buffer along a dimension."""

Shapes = Mapping[str, Sequence[int]]
"""The extents of buffers, by name."""


@dataclass(frozen=True, slots=True)
class WrittenDimension:
    """The indices below all `bounds` are written along a dimension, by the invocations along an axis.

    `invocations`: of a workgroup along the axis, if each writes at one index; None if they stride over all.
    """

    axis: int
    bounds: frozenset[Bound]
    invocations: int | None

    def covers(self, extent: int, grid: Sequence[int], shapes: Shapes) -> bool:
        """Whether all indices below `extent` are written by a launch of this grid of workgroups."""
        ends = [bound if isinstance(bound, int) else shapes[bound[0]][bound[1]] for bound in self.bounds]
        if self.invocations is not None:
            ends.append(self.invocations * grid[self.axis])
        return extent <= min([MAX_ELEMENTS, *ends])


@dataclass(frozen=True, slots=True)
class WholeWrite:
    """The elements of a buffer that are written along all of its dimensions are written, and nothing of it is read."""

    dimensions: tuple[WrittenDimension, ...]

    def covers(self, shape: Sequence[int], grid: Sequence[int], shapes: Shapes) -> bool:
        """Whether all elements of a buffer of this shape are written.  `shapes`: of all buffers."""
        pairs = zip(self.dimensions, shape, strict=True)
        return all(dimension.covers(extent, grid, shapes) for dimension, extent in pairs)


def wholly_written(
    writes: Mapping[str, Sequence[WholeWrite]], grid: Sequence[int], shapes: Shapes
) -> set[str]:
    """The buffers of a program that a launch writes whole; a grid without workgroups writes none.

    `writes`: its `whole_writes`; `grid`: workgroups along x, y, z; `shapes`: of all its buffers.
    """
    if 0 in grid:
        return set()
    return {
        name
        for name, forms in writes.items()
        if any(form.covers(shapes[name], grid, shapes) for form in forms)
    }
