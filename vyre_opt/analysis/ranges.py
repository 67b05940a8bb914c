"""Bounds of the results of integer ops by those of their operands.

and %a, 15                      0 .. 15
add %a, %b of u8, to 200 each   0 .. 255: it may wrap
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..ir import arith
from ..ir.program import Op, Value
from .affine import Range
from .congruence import fits

__all__ = ["result_range"]


def result_range(op: Op, ranges: Mapping[Value, Range]) -> Range:
    """Smallest and largest result of an op with one integer or bool result.

    `ranges`: bounds of values; without an entry, those of the type.  Where nothing is known of the result,
    or it may wrap, the range is that of its type.
    """
    full = arith.int_range(op.result.type)
    if not all(v.type.is_int or v.type.is_bool for v in op.operands):
        return full
    span = _bounds_of(op, [ranges.get(v) or arith.int_range(v.type) for v in op.operands])
    return span if span is not None and fits(span, op.result.type) else full


def _bounds_of(op: Op, operands: Sequence[Range]) -> Range | None:
    """Bounds of the result before it wraps, for operands in these ranges; None where nothing is known."""
    if op.name == "const":
        return op.attrs["value"], op.attrs["value"]
    # of whoever asks, there is one at least; but a `global_size` of 2^32 is 0
    if op.name == "num_workgroups":
        return 1, arith.int_range(op.result.type)[1]
    if op.name in ("shr", "shl"):  # the amount is taken modulo the width
        value, (least, highest) = operands
        bits = op.result.type.bits or 1
        amount = (least % bits, least % bits) if least == highest else (least, highest)
        return _SHIFTS[op.name](value, amount, bits)
    rule = _RULES.get(op.name)
    return rule(*operands) if rule is not None else None


# --- x/0 = x, x%0 = 0.  What divides or works on bits is known of operands that are not negative


def _hull(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def _product(a: Range, b: Range) -> Range:
    products = [x * y for x in a for y in b]
    return min(products), max(products)


def _and(a: Range, b: Range) -> Range | None:
    limits = [high for low, high in (a, b) if low >= 0]
    return (0, min(limits)) if limits else None


def _or(a: Range, b: Range) -> Range | None:
    if min(a[0], b[0]) < 0:
        return None
    return 0, (1 << max(a[1].bit_length(), b[1].bit_length())) - 1


def _rem(a: Range, b: Range) -> Range | None:
    if min(a[0], b[0]) < 0:
        return None
    return 0, min(a[1], max(0, b[1] - 1))


def _div(a: Range, b: Range) -> Range | None:
    if min(a[0], b[0]) < 0:
        return None
    return (a[0] // b[1], a[1] // b[0]) if b[0] > 0 else (0, a[1])


def _shr(a: Range, amount: Range, bits: int) -> Range | None:
    if min(a[0], amount[0]) < 0:
        return None
    return (a[0] >> amount[1], a[1] >> amount[0]) if amount[1] < bits else (0, a[1])


def _shl(a: Range, amount: Range, bits: int) -> Range | None:
    if min(a[0], amount[0]) < 0 or amount[1] >= bits:
        return None
    return a[0] << amount[0], a[1] << amount[1]


_SHIFTS: dict[str, Callable[[Range, Range, int], Range | None]] = {"shr": _shr, "shl": _shl}

_RULES: dict[str, Callable[..., Range | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _product,
    "neg": lambda a: (-a[1], -a[0]),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "select": lambda condition, a, b: _hull(a, b),
    "cast": lambda a: a,
    "and": _and,
    "or": _or,
    "xor": _or,
    "rem": _rem,
    "div": _div,
    "popcount": lambda a: (0, 64),
    "clz": lambda a: (0, 64),
    "ctz": lambda a: (0, 64),
}
