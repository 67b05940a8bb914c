"""Integers that callers give one by one, of whatever type, held to a range."""

from __future__ import annotations

import operator
from typing import Any

from .dispatcher import BadInputs

__all__ = ["integer_in", "items_of"]


def integer_in(given: Any, least: int, most: int) -> int | None:
    """An integer of any type from `least` to `most`; None for what is none, a bool among it."""
    value = given
    if type(given) is not int:
        try:
            # operator.index takes every integer type, but takes bool for one too.
            value = None if isinstance(given, bool) else operator.index(given)
        except TypeError:
            value = None
    return value if value is not None and least <= value <= most else None


def items_of(given: Any, wanted: str) -> list[Any]:
    """The items of a sequence.  Raises BadInputs, which begins with `wanted`, for what has no order or is text."""
    refused = BadInputs(f"{wanted}, not a {type(given).__name__}")
    if isinstance(given, (str, bytes, bytearray, dict, set, frozenset)):
        raise refused
    try:
        return list(given)
    except TypeError:
        raise refused from None
