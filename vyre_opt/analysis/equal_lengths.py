"""Lengths of a pipeline's buffers that are equal in every call, by the expressions of their sizes.

    buffer @x : f32[?] read      buffer @once : f32[len(@x)]      buffer @half : f32[div(len(@once), 2)]

Here those of @x and @once are.  Expressions are numbered, so that equal ones have one number.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.grids import MAX_REPEATED_DEPTH, Extent, fold, length_key
from ..ir.pipeline import Pipeline

__all__ = ["equal_lengths", "length_numbers", "lengths_by_size", "numbers_by_length"]

_COMMUTATIVE = frozenset({"add", "mul", "min", "max"})


def length_numbers(pipeline: Pipeline) -> dict[str, tuple[int, ...]]:
    """Numbers of the lengths of each buffer, one a dimension.  Lengths with one number are equal."""
    numbers: dict[object, int] = {}
    lengths: dict[str, tuple[int, ...]] = {}

    def number(extent: Extent) -> int:
        if isinstance(extent, int):
            key: object = extent
        elif extent.name == "len":
            name, *dimension = extent.args
            if name in lengths:
                return lengths[str(name)][int(str(dimension[0])) if dimension else 0]
            key = extent
        elif extent.name == "param":
            key = extent
        else:
            args = [number(arg) for arg in extent.args if not isinstance(arg, str)]
            key = (extent.name, *(sorted(args) if extent.name in _COMMUTATIVE else args))
        return numbers.setdefault(key, len(numbers))

    for name, buffer in pipeline.buffers.items():
        lengths[name] = tuple(
            numbers.setdefault((name, axis), len(numbers)) if extent is None else number(extent)
            for axis, extent in enumerate(buffer.extents)
        )
    return lengths


def lengths_by_size(pipeline: Pipeline) -> dict[str, Extent | None]:
    """Length -> a short expression over the lengths that the caller decides, in the form of ir/grids.py."""
    lengths: dict[str, Extent | None] = dict(pipeline.static_lengths)
    for name, buffer in pipeline.buffers.items():
        for dimension, size in enumerate(buffer.sizes):
            extent = None if size is None else fold(size, lengths)
            if isinstance(extent, int) or (extent is not None and extent.depth <= MAX_REPEATED_DEPTH):
                lengths[length_key(name, dimension if buffer.dimensions > 1 else None)] = extent
    return lengths


def numbers_by_length(numbers: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The numbers of lengths, by the names that ir/grids.py has for these."""
    return {
        length_key(name, dimension if len(by_dimension) > 1 else None): number
        for name, by_dimension in numbers.items()
        for dimension, number in enumerate(by_dimension)
    }


def equal_lengths(numbers: Mapping[str, tuple[int, ...]], names: Mapping[str, str]) -> dict[str, str]:
    """Map each length of some buffers to the first of theirs that is equal, if that is another one.

    `names`: what these buffers are called in the result, whose keys and values are as ir/grids.py has them.
    """
    first: dict[int, str] = {}
    equal: dict[str, str] = {}
    for key, number in numbers_by_length({name: numbers[buffer] for buffer, name in names.items()}).items():
        if first.setdefault(number, key) != key:
            equal[key] = first[number]
    return equal
