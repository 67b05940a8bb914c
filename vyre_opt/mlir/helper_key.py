"""The names of helper functions, which stand for ops of ours that no op of MLIR is.

    vyre.div.u32              div of two u32
    vyre.cast.f32.i8          cast
    vyre.exp.4xf32            exp of a vec<4 x f32>
    vyre.subgroup_scan.inclusive.add.i32
    vyre$atomic_add$acquire$4096xi32      an atomic on a buffer of 4096 i32; n stands for an open extent

A name says all that there is to know of the helper, so who reads a call knows the op.

mlir-opt gives each function that takes a memref a wrapper for C, whose name has that of the function in it and stays in
the PTX, where a name has no dots.
"""

from __future__ import annotations

import re

from ..ir.types import DataType, TypeNameError
from ..records import dataclass

__all__ = ["HelperKey", "op_of"]

_PREFIX = "vyre"
_VECTOR = re.compile(r"(\d+)x([a-z]+\d*)")


@dataclass(frozen=True, slots=True)
class HelperKey:
    """`name` of the op; `modifiers`: its attributes that are words; `types`: those that tell it from others of its name.

    `memory`: of an atomic, the buffer's extents and its memory space, joined by `x`; a memory space is `w` or nothing.
    """

    name: str
    modifiers: tuple[str, ...] = ()
    types: tuple[DataType, ...] = ()
    memory: str = ""

    @property
    def symbol(self) -> str:
        types = [_token(dtype) for dtype in self.types]
        if self.memory:
            types = [f"{self.memory}x{types[0]}"]
        return ("$" if self.memory else ".").join([_PREFIX, self.name, *self.modifiers, *types])

    @staticmethod
    def of(symbol: str, count: int, has_memory: bool) -> HelperKey | None:
        """The key of a symbol, for an op with so many words; None for any other symbol."""
        _, name, *rest = _parts(symbol)
        modifiers, tokens = tuple(rest[:count]), rest[count:]
        memory = ""
        if has_memory and tokens:
            memory, _, tokens[0] = tokens[0].rpartition("x")
        try:
            types = tuple(map(_type, tokens))
        except TypeNameError:
            return None
        key = HelperKey(name, modifiers, types, memory)
        return key if key.symbol == symbol else None


def op_of(symbol: str) -> str | None:
    """The name of the op for which a function of this name might be; None if it is no helper's name."""
    prefix, *rest = _parts(symbol)
    return rest[0] if prefix == _PREFIX and rest else None


def _parts(symbol: str) -> list[str]:
    return symbol.split("$" if symbol.startswith(_PREFIX + "$") else ".")


def _token(dtype: DataType) -> str:
    return f"{dtype.lanes}x{dtype.element.name}" if dtype.is_vec else dtype.name


def _type(token: str) -> DataType:
    """Raises TypeNameError for a token that is no type."""
    match = _VECTOR.fullmatch(token)
    return DataType.vec(DataType.of(match[2]), int(match[1])) if match else DataType.of(token)
