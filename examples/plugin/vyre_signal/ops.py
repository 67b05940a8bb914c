"""signal.average: the mean of two integers, rounded down, which no sum overflows."""

from __future__ import annotations

from vyre_opt import Builder, DataType, register_op
from vyre_opt.ir.program import Value


def _fold(a: int, b: int, dtype: DataType) -> int:
    return (a + b) >> 1


@register_op(
    "signal.average", "binary", "(a + b) / 2, rounded down, without overflow.", types="int", fold_int=_fold
)
def average(b: Builder, x: Value, y: Value) -> Value:
    """The bits that both have, and half of those that one has."""
    return b.add(b.and_(x, y), b.shr(b.xor(x, y), 1))
