"""Comparing the affine expressions of two indices, in the arithmetic in which that is sound.

The expression E of an index is equal to it modulo 2^bits of the index's type.  They are equal as
integers only where the whole range of E lies in the type:

    %i = mul %w, 100 : u8     E = 100*w, w in [0, 3]     elements 0, 100, 200, 44, not 300
    %j = mul %w, 100 : u32    E = 100*w, w in [0, 3]     elements 0, 100, 200, 300

So the two directions differ, and every comparison of two accesses uses the one it needs:

    modulus        if the elements are equal, the expressions are equal modulo this
    same_element   if the expressions are equal, whether the elements are equal

Both assume that the accesses are in bounds; one that is not is an error of the program.  `fits` and
`is_in_bounds_value` tell when one expression is equal to its index as an integer.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..ir.arith import int_range
from ..ir.types import DataType
from .affine import AffineExpr, Range

__all__ = ["Residue", "fits", "is_in_bounds_value", "modulus", "same_element"]


class Residue(NamedTuple):
    """The arithmetic that relates the elements of an access to the affine expression of its index.

    `bits`: of the index's type.
    `exact`: bits that hold the number of every element, if index and expression are equal as integers
    (see `fits`); 0 if they are only congruent.
    `straight`: whether each element is equal to its expression modulo 2^bits.  The later elements of a
    vector follow its first one as integers and do not wrap with it, so for a vector it may be False.
    """

    bits: int
    exact: int
    straight: bool

    @staticmethod
    def of(index: DataType, expr: AffineExpr, width: int, count: int | None) -> Residue:
        """`width` elements from an index of this type and expression, in a buffer of `count` elements."""
        bits = index.bits or 1
        low, high = expr.range()
        exact = max(1, (high + width - 1).bit_length()) if fits((low, high), index) else 0
        # `width` elements that begin at a multiple of it do not pass 2^bits between them
        unit = math.gcd(expr.const, *expr.terms.values(), 1 << bits)
        aligned = unit % width == 0
        in_type = 0 < exact <= bits or (count is not None and count <= 1 << bits)
        return Residue(bits, exact, width == 1 or aligned or in_type)


def fits(values: Range, dtype: DataType) -> bool:
    """Whether an expression with these bounds is equal to the value of this type that it is congruent to."""
    low, high = values
    lowest, highest = int_range(dtype)
    return lowest <= low and high <= highest


def is_in_bounds_value(values: Range, dtype: DataType, count: int) -> bool:
    """Whether an expression with these bounds is equal to the index that it is congruent to, given index < count."""
    low, high = values
    wrap = 1 << (dtype.bits or 1)
    # no other number in the range is congruent to one in [0, count)
    return count - 1 - wrap < low and high < wrap


def modulus(a: Residue, b: Residue) -> int:
    """Equal elements have expressions that are equal modulo this; 0: as integers.

    An exact expression is congruent to its index whatever the modulus, so the other's decides; of two
    that wrap, the narrower.
    """
    return math.gcd(0 if a.exact else 1 << a.bits, 0 if b.exact else 1 << b.bits)


def same_element(a: Residue, b: Residue) -> bool:
    """Whether equal expressions mean the same element.

    They do where both are exact; where both wrap in types of equal width; and where one is exact and
    all its elements lie in both types.
    """
    if a.exact and b.exact:
        return True
    if not (a.straight and b.straight):
        return False
    narrower = min(a.bits, b.bits)
    return a.bits == b.bits or any(0 < r.exact <= narrower for r in (a, b))
