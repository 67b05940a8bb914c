"""Masks that are true for a whole block: comparisons of positions, decided by the first and the last position.

    %p = lt %j + iota, %n                     if %j + 63 < %n and %j + 63 >= %j { %s } else { select %p, %s, %other }

Few blocks are at an edge, or on the diagonal of a triangular mask; all others skip the comparisons of elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from ..ir.builder import Builder
from ..ir.program import Value
from ..ir.types import DataType
from ..records import dataclass
from .nodes import BroadcastNode, ColumnNode, ElementwiseNode, IotaNode, Node, SplatNode

__all__ = ["whole_mask"]


@dataclass(frozen=True)
class _Places:
    """The least and the largest position in a slice, valid under the conditions `exact`: no sum wraps around."""

    least: Value
    most: Value
    exact: list[Value] = field(default_factory=list)


def whole_mask(b: Builder, mask: Node) -> Value | None:
    """A condition that implies that all elements of a mask are true; None if the ends of its positions are unknown."""
    if isinstance(mask, BroadcastNode | ColumnNode):
        return whole_mask(b, mask.source)
    if not isinstance(mask, ElementwiseNode):
        return None
    if mask.op.name == "and":
        parts = [whole_mask(b, each) for each in mask.operands if isinstance(each, Node)]
        conditions = [each for each in parts if each is not None]
        return b.and_(*conditions) if len(conditions) == len(mask.operands) == 2 else None
    compare = _COMPARISONS.get(mask.op.name)
    if compare is None:
        return None
    left, right = (_places(b, operand) for operand in mask.operands)
    if left is None or right is None:
        return None
    is_whole = compare(b, left, right)
    for condition in (*left.exact, *right.exact):
        is_whole = b.and_(is_whole, condition)
    return is_whole


_COMPARISONS: dict[str, Callable[[Builder, _Places, _Places], Value]] = {
    "lt": lambda b, x, y: b.lt(x.most, y.least),
    "le": lambda b, x, y: b.le(x.most, y.least),
    "gt": lambda b, x, y: b.gt(x.least, y.most),
    "ge": lambda b, x, y: b.ge(x.least, y.most),
}


def _places(b: Builder, operand: Node | Value) -> _Places | None:
    """The ends of a slice of positions; None for a slice of other values."""
    if isinstance(operand, Value):
        return _Places(operand, operand) if _is_place(operand.type) else None
    if isinstance(operand, BroadcastNode | ColumnNode):
        return _places(b, operand.source)
    if not _is_place(operand.dtype.element):
        return None
    if isinstance(operand, SplatNode):
        return _Places(operand.value, operand.value)
    if isinstance(operand, IotaNode):
        number = operand.extents[operand.axis].number
        return (
            None
            if number is None
            else _sum(b, _Places(operand.start, operand.start), _counts(b, operand, number))
        )
    if isinstance(operand, ElementwiseNode) and operand.op.name == "add":
        left, right = (_places(b, each) for each in operand.operands)
        return _sum(b, left, right) if left is not None and right is not None else None
    return None


def _counts(b: Builder, node: Node, number: int) -> _Places:
    return _Places(b.const(0, node.dtype.element), b.const(max(number - 1, 0), node.dtype.element))


def _sum(b: Builder, left: _Places, right: _Places) -> _Places:
    """Ends of the sums: none wraps around if the largest one does not."""
    most = b.add(left.most, right.most)
    return _Places(b.add(left.least, right.least), most, [*left.exact, *right.exact, b.ge(most, left.most)])


def _is_place(dtype: DataType) -> bool:
    return dtype in (DataType.U32, DataType.U64)
