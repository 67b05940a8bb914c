"""Exact arithmetic of the element types on NumPy arrays, from docs/reference/language.md alone: it is the oracle of the campaign.

Integers wrap, floats round once to nearest even.  bf16 is held as its 16 bits in uint16; f16 and bf16 are computed in
f32 and rounded once more, which gives the same as one rounding for sums, differences and products.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BITS",
    "TYPES",
    "Array",
    "Type",
    "bits_of",
    "cast",
    "compute",
    "constant",
    "literal",
    "random_values",
]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Type:
    """An element type.  `feature`: the name of the feature that a program with it has, empty for the plain ones."""

    name: str
    dtype: Any
    feature: str = ""

    @property
    def is_float(self) -> bool:
        return "f" in self.name

    @property
    def is_integer(self) -> bool:
        return self.name[0] in "ui"

    @property
    def bytes(self) -> int:
        return int(np.dtype(self.dtype).itemsize)

    def __str__(self) -> str:
        return self.name


TYPES = {
    t.name: t
    for t in (
        Type("u32", np.uint32),
        Type("i32", np.int32),
        Type("f32", np.float32),
        Type("u8", np.uint8, "narrow type"),
        Type("i8", np.int8, "narrow type"),
        Type("u16", np.uint16, "narrow type"),
        Type("i16", np.int16, "narrow type"),
        Type("u64", np.uint64, "64 bits"),
        Type("i64", np.int64, "64 bits"),
        Type("f16", np.float16, "f16"),
        Type("bf16", np.uint16, "bf16"),
        Type("f64", np.float64, "f64"),
        Type("bool", np.bool_, "bool"),
    )
}

BITS = {
    "integer": "add sub mul xor and or min max shl shr abs_diff add_sat".split(),
    "float": ["add", "sub", "mul"],
    "bool": ["xor", "and", "or"],
}
"""Ops of two operands by kind of type."""


def _widen(bits: Array) -> Array:
    return np.ascontiguousarray(bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _narrow(values: Array) -> Array:
    """The bf16 nearest to each f32, of two the even one."""
    word = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((word + 0x7FFF + ((word >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def _saturating(t: Type, a: Array, b: Array) -> Array:
    limits = np.iinfo(t.dtype)
    total = a.astype(object) + b.astype(object)
    return np.clip(total, int(limits.min), int(limits.max)).astype(t.dtype) if total.size else a.copy()


_INTEGER: dict[str, Callable[[Type, Array, Array], Array]] = {
    "add": lambda t, a, b: a + b,
    "sub": lambda t, a, b: a - b,
    "mul": lambda t, a, b: a * b,
    "xor": lambda t, a, b: a ^ b,
    "and": lambda t, a, b: a & b,
    "or": lambda t, a, b: a | b,
    "min": lambda t, a, b: np.minimum(a, b),
    "max": lambda t, a, b: np.maximum(a, b),
    "shl": lambda t, a, b: a << (b & t.dtype(8 * t.bytes - 1)),
    "shr": lambda t, a, b: a >> (b & t.dtype(8 * t.bytes - 1)),
    "abs_diff": lambda t, a, b: np.where(a > b, a - b, b - a),
    "add_sat": _saturating,
    "div": lambda t, a, b: np.where(b == 0, a, a // np.where(b == 0, 1, b).astype(t.dtype)),
    "rem": lambda t, a, b: np.where(b == 0, 0, a % np.where(b == 0, 1, b).astype(t.dtype)),
}
"""`div` and `rem` are of unsigned numbers."""


def compute(op: str, t: Type, a: Any, b: Any) -> Array:
    """`op %a, %b : t` of each element."""
    x, y = np.broadcast_arrays(np.asarray(a, t.dtype), np.asarray(b, t.dtype))
    with np.errstate(all="ignore"):
        if t.name == "bf16":
            return _narrow(compute(op, TYPES["f32"], _widen(x), _widen(y)))
        if t.name == "bool":
            return np.asarray({"xor": x ^ y, "and": x & y, "or": x | y}[op], np.bool_)
        if t.is_float:
            return np.asarray({"add": np.add, "sub": np.subtract, "mul": np.multiply}[op](x, y), t.dtype)
        return np.asarray(_INTEGER[op](t, x, y), t.dtype)


def cast(a: Array, source: Type, target: Type) -> Array:
    """`cast %a : source -> target` of each element; of integers to f16 and bf16, of those below 2^11 only."""
    if source is target:
        return a.copy()
    with np.errstate(all="ignore"):
        values = _widen(a) if source.name == "bf16" else a
        if target.name == "bool":
            return np.asarray(values != 0, np.bool_)
        if target.name == "bf16":
            return _narrow(values.astype(np.float32))
        if target.is_integer and source.is_float:
            limits = np.iinfo(target.dtype)
            exact = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0))
            low, high = float(limits.min), float(limits.max) + (1 if target.bytes < 8 else 0)
            inside = np.where((exact >= low) & (exact < high), exact, 0).astype(target.dtype)
            return np.where(exact < low, limits.min, np.where(exact >= high, limits.max, inside)).astype(
                target.dtype
            )
        return values.astype(target.dtype)


def is_exact_cast(source: Type, target: Type) -> bool:
    """Whether `cast` here rounds at most once for all numbers of the source."""
    if target.name not in ("f16", "bf16"):
        return True
    return source.name in ("bool", "u8", "i8", "f16", "bf16", "f32")


def literal(value: Any, t: Type) -> str:
    """A number of the type as a constant is written."""
    if t.name == "bool":
        return "true" if value else "false"
    if t.name == "bf16":
        return repr(float(_widen(np.asarray([value], np.uint16))[0]))
    return repr(float(value)) if t.is_float else str(int(value))


def constant(t: Type, rng: random.Random) -> Any:
    """A number of the type; of floats a small one that every float type holds."""
    if t.name == "bool":
        return rng.random() < 0.5
    if t.is_float:
        number = np.float32(rng.choice((0.5, 2.0, 1.0, -1.0, 0.25, 3.0, -1.5, rng.randrange(-32, 32) / 8)))
        return _narrow(np.asarray([number]))[0] if t.name == "bf16" else t.dtype(number)
    limits = np.iinfo(t.dtype)
    value = rng.choice(
        (1, 2, 3, 5, 7, rng.randrange(100), int(limits.max), int(limits.min), int(limits.max) // 3)
    )
    return t.dtype(value)


def random_values(t: Type, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Contents of a buffer: integers of any size, floats of moderate ones."""
    if t.name == "bool":
        return np.asarray(rng.integers(0, 2, shape) == 1)
    if t.is_float:
        values = (rng.integers(-256, 256, shape) / 16).astype(np.float32)
        values = np.where(rng.random(shape) < 0.02, np.float32(-0.0), values)
        return _narrow(values) if t.name == "bf16" else values.astype(t.dtype)
    if rng.random() < 0.3:
        return rng.integers(0, 100, shape).astype(t.dtype)
    limits = np.iinfo(t.dtype)
    return rng.integers(int(limits.min), int(limits.max), shape, t.dtype, endpoint=True)


def bits_of(array: Array, t: Type) -> Array:
    """The bits of elements, one pattern for every NaN."""
    if t.name == "bool":
        return array.astype(np.uint8)
    if t.name == "bf16":
        return np.where((array & 0x7FFF) > 0x7F80, np.uint16(0x7FC0), array)
    if t.is_float:
        unsigned = np.ascontiguousarray(array).view(np.dtype(f"u{array.dtype.itemsize}"))
        return np.where(np.isnan(array), np.zeros((), unsigned.dtype), unsigned)
    return array
