"""The lengths of a program's buffers as the pipelines that launch it say them.

buffer @x : f32[?] read                program @p: buffer @a, @b, @c : f32[?]
buffer @m : f32[len(@x)]
launch @p grid(...) (@x, @m, @y)       the length of @b is that of @a in this launch, and has to be in all
"""

from __future__ import annotations

from ..ir.program import Buffer, Program
from .pipeline_uses import PipelineUses

__all__ = ["LaunchedLengths", "Length"]

Length = tuple[str, int | None] | int
"""A buffer and its dimension, None of the only one; or a number."""


class LaunchedLengths:
    """The length of a buffer that is the program's own in all pipelines, as what may stay without the buffer."""

    def __init__(self, program: Program, uses: PipelineUses) -> None:
        self.program = program
        self.uses = uses

    def __call__(self, buffer: Buffer, dimension: int) -> Length:
        """What is as long as a buffer along a dimension: a number, or a buffer and its dimension (see `len`).

        That is the buffer itself unless there is one that the host or another launch sees: such a buffer stays.
        """
        own = buffer.name, dimension if buffer.dimensions > 1 else None
        if buffer.binding is None or not self.uses.is_own_scratch(self.program, buffer):
            return own
        extents = self._extents(buffer, dimension)
        if isinstance(extents[0], int) and len(set(extents)) == 1:
            return extents[0]
        numbers = self._numbers(buffer, dimension)
        for other in self.program.bound_buffers:
            for place in range(0 if other.is_transient else other.dimensions):
                if self._numbers(other, place) == numbers:
                    return other.name, place if other.dimensions > 1 else None
        return own

    def _extents(self, buffer: Buffer, dimension: int) -> list[int | None]:
        """The extent that each pipeline declares, None where it is open."""
        place = self.program.bound_buffers.index(buffer)
        launches = self.uses.launches[self.program.name]
        return [pipeline.buffers[launch.buffers[place]].shape[dimension] for pipeline, launch in launches]

    def _numbers(self, buffer: Buffer, dimension: int) -> list[int]:
        """In each launch the number of the length, see `equal_lengths`."""
        place = self.program.bound_buffers.index(buffer)
        launches = self.uses.launches[self.program.name]
        return [
            self.uses.length_numbers(pipeline)[launch.buffers[place]][dimension]
            for pipeline, launch in launches
        ]
