"""Removes checks of indices of local arrays that always hold: `for k in range(8): a[k] = 0.0`."""

from __future__ import annotations

from collections.abc import Collection

from ..analysis.affine import Range
from ..analysis.ranges import result_range
from ..ir import arith
from ..ir.loops import bounds
from ..ir.program import Block, Op, Value

__all__ = ["remove_held_asserts"]


def remove_held_asserts(body: Block, checks: Collection[Op]) -> None:
    """Remove those of the asserts `checks` whose comparison, an `lt`, the ranges of its operands decide."""
    if checks:
        _sweep(body, checks, {})


def _sweep(block: Block, checks: Collection[Op], ranges: dict[Value, Range]) -> None:
    """`ranges`: bounds of the values before this block; of others, those of their type hold."""
    kept: list[Op] = []
    for op in block.ops:
        if op.name == "for":
            _bound_counter(op, ranges)
        for region in op.regions:
            _sweep(region, checks, ranges)
        if op in checks and _holds(op.operands[0], ranges):
            continue
        if len(op.results) == 1 and not op.regions and _is_number(op.result):
            ranges[op.result] = result_range(op, ranges)
        kept.append(op)
    block.ops = kept


def _is_number(value: Value) -> bool:
    dtype = value.type
    return (dtype.is_int or dtype.is_bool) and dtype.element is dtype


def _bound_counter(op: Op, ranges: dict[Value, Range]) -> None:
    """The counter of a loop is not below its lower bound, and below its upper one."""
    lower, upper, _ = bounds(op)
    low = lower if isinstance(lower, int) else _range(lower, ranges)[0]
    high = upper if isinstance(upper, int) else _range(upper, ranges)[1]
    if low < high:
        ranges[op.regions[0].args[0]] = low, high - 1


def _range(value: Value, ranges: dict[Value, Range]) -> Range:
    return ranges.get(value) or arith.int_range(value.type)


def _holds(condition: Value, ranges: dict[Value, Range]) -> bool:
    comparison = condition.owner
    if (
        not isinstance(comparison, Op)
        or comparison.name != "lt"
        or not all(map(_is_number, comparison.operands))
    ):
        return False
    a, b = comparison.operands
    return _range(a, ranges)[1] < _range(b, ranges)[0]
