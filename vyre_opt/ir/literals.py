"""Constants and strings as text: reading literals for a type, and printing encoded constants.

A constant is kept encoded (see arith): an int, or a tuple of them for a vector
whose lanes differ.
"""

from __future__ import annotations

import math
import re
from typing import Any

from . import arith
from .types import UNKNOWN, DataType, with_article

MAX_DIGITS = 400

Literal = tuple[str, str]
"""(kind, text) as the grammar gives it; kind is int, float or bool."""


_KINDS = (
    ("bool", r"true|false"),
    ("int", r"-?(?:0[xX][0-9a-fA-F]+|\d+)"),
    ("float", r"[+-]?(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|inf|nan)"),
)


class Written(int):
    """A constant of a type parameter: encoded for the parameter's bound, with the literal itself.

    Two are equal if their literals are: 0.1 and 0.10000000001 are the same f32, but not the same
    f64, which the parameter may become.
    """

    literal: Literal

    def __new__(cls, encoded: int, literal: Literal) -> Written:
        value = super().__new__(cls, encoded)
        value.literal = literal
        return value

    def __eq__(self, other: object) -> bool:
        return self.literal == other.literal if isinstance(other, Written) else int(self) == other

    def __hash__(self) -> int:
        return int.__hash__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Written, (int(self), self.literal))


class LiteralError(ValueError):
    """A literal that its type cannot hold."""


def read_literal(text: str) -> Literal:
    """The literal in a text outside of a program, such as an option.  Raises LiteralError."""
    for kind, pattern in _KINDS:
        if re.fullmatch(pattern, text):
            return kind, text
    shown = _shorten(repr(text))
    raise LiteralError(f"{shown} is not a literal; write 7, 0x1f, 1.5, inf, nan, true or false")


def read_int(text: str) -> int:
    """The value of an integer literal.  Raises LiteralError if it has over MAX_DIGITS digits."""
    if len(text) > MAX_DIGITS:
        raise LiteralError(f"this integer has {len(text)} digits; no type holds it")
    return int(text, 0) if "x" in text or "X" in text else int(text)


def encode(literal: Literal, dtype: DataType) -> int:
    """The encoded constant of a literal of a scalar type; a `Written` for a type parameter.

    Raises LiteralError.
    """
    if dtype.is_open:
        return Written(encode(literal, dtype.bound), literal)
    kind, text = literal
    if dtype is UNKNOWN:  # reported where it was written
        return 0
    if dtype.kind not in ("bool", "int", "uint", "float"):
        raise LiteralError(f"no constant of {dtype} exists")
    if dtype.kind == "bool":
        if kind == "bool":
            return int(text == "true")
        raise LiteralError(f"a bool is true or false, not {_shorten(text)}")
    if kind == "bool":
        raise LiteralError(f"{text} is a bool, not {with_article(dtype)}")
    is_hex = "x" in text or "X" in text
    if dtype.kind == "float":
        if kind == "float":
            return _finite(arith.encode_float(float(text), dtype), "inf" in text, text, dtype)
        number = read_int(text)
        if not is_hex:  # I64 stands for any integer here: `convert` rounds one of any size, and once
            return _finite(arith.convert(number, DataType.I64, dtype), False, text, dtype)
        if not 0 <= number < 1 << (dtype.bits or 0):
            raise LiteralError(f"{_shorten(text)} is not a bit pattern of {dtype}")
        return number
    if kind == "float":
        raise LiteralError(f"{_shorten(text)} is a float, not {with_article(dtype)}")
    number = read_int(text)
    low, high = arith.int_range(dtype)
    if is_hex and dtype.is_signed and number > high:
        high = (1 << (dtype.bits or 0)) - 1  # a bit pattern
    if not low <= number <= high:
        raise LiteralError(f"{_shorten(text)} does not fit in {dtype} ({low} to {high})")
    return arith.wrap(number, dtype)


def _finite(bits: int, is_inf: bool, text: str, dtype: DataType) -> int:
    """The bits of a literal, which are infinity only if it says so.  Raises LiteralError."""
    if not is_inf and math.isinf(arith.decode_float(bits, dtype)):
        raise LiteralError(f"{_shorten(text)} does not fit in {dtype}, and would be inf")
    return bits


def encode_constant(written: Literal | list[Literal], dtype: DataType) -> Any:
    """The value of a `const`: a literal stands for all lanes, a list has one for each.  Raises LiteralError."""
    element = dtype.element
    if not element.has_arithmetic:
        raise LiteralError(f"no constant of {dtype} exists")
    if not isinstance(written, list):
        return encode(written, element)
    if dtype.is_matrix:
        raise LiteralError(f"a constant of {dtype} is one value for all elements")
    if len(written) != dtype.lanes:
        raise LiteralError(f"{dtype} has {dtype.lanes} lanes, {len(written)} given")
    lanes = tuple(encode(lane, element) for lane in written)
    return lanes[0] if len(set(lanes)) == 1 else lanes


def show(value: Any, dtype: DataType) -> str:
    """The text of an encoded constant; `encode` reads it back bit for bit."""
    if isinstance(value, DataType):  # a type parameter
        return value.name
    if isinstance(value, tuple):
        return f"[{', '.join(_show_scalar(lane, dtype.element) for lane in value)}]"
    return _show_scalar(value, dtype.element)


def _show_scalar(value: int, dtype: DataType) -> str:
    if dtype.is_open:
        return value.literal[1] if isinstance(value, Written) else _show_scalar(value, dtype.bound)
    if dtype.kind == "bool":
        return "true" if value else "false"
    if dtype.kind != "float":
        return str(value)
    number = arith.decode_float(value, dtype)
    if math.isnan(number):
        return "nan" if value == arith.CANONICAL_NAN[dtype.name] else f"0x{value:x}"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    for digits in range(1, 18):  # the fewest that read back as the same bits
        short = float(f"{number:.{digits}g}")
        if arith.encode_float(short, dtype) == value:
            break
    return repr(short)


# --- strings ------------------------------------------------------------------------------

_ESCAPES = {"n": "\n", "t": "\t"}  # any other escaped character is itself


def quote(text: str) -> str:
    """`text` as a string token."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def unquote(token: str) -> str:
    """The contents of a string token."""
    return re.sub(r"(?s)\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), token[1:-1])


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def show_number(value: Any) -> str:
    """A number for a message; of a very large one, its size."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    return repr(value)
