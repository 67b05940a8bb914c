"""How elements follow from forms: which arithmetic a comparison of two forms is meant in.

The form F of an index stands for the index modulo 2^bits of the index's type.  It equals the index as
an integer only where all that F may be lies in the type:

    %i = mul %w, 100 : u8     form 100*w, w in [0, 3]     elements 0, 100, 200, 44, not 300
    %j = mul %w, 100 : u32    form 100*w, w in [0, 3]     elements 0, 100, 200, 300

So two questions about two accesses have different answers, and every comparison of forms asks one of
them here:

    modulus        equal elements: then the forms are equal modulo how much?
    same_element   equal forms: then are the elements equal?

Both suppose that the accesses are in bounds.  One that is not is an error of the program.  `fits` and
`is_in_bounds_value` ask when one form is the integer itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..ir.arith import int_range
from ..ir.types import DataType
from .affine import Affine, Range

__all__ = ["Residue", "fits", "is_in_bounds_value", "modulus", "same_element"]


class Residue(NamedTuple):
    """What is known of an index by its form.

    `bits`: of its type.  `exact`: bits that hold the number of every element, if the index equals its
    form as an integer (see `fits`); 0 if it is only congruent to it.  `straight`: whether each element
    is its form modulo 2^bits; those of a vector follow its index as integers, and do not wrap with it.
    """

    bits: int
    exact: int
    straight: bool

    @staticmethod
    def of(index: DataType, form: Affine, width: int, count: int | None) -> Residue:
        """`width` elements from an index of this type and form, in a buffer of `count` elements."""
        bits = index.bits or 1
        low, high = form.range()
        exact = max(1, (high + width - 1).bit_length()) if fits((low, high), index) else 0
        # `width` elements that begin at a multiple of it do not pass 2^bits between them
        unit = math.gcd(form.const, *form.terms.values(), 1 << bits)
        aligned = unit % width == 0
        in_type = 0 < exact <= bits or (count is not None and count <= 1 << bits)
        return Residue(bits, exact, width == 1 or aligned or in_type)


def fits(values: Range, dtype: DataType) -> bool:
    """Whether a form with these bounds equals the value of this type that it is congruent to."""
    low, high = values
    least, most = int_range(dtype)
    return least <= low and high <= most


def is_in_bounds_value(values: Range, dtype: DataType, count: int) -> bool:
    """Whether a form with these bounds equals the index that it is congruent to, if that is below `count`."""
    low, high = values
    wrap = 1 << (dtype.bits or 1)
    return count - 1 - wrap < low and high < wrap


def modulus(a: Residue, b: Residue) -> int:
    """Equal elements have forms that are equal modulo this; 0: as integers.

    An exact form is congruent to its index whatever the modulus, so the other's decides; of two that
    wrap, the narrower.
    """
    return math.gcd(0 if a.exact else 1 << a.bits, 0 if b.exact else 1 << b.bits)


def same_element(a: Residue, b: Residue) -> bool:
    """Whether equal forms are the same element.

    They are where both are the form itself; where both are the same residue of it, by equal types; and
    where one is the form itself and takes no value that does not lie in both types.
    """
    if a.exact and b.exact:
        return True
    if not (a.straight and b.straight):
        return False
    narrower = min(a.bits, b.bits)
    return a.bits == b.bits or any(0 < r.exact <= narrower for r in (a, b))
