"""Bounds of an integer value from the ops that compute it."""

from __future__ import annotations

from ..ir import arith
from ..ir.program import Op, Value
from .affine import Range

__all__ = ["value_range"]

MAX_DEPTH = 24


def value_range(value: Value, depth: int = 0) -> Range:
    """Smallest and largest value that an integer or bool may have; its type's range where nothing is known."""
    whole = arith.int_range(value.type)
    op = value.owner
    if not isinstance(op, Op) or depth > MAX_DEPTH or op.regions:
        return whole
    found = _of(op, depth + 1)
    if found is None or found[0] < whole[0] or found[1] > whole[1]:
        return whole  # unknown, or it may wrap
    return found


def _of(op: Op, depth: int) -> Range | None:
    name = op.name
    if name == "const":
        value = op.attrs["value"]
        lanes = value if isinstance(value, tuple) else (value,)
        return min(lanes), max(lanes)
    if any(not (v.type.is_int or v.type.is_bool) for v in op.operands):
        return None
    if name == "cast":
        return value_range(op.operands[0], depth)
    if name == "select":
        return _hull(value_range(op.operands[1], depth), value_range(op.operands[2], depth))
    if name not in ("and", "or", "xor", "add", "sub", "mul", "min", "max", "shr", "rem", "div"):
        return None
    (a, b), (c, d) = (value_range(operand, depth) for operand in op.operands)
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
