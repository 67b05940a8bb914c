"""The program of a stage that fills a buffer: each invocation stores the value to the element of its number.

fill(@x, 0)        store 0, @x[%i]               where @x has one dimension
                   store 0, @x[%row, %column]    where it has two: rows along y, columns along x

A grid has 65535 workgroups along y and z, so an extent that may be larger is gone through in a loop by `global_size`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import reduce
from typing import Any

from ..ir.builder import Builder
from ..ir.grids import Extent, GridCall, bounds, ceil_divided, fold
from ..ir.ops import AXES, OPS
from ..ir.pipeline import Launch
from ..ir.program import MAX_GRID, Buffer, Dim3, Program, Value
from ..records import dataclass

__all__ = ["LEAST_LANES", "FillSchedule", "fill_program", "fill_schedule"]

_WORKGROUP: dict[int, Dim3] = {1: (256, 1, 1), 2: (32, 8, 1), 3: (32, 8, 1)}
LEAST_LANES = 64
"""Workgroups of fewer lanes would leave much of a GPU idle."""


@dataclass(frozen=True, slots=True)
class FillSchedule:
    """`strided`: the axes along which an invocation goes through several elements."""

    workgroup: Dim3
    grid: tuple[Extent, Extent, Extent]
    strided: frozenset[int] = frozenset()


def fill_schedule(
    buffer: Buffer,
    user: Launch | None = None,
    program: Program | None = None,
    lengths: Mapping[str, Extent | None] | None = None,
) -> FillSchedule:
    """Fill of a buffer of a pipeline.

    `user`: a launch that takes the buffer next, of a `program`: the schedule is like its own, so that launch_fusion may join
    the two.  `lengths`: of the pipeline's buffers, by their sizes (see `lengths_by_size`).
    """
    workgroup = _WORKGROUP[buffer.dimensions]
    if (
        program is not None
        and program.lanes >= LEAST_LANES
        and set(program.workgroup[buffer.dimensions :]) <= {1}
    ):
        workgroup = program.workgroup
    grid: list[Extent] = [1, 1, 1]
    for axis in range(buffer.dimensions):
        workgroups = ceil_divided(_extent(buffer, axis), workgroup[axis])
        grid[axis] = workgroups or 1  # a grid has one at least, also where there is nothing to fill
    if user is not None and all(
        fold(extent, lengths or {}) == fold(other, lengths or {})
        for extent, other in zip(grid, user.grid, strict=True)
    ):
        return FillSchedule(workgroup, user.grid)  # it can be launched where the user can
    strided = frozenset(axis for axis in (1, 2) if not _fits(grid[axis], MAX_GRID[axis]))
    for axis in strided:
        grid[axis] = GridCall("min", (grid[axis], MAX_GRID[axis]))
    x, y, z = grid
    return FillSchedule(workgroup, (x, y, z), strided)


def _fits(extent: Extent, most: int) -> bool:
    limits = bounds(extent)
    return limits is not None and limits[1] <= most


def _extent(buffer: Buffer, axis: int) -> Extent:
    """The elements of a buffer of a pipeline along an axis of the grid: its last dimension is along x."""
    dimension = buffer.dimensions - 1 - axis
    known = buffer.shape[dimension]
    return buffer.length(dimension) if known is None else known


def fill_program(name: str, like: Buffer, value: Any, schedule: FillSchedule) -> Program:
    """A program that stores a value, encoded as a constant is, to all elements of a buffer with the type and the shape of
    `like`."""
    b = Builder(name, workgroup=schedule.workgroup)
    filled = b.buffer("x", like.dtype, like.shape, "write", 0, live_out=True)
    indices: list[Value] = []
    lengths: list[Value] = []
    for axis in range(like.dimensions):
        dimension = None if like.dimensions == 1 else like.dimensions - 1 - axis
        indices.append(b.global_id(AXES[axis]))
        lengths.append(b.len(filled, dimension=dimension))
    plain = [axis for axis in range(like.dimensions) if axis not in schedule.strided]
    with ExitStack() as nest:
        nest.enter_context(b.if_(reduce(b.and_, [b.lt(indices[axis], lengths[axis]) for axis in plain])))
        for axis in sorted(schedule.strided):
            loop = b.for_(indices[axis], lengths[axis], b.global_size(AXES[axis]))
            indices[axis] = nest.enter_context(loop).index
        stored = b.emit(OPS["const"], (), (like.dtype,), {"value": value}).result
        b.store(stored, filled, indices[::-1])
    return b.finish()
