"""What the array functions share: arrays as operands, their element types, text, numbers as u32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.types import DataType
from ..runtime.array_backend import ArrayBackend, Operand
from ..runtime.dispatcher import BadInputs, DispatcherLike
from .placement import array_backend_of

__all__ = [
    "Operand",
    "ArrayBackend",
    "DispatcherLike",
    "as_octets",
    "as_u32",
    "element_type",
    "array_backend_of",
]

_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_BY_NAME = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "uint32": "u32", "int32": "i32"}


def element_type(
    operand: Operand, name: str, accepted: Sequence[DataType], given: str | None = None
) -> DataType:
    """The element type of an array, or the one `given` by name.  Raises BadInputs.

    bf16 elements come as a `bfloat16` of ml_dtypes or torch, or as uint16 with "bf16" given.
    """
    word = given or _BY_NAME.get(operand.kind, operand.kind)
    for dtype in accepted:
        if dtype.name == word:
            return dtype
    known = ", ".join(dtype.name for dtype in accepted)
    raise BadInputs(f"{name} holds {known}, not {given or operand.kind}")


def as_u32(
    place: ArrayBackend, values: Any, name: str, below: int = 1 << 32, wrong: str = "number {} is not a u32"
) -> Operand:
    """Integers from 0 to a limit, as u32 numbers.  Raises BadInputs, with what is `wrong` with others.

    In main memory they may come as a sequence of ints.
    """
    operand = place.take(values, name)
    if operand.count and operand.kind not in _INTEGERS:
        raise BadInputs(f"{name} holds {operand.kind}, not integers")
    if operand.kind == "uint32" and below == 1 << 32:
        return operand
    if place.on_gpu:
        from .index_narrowing import narrowed

        return narrowed(place, operand, name, below, wrong)
    array = operand.array
    for number in (int(array.min()), int(array.max())) if array.size else ():
        if not 0 <= number < below:
            raise BadInputs(f"{name}: {wrong.format(number)}")
    return Operand(array.astype(np.uint32), operand.shape, "uint32", operand.owner)


def as_octets(place: ArrayBackend, text: Any, name: str) -> Operand:
    """Text as u8: a str of ASCII characters, bytes, or an array of u8.  Raises BadInputs."""
    if isinstance(text, str):
        try:
            text = text.encode("ascii")
        except UnicodeEncodeError as wrong:
            raise BadInputs(f"{name}: {wrong.object[wrong.start]!r} is not an ASCII character") from None
    if isinstance(text, (bytes, bytearray, memoryview)):
        octets = np.frombuffer(text, np.uint8)
        return Operand(octets, octets.shape, "uint8", octets)
    operand = place.take(text, name)
    if operand.kind != "uint8":
        raise BadInputs(f"{name} is text, bytes or an array of uint8, not of {operand.kind}")
    return operand
