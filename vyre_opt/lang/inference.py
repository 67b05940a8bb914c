"""Types that are found while a kernel is translated: those of literals, and of locals that have met only literals.

Such a value has an `OpenType` until it meets a value of a known type, which is then its own.  Where it meets none,
it is an i32, or an f32 if a literal with a point was among those that it met.
"""

from __future__ import annotations

from ..ir.diagnostics import Location
from ..ir.types import DataType

__all__ = ["AnyType", "TypeMismatch", "OpenType", "bind", "flags_of", "known", "resolved", "unify"]


class OpenType:
    """A type that is not known yet: of a number, or where it `is_any` of a bool, too.

    `same_as`: what it has turned out to be.  `is_float`: whether a literal with a point has it.
    `is_integer`: it counts a loop.
    `is_scalar`: it is no vector, since a value of it counts a loop, is an index or was compared with one bool as result.
    `reason`: the place of the value that it took its type from.
    """

    __slots__ = ("is_any", "is_float", "is_integer", "is_scalar", "reason", "same_as")

    def __init__(
        self, is_float: bool, is_any: bool = False, is_scalar: bool = False, is_integer: bool = False
    ) -> None:
        self.is_float, self.is_any, self.is_scalar, self.is_integer = is_float, is_any, is_scalar, is_integer
        self.same_as: AnyType | None = None
        self.reason: Location | None = None

    def __str__(self) -> str:
        return "a float" if self.is_float else "an integer" if self.is_integer else "a number"


AnyType = DataType | OpenType


class TypeMismatch(Exception):
    """Two types that are not the same."""

    def __init__(self, a: AnyType, b: AnyType) -> None:
        super().__init__(f"{a} and {b}")
        self.types = a, b


def known(dtype: AnyType) -> AnyType:
    """The type as far as it is known: a DataType, or the OpenType that stands for all that are the same."""
    while isinstance(dtype, OpenType) and dtype.same_as is not None:
        dtype = dtype.same_as
    return dtype


def resolved(dtype: AnyType) -> DataType:
    """The type, which is decided here if nothing has decided it."""
    dtype = known(dtype)
    if isinstance(dtype, OpenType):
        dtype.same_as = DataType.F32 if dtype.is_float else DataType.I32
        return dtype.same_as
    return dtype


def flags_of(dtype: AnyType) -> DataType:
    """The type of what a comparison gives: a bool, or a bool for each lane."""
    dtype = known(dtype)
    if isinstance(dtype, DataType):
        return dtype.with_element(DataType.BOOL)
    dtype.is_scalar = True
    return DataType.BOOL


def unify(a: AnyType, b: AnyType, reason: Location | None = None) -> AnyType:
    """The one type that both are.  Raises TypeMismatch.  `reason`: the place where they met."""
    a, b = known(a), known(b)
    if a is b:
        return a
    if isinstance(a, OpenType):
        return bind(a, b, reason)
    if isinstance(b, OpenType):
        return bind(b, a, reason)
    raise TypeMismatch(a, b)


def bind(open_type: OpenType, dtype: AnyType, reason: Location | None) -> AnyType:
    """Let an open type be another one.  Raises TypeMismatch where that is no type of its literals."""
    if isinstance(dtype, OpenType):
        if (open_type.is_float and dtype.is_integer) or (open_type.is_integer and dtype.is_float):
            raise TypeMismatch(open_type, dtype)
        dtype.is_integer |= open_type.is_integer
        dtype.is_float |= open_type.is_float
        dtype.is_any &= open_type.is_any
        dtype.is_scalar |= open_type.is_scalar
    elif not _may_be(open_type, dtype):
        raise TypeMismatch(open_type, dtype)
    open_type.same_as, open_type.reason = dtype, reason
    return dtype


def _may_be(open_type: OpenType, dtype: DataType) -> bool:
    """Whether a known type is one of all that an open one stands for."""
    if open_type.is_scalar and dtype.is_vec:
        return False
    element = dtype.element
    if open_type.is_integer and not element.is_int:
        return False
    return open_type.is_any or element.is_float or (element.is_int and not open_type.is_float)
