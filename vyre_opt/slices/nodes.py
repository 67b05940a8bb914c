"""Slices that are not computed yet, as expressions of their elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..ir.program import Op, Value
from ..ir.types import DataType
from ..records import dataclass
from .layout import AnyLayout, Extent

__all__ = [
    "ElementwiseNode",
    "IotaNode",
    "RegisterNode",
    "LoadNode",
    "Node",
    "BroadcastNode",
    "SplatNode",
    "ColumnNode",
    "loads",
    "made_of",
]


@dataclass(frozen=True, eq=False)
class Node:
    dtype: DataType
    extents: Sequence[Extent]


@dataclass(frozen=True, eq=False)
class LoadNode(Node):
    """Elements of a buffer from `indices` on, or a gather if slices are among `indices`.

    `fill`: value beyond the edge of the buffer; None if the slice must be inside.  `version`: see `Elements.versions`."""

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
class ElementwiseNode(Node):
    """An elementwise op; scalar operands are the same for all elements."""

    op: Op
    operands: Sequence[Node | Value]


@dataclass(frozen=True, eq=False)
class SplatNode(Node):
    """One value for all elements."""

    value: Value


@dataclass(frozen=True, eq=False)
class BroadcastNode(Node):
    """A slice broadcast along its extents of 1, and along new leading extents."""

    source: Node


@dataclass(frozen=True, eq=False)
class ColumnNode(Node):
    """A slice of one extent as the only column of a block."""

    source: Node


@dataclass(frozen=True, eq=False)
class IotaNode(Node):
    """`start`, start + 1, ... along an axis."""

    start: Value
    axis: int


@dataclass(frozen=True, eq=False)
class RegisterNode(Node):
    """Elements in registers, or the matrices of a subgroup, by the places of a layout."""

    layout: AnyLayout
    values: Mapping[tuple[int, int], Sequence[Value]]


def loads(node: Node) -> Iterator[LoadNode]:
    """Loads among the nodes that a slice is computed from."""
    return (each for each in made_of(node) if isinstance(each, LoadNode))


def made_of(node: Node) -> Iterator[Node]:
    """A node and all nodes that it is computed from."""
    pending, seen = [node], set[Node]()
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        yield each
        if isinstance(each, LoadNode):
            pending += [v for v in each.indices if isinstance(v, Node)]
        elif isinstance(each, ElementwiseNode):
            pending += [v for v in each.operands if isinstance(v, Node)]
        elif isinstance(each, BroadcastNode | ColumnNode):
            pending.append(each.source)
