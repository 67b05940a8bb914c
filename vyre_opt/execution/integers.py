"""Checks integers and sequences that callers pass."""

from __future__ import annotations

import operator
from typing import Any

from ..ir.types import with_article
from .dispatcher import BadInputs

__all__ = ["integer_in", "items_of"]


def integer_in(value: Any, low: int, high: int) -> int | None:
    """An integer of any type from `low` to `high` as an int; None for anything else, and for a bool."""
    if type(value) is not int:
        try:
            # operator.index takes every integer type, but takes bool for one too.
            value = None if isinstance(value, bool) else operator.index(value)
        except TypeError:
            value = None
    return value if value is not None and low <= value <= high else None


def items_of(values: Any, expected: str) -> list[Any]:
    """The items of a sequence.

    Raises BadInputs, with a message that begins with `expected`, for text and for what has no order.
    """
    error = BadInputs(f"{expected}, not {with_article(type(values).__name__)}")
    if isinstance(values, (str, bytes, bytearray, dict, set, frozenset)):
        raise error
    try:
        return list(values)
    except TypeError:
        raise error from None
