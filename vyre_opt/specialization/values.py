"""The value of a specialization constant, and its 64-bit hash.

bits   63 ........ 40 39 ................ 8 7 .... 0
       zero           payload               tag

tag 0  u32     the value
    1  i32     two's complement
    2  f32     the bit pattern
    3  bool    0 or 1
    4  dtype   the type's own tag, without its parameters
"""

from __future__ import annotations

import math
import operator
import struct
from typing import Any

from ..ir import arith
from ..ir.types import DataType, with_article
from ..records import dataclass

__all__ = ["TAGS", "SpecValue", "dtype_tag"]

TAGS = {"u32": 0, "i32": 1, "f32": 2, "bool": 3, "dtype": 4}

DTYPE_TAGS = frozenset([*range(0x01, 0x1F), 0x80])
"""The tags that a type may have in a hash."""


def dtype_tag(dtype: DataType) -> int:
    """The tag of a type.  Raises TypeError if it is no DataType, ValueError if it has no tag."""
    if not isinstance(dtype, DataType):
        raise TypeError(f"{dtype!r} is not a DataType")
    if dtype.tag not in DTYPE_TAGS:
        raise ValueError(f"type {dtype} has no tag to hash it by")
    return dtype.tag


@dataclass(frozen=True, slots=True, repr=False)
class SpecValue:
    """A typed value: `SpecValue.u32(7)`, `.i32`, `.f32`, `.bool` or `.dtype`.

    `kind` is a key of TAGS; `bits` is the payload, at most 32 bits; `type` is that of a `dtype` value.
    Equality is that of bits: 0.0 differs from -0.0, and a NaN equals itself.
    """

    kind: str
    bits: int
    type: DataType | None = None

    def __post_init__(self) -> None:
        if self.kind not in TAGS:
            raise ValueError(f"a specialization value is {', '.join(TAGS)}, not {self.kind!r}")
        if (self.kind == "dtype") != (self.type is not None):
            raise TypeError(
                f"a {self.kind} value {'needs a type' if self.kind == 'dtype' else 'has no type'}"
            )
        if not 0 <= self.bits < (2 if self.kind == "bool" else 1 << 32):
            raise ValueError(f"{self.bits} is not the payload of a {self.kind}")
        if self.type is not None and self.bits != dtype_tag(self.type):
            raise ValueError(f"the payload of {self.type} is its tag, {dtype_tag(self.type):#x}")

    @staticmethod
    def u32(value: Any) -> SpecValue:
        """Raises TypeError for what is no integer, ValueError for one out of range."""
        return SpecValue("u32", _integer(value, DataType.U32))

    @staticmethod
    def i32(value: Any) -> SpecValue:
        """Raises TypeError for what is no integer, ValueError for one out of range."""
        return SpecValue("i32", arith.to_bits(_integer(value, DataType.I32), DataType.I32))

    @staticmethod
    def f32(value: Any) -> SpecValue:
        """`value` rounded to the nearest f32; a NaN keeps its sign and the top of its payload.

        A NumPy float32 keeps all its bits; `f32_bits` takes the bits themselves.  Raises TypeError
        for what is no number, ValueError for a finite one beyond the range of f32.
        """
        return SpecValue("f32", _f32_bits(value))

    @staticmethod
    def f32_bits(bits: int) -> SpecValue:
        """The f32 of a bit pattern."""
        return SpecValue("f32", _integer(bits, DataType.U32))

    @staticmethod
    def bool(value: Any) -> SpecValue:
        """Raises TypeError for what is neither True nor False: 0 and 1 are integers."""
        if not _is_bool(value):
            raise TypeError(f"a bool is True or False, not {value!r}")
        return SpecValue("bool", int(value))

    @staticmethod
    def dtype(value: DataType) -> SpecValue:
        """Raises TypeError for what is no DataType, ValueError for one that has no tag."""
        return SpecValue("dtype", dtype_tag(value), value)

    @property
    def value(self) -> Any:
        """The value as an int, a float, a bool or a DataType."""
        if self.kind == "dtype":
            return self.type
        if self.kind == "bool":
            return self.bits == 1
        if self.kind == "f32":
            return arith.decode_float(self.bits, DataType.F32)
        return arith.wrap(self.bits, DataType.I32) if self.kind == "i32" else self.bits

    def cache_hash(self) -> int:
        """Tag and payload in 64 bits, laid out as at the top of this file.

        Types that differ only in their parameters have the same hash; `SpecMap.digest` does not
        confuse them.
        """
        return TAGS[self.kind] | self.bits << 8

    def as_pipeline_f64(self) -> float:
        """The value as a float, exactly; of a dtype, its tag."""
        return float(self.bits if self.kind == "dtype" else self.value)

    def __repr__(self) -> str:
        if self.kind == "f32" and math.isnan(self.value):
            return f"SpecValue.f32_bits({self.bits:#x})"
        return f"SpecValue.{self.kind}({self.value!r})"


def _is_bool(value: Any) -> bool:
    """Whether `value` is a bool of Python or of NumPy (which is not imported to find out)."""
    kind = type(value)
    return kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"))


def _integer(value: Any, dtype: DataType) -> int:
    if _is_bool(value):
        raise TypeError(f"{with_article(dtype)} is an integer, not the bool {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{with_article(dtype)} is an integer, not {value!r}") from None
    low, high = arith.int_range(dtype)
    if not low <= number <= high:
        raise ValueError(f"{number} does not fit in {dtype} ({low} to {high})")
    return number


def _f32_bits(value: Any) -> int:
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ == "float32":
        return int.from_bytes(struct.pack("<I", value.view("uint32")), "little")
    if _is_bool(value) or isinstance(value, str):
        raise TypeError(f"an f32 is a number, not {value!r}")
    try:
        number = float(value)
    except TypeError:
        raise TypeError(f"an f32 is a number, not {value!r}") from None
    except OverflowError:
        raise ValueError(f"an integer of {value.bit_length()} bits is beyond the range of f32") from None
    if math.isnan(number):
        return _narrowed_nan(number)
    if isinstance(value, int) and abs(value) < 1 << 128:
        # From the integer itself: `number` may be rounded, and rounding it again could be off by one.
        # I64 stands for any integer here; from 2^128 on the other branch gives inf, which is reported.
        bits = arith.convert(value, DataType.I64, DataType.F32)
    else:
        bits = arith.encode_float(number, DataType.F32)
    if bits & 0x7FFFFFFF == 0x7F800000 and not math.isinf(number):
        raise ValueError(f"{value!r} is beyond the range of f32")
    return bits


def _narrowed_nan(number: float) -> int:
    """The bits of an f64 NaN as f32: its sign and the top of its payload, made quiet if that is zero."""
    bits = int.from_bytes(struct.pack("<d", number), "little")
    payload = bits >> 29 & 0x7FFFFF
    return bits >> 63 << 31 | 0x7F800000 | (payload or 0x400000)
