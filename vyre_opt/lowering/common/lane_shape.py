"""The LLVM types of a value: a scalar (nvptx: a thread is one lane) or a vector of lanes (host).

f16 and bf16 values are carried as `float`, always already rounded.  Their arithmetic is float
arithmetic followed by a rounding, which gives the correctly rounded result for + - * / and sqrt
(24 >= 2 * 11 + 2 significand bits; Figueroa, 1995).
"""

from __future__ import annotations

import struct

from ...ir import arith
from ...ir.types import DataType
from ...records import dataclass

__all__ = ["CARRIER_BYTES", "SCALAR", "LaneShape", "carrier", "float_literal"]

_CARRIERS = {"bool": "i1", "f16": "float", "bf16": "float", "f32": "float", "f64": "double"}


def carrier(dtype: DataType) -> str:
    """The LLVM type that carries one element of a scalar type."""
    return _CARRIERS.get(dtype.name) or f"i{dtype.bits}"


CARRIER_BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}
"""The bytes that memory for a carrier takes."""


def float_literal(value: float) -> str:
    """A float or double constant; LLVM writes both by the bits of a double."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


@dataclass(frozen=True, slots=True)
class LaneShape:
    """`lanes` values side by side; 1 means a scalar."""

    lanes: int = 1

    def of(self, element: str) -> str:
        """The type of this shape over an LLVM scalar type."""
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def type(self, dtype: DataType) -> str:
        return self.of(carrier(dtype))

    def suffix(self, element: str) -> str:
        """An intrinsic's type suffix: `f32`, `v32f32`."""
        short = {"float": "f32", "double": "f64", "half": "f16"}.get(element, element)
        return short if self.lanes == 1 else f"v{self.lanes}{short}"

    def splat(self, element: str, constant: str) -> str:
        """A constant in every lane."""
        return constant if self.lanes == 1 else f"splat ({element} {constant})"

    def integer(self, element: str, value: int) -> str:
        return self.splat(element, str(value))

    def real(self, element: str, value: float) -> str:
        if element == "float":
            # LLVM rejects a float constant whose double is not exactly a float
            value = arith.round_float(value, DataType.F32)
        return self.splat(element, float_literal(value))

    def const(self, value: int, dtype: DataType) -> str:
        """An encoded constant of a scalar type in every lane."""
        if dtype.is_float:
            return self.real(carrier(dtype), arith.decode_float(value, dtype))
        if dtype.is_bool:
            return self.splat("i1", "true" if value else "false")
        return self.integer(carrier(dtype), value)


SCALAR = LaneShape()
