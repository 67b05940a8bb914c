"""How the elements that invocations own become a buffer of several dimensions.

A buffer that invocations divide has a tile for each workgroup, and a tile an inner position for each outer one: slots
for each lane, or lanes for each slot.  A layout says which of the three make up each dimension:

    workgroup, tile             @x[%w, %outer * INNER + %inner]
    workgroup outer, inner      @x[%w * OUTER + %outer, %inner]
    workgroup, outer, inner     @x[%w, %outer, %inner]
    outer, inner                @t[%outer, %inner]                  of workgroup memory

An extent may be larger than what is owned, and one may be open.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from vyre_opt.ir import Builder, DataType, Value
from vyre_opt.ir.builder import Operand

__all__ = ["Layout", "clamped_indices", "random_input_shape", "random_layout"]

_STORAGE = (("workgroup", "tile"), ("workgroup outer", "inner"), ("workgroup", "outer", "inner"))
_TILE = (("outer", "inner"),)
_EXTENTS = (1, 2, 3, 5, 8, 13)
_VECTOR = 4
"""Lanes of the widest vector that is loaded."""


@dataclass(frozen=True, slots=True)
class Layout:
    """`dimensions`: the positions that make up each, the last one counting fastest.  `sizes`: how many of each there
    are, of a tile that of all its elements."""

    dimensions: tuple[str, ...]
    sizes: Mapping[str, int]

    @property
    def extents(self) -> list[int]:
        """The least that hold all positions."""
        return [prod(self.sizes[part] for part in parts.split()) for parts in self.dimensions]

    @property
    def row(self) -> int:
        """The elements of a tile that follow each other."""
        return self.sizes[self.dimensions[-1]]

    @property
    def splits_tiles(self) -> bool:
        """Whether outer and inner position are along two dimensions."""
        return "tile" not in self.dimensions

    def indices(self, b: Builder, positions: Mapping[str, Operand]) -> list[Value]:
        """The index along each dimension, where `positions` has those of the parts."""
        result = []
        for parts in self.dimensions:
            first, *rest = parts.split()
            index = b.as_value(positions[first], DataType.U32)
            for part in rest:
                index = b.add(b.mul(index, self.sizes[part]), positions[part])
            result.append(index)
        return result


def random_layout(
    rng: random.Random, workgroups: int | None, outer: int, inner: int
) -> tuple[Layout, tuple[int | None, ...]]:
    """A layout, and the shape of the buffer; `workgroups` is None for workgroup memory, whose extents are all fixed."""
    dimensions = rng.choice(_TILE if workgroups is None else _STORAGE)
    sizes = {"workgroup": workgroups or 1, "outer": outer, "inner": inner, "tile": outer * inner}
    layout = Layout(dimensions, sizes)
    shape: list[int | None] = [extent + rng.choice((0, 0, 1, 3)) for extent in layout.extents]
    if workgroups is not None and rng.random() < 0.4:
        shape[rng.randrange(len(shape))] = None
    return layout, tuple(shape)


def random_input_shape(rng: random.Random) -> tuple[int | None, ...]:
    """The shape of an input, with any number of open extents."""
    return tuple(None if rng.random() < 0.4 else rng.choice(_EXTENTS) for _ in range(rng.choice((2, 2, 3))))


def clamped_indices(
    b: Builder, rng: random.Random, name: str, values: list[Value], width: int = 1
) -> list[Value]:
    """Indices of `width` elements that are in bounds of a buffer whatever the values are, by its lengths.

    The last dimension has so many elements.
    """
    result: list[Value] = []
    for dimension, value in enumerate(values):
        length = b.len(name, dimension=dimension)
        covered = width if dimension == len(values) - 1 else 1
        if rng.random() < 0.5:
            result.append(b.min(value, b.sub(length, covered)))
        else:
            result.append(b.rem(value, b.sub(length, covered - 1)))
    return result
