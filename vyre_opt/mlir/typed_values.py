"""Values of MLIR as values of ours: which type a signless integer has, and what an index is.

An integer of MLIR has the type that its op gives it: a divui gives a u32, a sitofp takes an i32.  Where an op takes
another sign than its operand has, the bits stay (`bitcast`).  An index is one of these, widened:

    Plain    a value of ours
    Number   an integer constant, which becomes a value of the type that its use needs
    Index    an integer of ours that stands for an index: as a number it is the same
    Byte     a bool that was read as a byte, or is about to be written as one
    Memory   a memref
    Rounds   how often a loop runs whose counter has 64 bits, see helpers/control.py
    Turn     the number of a round of such a loop
    Missing  the result of an op that was refused
"""

from __future__ import annotations

from typing import Any

from ..ir.program import Buffer, Value
from ..ir.types import DataType
from ..records import dataclass

__all__ = [
    "Byte",
    "Index",
    "Memory",
    "Missing",
    "Number",
    "Plain",
    "NotReadable",
    "Rounds",
    "Turn",
    "TypedValue",
    "scalar_of",
    "signless",
]


class NotReadable(Exception):
    """A part of a kernel is not read; `message` is "" for a consequence of another error.  `help`: the remedy."""

    def __init__(self, message: str = "", help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help


@dataclass(frozen=True, slots=True)
class Plain:
    value: Value


@dataclass(frozen=True, slots=True)
class Number:
    """`bits`: the width of its type; None of an index."""

    number: int
    bits: int | None


@dataclass(frozen=True, slots=True)
class Index:
    """`role`: what of a global id it is: (thread_id | block_id | block_dim | first, axis), or None.

    `first` is block_id * block_dim.
    """

    value: Value
    role: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Byte:
    flag: Value


@dataclass(frozen=True, slots=True)
class Memory:
    """`buffer` as it is declared; its loads and stores are complete when all ops have been read."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Rounds:
    """`bounds`: lower, upper and step, as values of MLIR."""

    dtype: DataType
    bounds: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """`lower`, `step`: as values of MLIR."""

    counter: Value
    lower: Any
    step: Any


class Missing:
    pass


TypedValue = Plain | Number | Index | Byte | Memory | Rounds | Turn | Missing

_FLOATS = {"f16": DataType.F16, "bf16": DataType.BF16, "f32": DataType.F32, "f64": DataType.F64}


def scalar_of(text: str, is_signed: bool = True) -> DataType:
    """Our type for a scalar type of MLIR.  Raises NotReadable for a type without one."""
    if text in _FLOATS:
        return _FLOATS[text]
    if text == "i1":
        return DataType.BOOL
    if text == "index":
        return DataType.I64
    if text in ("i8", "i16", "i32", "i64"):
        return DataType.of(text if is_signed else f"u{text[1:]}")
    raise NotReadable(
        f"values of the type {text} are not read", "of integers there are i1, i8, i16, i32 and i64"
    )


def signless(dtype: DataType) -> DataType:
    """The signed type of the same bits, for comparing types that MLIR does not tell apart."""
    element = dtype.element
    return dtype.with_element(DataType.of(f"i{element.bits}")) if element.is_int else dtype
