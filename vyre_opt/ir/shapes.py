"""Shapes of buffers as text, and whether two of them agree."""

from __future__ import annotations

from collections.abc import Sequence

from .grids import show_extent
from .program import Buffer, Program, Shape

__all__ = [
    "declared_shape",
    "has_rows",
    "has_slices",
    "passed_shape",
    "shapes_agree",
    "shapes_differ",
    "show_shape",
]


def has_rows(program: Program) -> bool:
    """Whether a buffer of the program has more than one dimension."""
    return any(buffer.dimensions > 1 for buffer in program.buffers.values())


def has_slices(program: Program) -> bool:
    """Whether the program computes with rows or blocks of a workgroup."""
    return any(op.definition.format.startswith("slice_") for op in program.walk())


def show_shape(shape: Sequence[int | None]) -> str:
    """`?, 64`."""
    return ", ".join("?" if extent is None else str(extent) for extent in shape)


def declared_shape(buffer: Buffer) -> str:
    """The extents of a buffer as its declaration has them: `?, len(@x)`."""
    return ", ".join("?" if extent is None else show_extent(extent) for extent in buffer.extents)


def shapes_agree(one: Shape, other: Shape) -> bool:
    """Whether a buffer of one shape may be passed for one of the other: an open extent agrees with any."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(a is None or b is None or a == b for a, b in pairs)


def passed_shape(actual: Buffer, formal: Buffer) -> Shape:
    """The extents that a launch passes: of a named kernel's program, whose buffers have one dimension, all elements row by
    row."""
    return (actual.count,) if formal.dimensions == 1 else actual.shape


def shapes_differ(actual: Buffer, formal: Buffer) -> str:
    """Difference between a buffer and the one it is passed for; empty if their shapes agree."""
    if shapes_agree(actual.shape, formal.shape):
        return ""
    if actual.dimensions == formal.dimensions == 1:
        return f"has {actual.count} elements, @{formal.name} has {formal.count}"
    return f"is {actual.dtype}[{show_shape(actual.shape)}], @{formal.name} is {formal.dtype}[{show_shape(formal.shape)}]"
