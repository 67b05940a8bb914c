"""Powers of two around a number and its factors of two: numbers of lanes and workgroups, and sizes of pieces."""

from __future__ import annotations

__all__ = ["power_above", "power_below", "power_of"]


def power_above(number: int) -> int:
    """The least power of two that is not below `number`."""
    return 1 << (number - 1).bit_length()


def power_below(number: int) -> int:
    """The largest power of two that is not above `number`, from 1 on."""
    return 1 << number.bit_length() - 1


def power_of(number: int, most: int) -> int:
    """The largest power of two that divides `number`, `most` at most."""
    return min(most, number & -number)
