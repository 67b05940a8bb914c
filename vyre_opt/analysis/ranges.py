"""Bounds of an integer value from those of what it is computed from."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import arith
from ..ir.program import Op, Value
from .affine import Range

__all__ = ["result_range"]


def result_range(op: Op, known: Mapping[Value, Range]) -> Range:
    """Smallest and largest result of an op with one integer or bool result.

    `known`: bounds of values; without an entry, those of the type.  Where nothing is known of the result,
    or it may wrap, the range is that of its type.
    """
    whole = arith.int_range(op.result.type)
    if not all(v.type.is_int or v.type.is_bool for v in op.operands):
        return whole
    low, high = _of(op, [known.get(v) or arith.int_range(v.type) for v in op.operands]) or whole
    return (low, high) if whole[0] <= low and high <= whole[1] else whole


def _of(op: Op, ranges: list[Range]) -> Range | None:
    """Bounds of the result before wrapping, for operands in `ranges`; None where nothing is known."""
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
        return None  # the bounds below hold for operands that are not negative
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
