"""Slices that are not computed yet: what an element of them is made of."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from ..ir.program import Op, Value
from ..ir.types import DataType
from ..records import dataclass
from .layout import AnyLayout

__all__ = [
    "Computed",
    "Counted",
    "Extent",
    "Held",
    "Loaded",
    "Node",
    "Repeated",
    "Spread",
    "Standing",
    "loads",
    "made_of",
]


@dataclass(frozen=True, eq=False)
class Extent:
    """`value`: as a u32 of the program; `number`: where it is fixed.  Extents of one `key` are equal."""

    value: Value
    number: int | None
    key: Hashable


@dataclass(frozen=True, eq=False)
class Node:
    dtype: DataType
    extents: Sequence[Extent]


@dataclass(frozen=True, eq=False)
class Loaded(Node):
    """Elements of a buffer, from `indices` on, or at those that slices among them name.  `fill`: what is beyond its edge; None where
    nothing may be.  `version`: of the buffer, see `SliceLowering.versions`."""

    op: Op
    indices: Sequence[Node | Value]
    fill: Value | None
    version: int

    @property
    def buffer(self) -> str:
        name: str = self.op.attrs["buffer"]
        return name

    @property
    def is_gather(self) -> bool:
        return any(isinstance(index, Node) for index in self.indices)


@dataclass(frozen=True, eq=False)
class Computed(Node):
    """An op of each element; operands that are values are the same for all."""

    op: Op
    operands: Sequence[Node | Value]


@dataclass(frozen=True, eq=False)
class Spread(Node):
    """The same value everywhere."""

    value: Value


@dataclass(frozen=True, eq=False)
class Repeated(Node):
    """A slice repeated along its extents of 1, and along extents that it does not have."""

    source: Node


@dataclass(frozen=True, eq=False)
class Standing(Node):
    """A slice of one extent as the only column of a block."""

    source: Node


@dataclass(frozen=True, eq=False)
class Counted(Node):
    """`start`, start + 1, ... along an axis."""

    start: Value
    axis: int


@dataclass(frozen=True, eq=False)
class Held(Node):
    """Elements in registers, or the matrices of a subgroup, by the places of a layout."""

    layout: AnyLayout
    values: Mapping[tuple[int, int], Sequence[Value]]


def loads(node: Node) -> Iterator[Loaded]:
    """Loads that a slice depends on."""
    return (each for each in made_of(node) if isinstance(each, Loaded))


def made_of(node: Node) -> Iterator[Node]:
    """A slice, and those that it is computed of."""
    pending, seen = [node], set[Node]()
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        yield each
        if isinstance(each, Loaded):
            pending += [v for v in each.indices if isinstance(v, Node)]
        elif isinstance(each, Computed):
            pending += [v for v in each.operands if isinstance(v, Node)]
        elif isinstance(each, Repeated | Standing):
            pending.append(each.source)
