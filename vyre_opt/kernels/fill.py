"""The program of a stage that fills a buffer: each invocation stores the value to the element of its number.

fill(@x, 0)        store 0, @x[%i]               where @x has one dimension
                   store 0, @x[%row, %column]    where it has two: rows along y, columns along x

A grid has 65535 workgroups along y and z, so an extent that may be larger is gone through in a loop by `global_size`.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import reduce
from typing import Any

from ..ir.builder import Builder
from ..ir.grids import Extent, GridCall, ceil_divided
from ..ir.ops import AXES, OPS
from ..ir.program import MAX_GRID, Buffer, Dim3, Program, Value

__all__ = ["fill_grid", "fill_program", "fill_workgroup"]

_LANES: dict[int, Dim3] = {1: (256, 1, 1), 2: (32, 8, 1), 3: (32, 8, 1)}


def fill_workgroup(buffer: Buffer, neighbour: Program | None) -> Dim3:
    """The workgroup for a buffer: that of a launch beside it, so that launch_fusion may join the two."""
    return _LANES[buffer.dimensions] if neighbour is None else neighbour.workgroup


def fill_grid(buffer: Buffer, workgroup: Dim3) -> tuple[Extent, Extent, Extent]:
    """The workgroups that fill a buffer of a pipeline, over its lengths where these are open."""
    grid: list[Extent] = [1, 1, 1]
    for axis, dimension in enumerate(reversed(range(buffer.dimensions))):
        known = buffer.shape[dimension]
        name = (buffer.name, dimension) if buffer.dimensions > 1 else (buffer.name,)
        extent: Extent = GridCall("len", name) if known is None else known
        grid[axis] = ceil_divided(extent, workgroup[axis])
        if _strides(buffer, workgroup, axis):
            grid[axis] = GridCall("min", (grid[axis], MAX_GRID[axis]))
    x, y, z = grid
    return x, y, z


def fill_program(name: str, like: Buffer, value: Any, workgroup: Dim3) -> Program:
    """A program that stores a value, encoded as a constant is, to all elements of a buffer with the type and the shape of
    `like`."""
    b = Builder(name, workgroup=workgroup)
    filled = b.buffer("x", like.dtype, like.shape, "write", 0, live_out=True)
    axes = range(like.dimensions)
    lengths = [_length(b, filled, like.dimensions - 1 - axis) for axis in axes]
    places: list[Value] = [b.global_id(AXES[axis]) for axis in axes]
    inside = [b.lt(places[axis], lengths[axis]) for axis in axes if not _strides(like, workgroup, axis)]
    with ExitStack() as nest:
        nest.enter_context(b.if_(reduce(b.and_, inside)))
        for axis in axes:
            if _strides(like, workgroup, axis):
                step = b.global_size(AXES[axis])
                places[axis] = nest.enter_context(b.for_(places[axis], lengths[axis], step)).index
        stored = b.emit(OPS["const"], (), (like.dtype,), {"value": value}).result
        b.store(stored, filled, places[::-1])
    return b.finish()


def _length(b: Builder, buffer: Buffer, dimension: int) -> Value:
    return b.len(buffer, dimension) if buffer.dimensions > 1 else b.len(buffer)


def _strides(buffer: Buffer, workgroup: Dim3, axis: int) -> bool:
    """Whether there may be more elements along an axis than a grid has invocations."""
    extent = buffer.shape[buffer.dimensions - 1 - axis]
    return axis > 0 and (extent is None or extent > workgroup[axis] * MAX_GRID[axis])
