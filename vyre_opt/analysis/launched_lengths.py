"""The lengths of a program's buffers as the pipelines that launch it say them.

buffer @x : f32[?] read                      program @p: buffer @a, @b, @c : f32[?]
buffer @m : f32[div(len(@x), 2)]
launch @p grid(...) (@x, @m, @y)             the length of @b is half that of @a in this launch, and has to be in all
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.grids import Extent, GridCall, bounds
from ..ir.pipeline import Launch, Pipeline
from ..ir.program import Buffer, Program
from .pipeline_uses import PipelineUses

__all__ = ["LaunchedLengths"]

MAX_NUMBER = 1 << 48
"""Well below 2^64, for lengths beyond those that `bounds` assumes."""


class LaunchedLengths:
    """The length of a buffer that is the program's own in all pipelines, as what stays without the buffer."""

    def __init__(self, program: Program, uses: PipelineUses) -> None:
        self.program = program
        self.uses = uses

    def __call__(self, buffer: Buffer, dimension: int) -> Extent:
        """Expression for the length of a buffer along a dimension, of the lengths of buffers that the host or another
        launch sees, and that so stay; `len` of the buffer itself where there is none."""
        length = buffer.length(dimension)
        if buffer.binding is None or not self.uses.is_own_scratch(self.program, buffer):
            return length
        argument = self.program.bound_buffers.index(buffer)
        launches = self.uses.launches[self.program.name]
        extents = {
            self._in_program(pipeline, launch, launch.buffers[argument], dimension)
            for pipeline, launch in launches
        }
        extent = extents.pop()
        return length if extents or extent is None or not _is_computable(extent) else extent

    def _in_program(self, pipeline: Pipeline, launch: Launch, name: str, dimension: int) -> Extent | None:
        """The length of a pipeline's buffer as an expression over lengths of the program's buffers; None if impossible."""
        numbers = self.uses.length_numbers(pipeline)
        for formal, actual in zip(self.program.bound_buffers, launch.buffers, strict=True):
            for axis in range(0 if formal.is_transient else formal.dimensions):
                if numbers[actual][axis] == numbers[name][dimension]:
                    return formal.length(axis) if formal.shape[axis] is None else formal.shape[axis]
        buffer = pipeline.buffers.get(name)
        size = buffer.sizes[dimension] if buffer is not None and buffer.sizes else None
        if size is None:
            return buffer.shape[dimension] if buffer is not None else None
        return self._expression(pipeline, launch, size)

    def _expression(self, pipeline: Pipeline, launch: Launch, extent: Extent) -> Extent | None:
        if isinstance(extent, int) or extent.name == "param":
            return extent if isinstance(extent, int) else None
        if extent.name == "len":
            name, *dimension = map(str, extent.args)
            return self._in_program(pipeline, launch, name, int(dimension[0]) if dimension else 0)
        args = [self._expression(pipeline, launch, arg) for arg in extent.args if not isinstance(arg, str)]
        extents = [arg for arg in args if arg is not None]
        return GridCall(extent.name, tuple(extents)) if len(extents) == len(args) else None


def _is_computable(extent: Extent) -> bool:
    """Whether 64-bit arithmetic is exact: no value is too large, and no dividend is negative."""
    return all(
        limits is not None
        and max(map(abs, limits)) < MAX_NUMBER
        and (limits[0] >= 0 or (part is not extent and not is_divided))
        for part, is_divided in _parts(extent, False)
        for limits in [bounds(part)]
    )


def _parts(extent: Extent, is_divided: bool) -> Iterator[tuple[Extent, bool]]:
    """An expression and all in it, and whether each is an operand of a division."""
    yield extent, is_divided
    if isinstance(extent, GridCall) and extent.name != "len":
        for arg in extent.args:
            if not isinstance(arg, str):
                yield from _parts(arg, extent.name in ("div", "ceil_div"))
