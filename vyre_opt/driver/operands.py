"""The arguments of the array functions: their element types, text, and numbers as u32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import numpy as np

from ..execution.array_backend import ArrayBackend, Operand
from ..execution.dispatcher import BadInputs, DispatcherLike
from ..ir.types import DataType
from .placement import array_backend_of

A = TypeVar("A")
"""An array of any library."""
Like = Annotated[A, "of another shape or type"]
"""An array of the library and in the memory of another one."""
Octets = Annotated[A, "of u8"]
"""An array of bytes: of NumPy for str and bytes, else of the library and in the memory of another one."""
Words = Annotated[A, "of u32"]
"""An array of u32: of NumPy for a list, else of the library and in the memory of another one."""

__all__ = [
    "A",
    "Like",
    "Octets",
    "Words",
    "Operand",
    "ArrayBackend",
    "DispatcherLike",
    "as_octets",
    "as_u32",
    "check_integers",
    "element_type",
    "listed",
    "array_backend_of",
]

_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def listed(items: Any, name: str) -> list[Any]:
    """The items of a sequence or an iterator.  Raises BadInputs for what is neither."""
    try:
        return list(items)
    except TypeError:
        raise BadInputs(f"{name}: a list is wanted, not {type(items).__name__}") from None


def element_type(
    operand: Operand, name: str, accepted: Sequence[DataType], type_name: str | None = None
) -> DataType:
    """Element type as `kernels.named.operand.element_type` gives it, for operands outside of kernel calls.  Raises BadInputs."""
    from ..kernels.named.kernel import element_type as element_type_of

    try:
        return element_type_of(operand, name, accepted, type_name)
    except ValueError as error:
        raise BadInputs(str(error)) from None


def as_u32(
    backend: ArrayBackend,
    values: Any,
    name: str,
    limit: int = 1 << 32,
    message: str = "number {} is not a u32",
) -> Operand:
    """Integers from 0 up to and excluding `limit`, as u32 numbers.  Raises BadInputs with `message` for others.

    In main memory they may be a sequence of ints.
    """
    operand = backend.take(values, name)
    check_integers(operand, name)
    if operand.kind == "uint32" and limit == 1 << 32:
        return operand
    if backend.on_gpu:
        from .index_narrowing import narrow_to_u32

        return narrow_to_u32(backend, operand, name, limit, message)
    array = operand.array
    for number in (int(array.min()), int(array.max())) if array.size else ():
        if not 0 <= number < limit:
            raise BadInputs(f"{name}: {message.format(number)}")
    return Operand(array.astype(np.uint32), operand.shape, "uint32", operand.owner)


def check_integers(operand: Operand, name: str) -> None:
    """Raises BadInputs for elements that are no integers; no elements may be of NumPy's default type, as of []."""
    if operand.kind not in _INTEGERS and (operand.count or operand.kind == "bool"):
        raise BadInputs(f"{name} holds {operand.kind}, not integers")


def as_octets(backend: ArrayBackend, text: Any, name: str) -> Operand:
    """Text as u8: a str of ASCII characters, bytes, or an array of u8.  Raises BadInputs."""
    if isinstance(text, str):
        try:
            text = text.encode("ascii")
        except UnicodeEncodeError as error:
            raise BadInputs(f"{name}: {error.object[error.start]!r} is not an ASCII character") from None
    if isinstance(text, (bytes, bytearray, memoryview)):
        is_strided = isinstance(text, memoryview) and not text.c_contiguous
        octets = np.frombuffer(bytes(text) if is_strided else text, np.uint8)
        return Operand(octets, octets.shape, "uint8", octets)
    operand = backend.take(text, name)
    if operand.kind != "uint8":
        raise BadInputs(f"{name} is text, bytes or an array of uint8, not of {operand.kind}")
    return operand
