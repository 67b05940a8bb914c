"""Makes constants simple: 0, 1, half of what they were, whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..ir import arith
from ..ir.program import Module
from ..ir.rewrite import bodies
from ..ir.types import DataType
from .variants import Selection

__all__ = ["halve_constants", "one_constants", "zero_constants"]

Simpler = Callable[[int, DataType], int]
"""An encoded value of a scalar type to a simpler one, or to itself."""


def zero_constants(module: Module, selection: Selection) -> None:
    """Constants but 0."""
    _simplify(module, selection, lambda value, dtype: 0)


def one_constants(module: Module, selection: Selection) -> None:
    """Constants but 0 and 1."""
    _simplify(module, selection, _one)


def halve_constants(module: Module, selection: Selection) -> None:
    """The half of a constant, and fractions."""
    _simplify(module, selection, _half)


def _simplify(module: Module, selection: Selection, simpler: Simpler) -> None:
    for body in bodies(module):
        for op in body.walk():
            if op.name != "const" or op.result.type.is_open:
                continue
            value = _simplified(op.attrs["value"], op.result.type.element, simpler)
            if value != op.attrs["value"] and selection.drops():
                op.attrs = op.attrs | {"value": value}


def _simplified(value: Any, element: DataType, simpler: Simpler) -> Any:
    if not isinstance(value, tuple):
        return simpler(value, element)
    lanes = [simpler(lane, element) for lane in value]
    return lanes[0] if len(set(lanes)) == 1 else tuple(lanes)


def _one(value: int, dtype: DataType) -> int:
    one = arith.encode_float(1.0, dtype) if dtype.is_float else 1
    return value if value == 0 else one


def _half(value: int, dtype: DataType) -> int:
    if not dtype.is_float:
        half = abs(value) // 2
        return value if abs(value) < 3 else half if value > 0 else -half
    number = arith.decode_float(value, dtype)
    if not math.isfinite(number) or abs(number) in (0.0, 1.0):
        return value
    whole = math.trunc(number)
    return arith.encode_float(whole if whole != number else math.trunc(number / 2), dtype)
