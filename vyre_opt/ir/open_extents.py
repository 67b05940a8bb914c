"""Open extents of buffers of several dimensions, which compiled programs take as runtime scalars (see lowering/common/row_major.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..records import dataclass
from .program import Buffer, Program

__all__ = ["OpenExtent", "extent_words", "flat_buffer", "open_extents", "shapes_of_words"]


@dataclass(frozen=True, slots=True)
class OpenExtent:
    """A dimension of a buffer, whose extent the program takes as a runtime scalar."""

    buffer: str
    dimension: int

    @property
    def param(self) -> str:
        """Its name; behind those of all texts in alphabetical order, and so the last of a launch's words."""
        return f"~{self.buffer}.{self.dimension}"


def open_extents(program: Program) -> list[OpenExtent]:
    """The further params of the row-major program, in the order of their words."""
    extents = [
        OpenExtent(buffer.name, number)
        for buffer in program.buffers.values()
        if buffer.dimensions > 1
        for number, extent in enumerate(buffer.shape)
        if extent is None
    ]
    return sorted(extents, key=lambda extent: extent.param)


def extent_words(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The words of the open extents by param, for the shapes of the buffers that have several dimensions."""
    return {extent.param: shapes[extent.buffer][extent.dimension] for extent in open_extents(program)}


def shapes_of_words(program: Program, words: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """The shapes of the buffers that have several dimensions; `words`: those of all params of a launch."""
    extents = open_extents(program)
    opened = dict(zip(extents, words[len(words) - len(extents) :], strict=True))
    return {
        name: tuple(
            opened[OpenExtent(name, number)] if extent is None else extent
            for number, extent in enumerate(buffer.shape)
        )
        for name, buffer in program.buffers.items()
        if buffer.dimensions > 1
    }


def flat_buffer(buffer: Buffer) -> Buffer:
    """The buffer with one dimension."""
    return buffer if buffer.dimensions == 1 else replace(buffer, shape=(buffer.count,))
