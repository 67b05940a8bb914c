"""Slices that are not computed yet: what an element of them is made of."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ..ir.program import Op, Value
from ..ir.types import DataType

__all__ = ["Computed", "Extent", "Loaded", "Node", "Spread"]


@dataclass(frozen=True, eq=False)
class Extent:
    """`value`: as a u32 of the program; `number`: where it is fixed.  Extents of one `key` are equal."""

    value: Value
    number: int | None
    key: Hashable


@dataclass(frozen=True, eq=False)
class Node:
    dtype: DataType
    extent: Extent


@dataclass(frozen=True, eq=False)
class Loaded(Node):
    """Elements of a buffer from `indices` on.  `fill`: what is beyond its edge; None where nothing may be.  `version`: of the
    buffer, see `Lowering.versions`."""

    op: Op
    indices: Sequence[Value]
    fill: Value | None
    version: int


@dataclass(frozen=True, eq=False)
class Computed(Node):
    """An op of each element; operands that are values are the same for all."""

    op: Op
    operands: Sequence[Node | Value]


@dataclass(frozen=True, eq=False)
class Spread(Node):
    """The same value everywhere."""

    value: Value
