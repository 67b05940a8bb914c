"""Bounds of an integer value from the ops that compute it."""

from __future__ import annotations

from ..ir import arith
from ..ir.program import Op, Value
from .affine import Range

__all__ = ["value_range"]

MAX_DEPTH = 24


def value_range(value: Value) -> Range:
    """Smallest and largest value that an integer or bool may have; its type's range where nothing is known."""
    return _range(value, MAX_DEPTH, {})


def _range(value: Value, depth: int, known: dict[Value, Range]) -> Range:
    """`known` keeps what was found, so that a value used twice is followed once."""
    found = known.get(value)
    if found is None:
        found = whole = arith.int_range(value.type)
        op = value.owner
        if depth and isinstance(op, Op) and all(v.type.is_int or v.type.is_bool for v in op.operands):
            low, high = _of(op, [_range(v, depth - 1, known) for v in op.operands]) or whole
            if whole[0] <= low and high <= whole[1]:  # else it may wrap
                found = low, high
        known[value] = found
    return found


def _of(op: Op, ranges: list[Range]) -> Range | None:
    """The exact result of `op` for operands in `ranges`; None where nothing is known."""
    name = op.name
    if name == "const":
        return op.attrs["value"], op.attrs["value"]
    if name == "cast":
        return ranges[0]
    if name == "select":
        return _hull(ranges[1], ranges[2])
    if name not in ("and", "or", "xor", "add", "sub", "mul", "min", "max", "shr", "rem", "div"):
        return None
    (a, b), (c, d) = ranges
    if name == "add":
        return a + c, b + d
    if name == "sub":
        return a - d, b - c
    if name == "min":
        return min(a, c), min(b, d)
    if name == "max":
        return max(a, c), max(b, d)
    if a < 0 or c < 0:
        return None
    if name == "and":
        return 0, min(b, d)
    if name in ("or", "xor"):
        return 0, (1 << max(b.bit_length(), d.bit_length())) - 1
    if name == "mul":
        return a * c, b * d
    if name == "rem":
        return (0, min(b, d - 1)) if c > 0 else (0, b)
    if name == "div":
        return (a // d, b // c) if c > 0 else (0, b)  # x/0 = x
    bits = op.results[0].type.bits or 1
    return (a >> d, b >> c) if d < bits else (0, b)


def _hull(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])
