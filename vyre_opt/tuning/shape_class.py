"""Sizes that are alike: one schedule is good for all of a class."""

from __future__ import annotations

from math import gcd

__all__ = ["size_class"]


def size_class(size: int) -> str:
    """`1024+/64` for 1,024 to 2,047 that 64 divides: of the same power of two, and with the same divisor of vectors and subgroups."""
    return f"{1 << (size.bit_length() - 1)}+/{gcd(size, 64)}" if size > 0 else str(size)
