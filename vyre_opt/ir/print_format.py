"""Formats of `debug_print`: texts with a directive for each operand, as C's `printf` has them.

    %u      an unsigned integer      %f %e %g   a float      %b   a bool: true or false
    %d %i   an integer               %x %X      the bits of an integer, in hexadecimal
    %v      a value of any type, as constants are written    %%   a percent sign

Flags, a width and a precision may stand behind the percent sign: `%-8u`, `%08x`, `%.3f`.  A vector prints its lanes
in brackets, each by the directive: `[1, 2, 3]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import isnan

from ..records import dataclass
from . import arith
from .literals import show
from .types import DataType

__all__ = [
    "MAX_OPERANDS",
    "Directive",
    "FormatError",
    "Lane",
    "format_line",
    "parse_format",
    "why_not",
    "wrong_count",
]

MAX_OPERANDS = 32

Lane = bool | int | float

_DIRECTIVE = re.compile(
    r"%(?P<flags>[-+ 0#]*)(?P<width>\d*)(?P<precision>\.\d*)?(?P<size>hh|h|ll|l|z|j|t|L)?(?P<letter>.?)",
    re.DOTALL,
)
MAX_DIGITS = 2
"""Largest width and precision, so that no line gets long by its format."""

_KINDS = {
    "u": "an unsigned integer",
    "d": "an integer",
    "i": "an integer",
    "x": "an integer",
    "X": "an integer",
    "f": "a float",
    "e": "a float",
    "g": "a float",
    "b": "a bool",
    "v": "anything",
}


class FormatError(ValueError):
    """A text that is no format.  `directive`: the part to blame; `help`: what to write."""

    def __init__(self, message: str, directive: str, help: str) -> None:
        super().__init__(message)
        self.directive = directive
        self.help = help


@dataclass(frozen=True, slots=True)
class Directive:
    """The place of an operand in a format.  `text`: as written; `layout`: flags, width and precision."""

    text: str
    layout: str
    letter: str

    def takes(self, dtype: DataType) -> bool:
        """Whether it prints values of a type, or vectors of them."""
        element = dtype.element.bound
        if self.letter == "u":
            return element.kind == "uint"
        if self.letter in "dixX":
            return element.is_int
        if self.letter in "feg":
            return element.is_float
        return self.letter == "v" or element.is_bool

    def format(self, value: Lane, dtype: DataType) -> str:
        """A scalar as text."""
        letter: str = self.letter
        shown: Lane | str = value
        if letter == "v":
            shown, letter = _as_constant(value, dtype), "s"
        elif letter == "b":
            shown, letter = ("true" if value else "false"), "s"
        elif letter in "xX":
            shown = arith.to_bits(int(value), dtype)
        elif letter == "u":
            letter = "d"
        return f"%{self.layout}{letter}" % shown


def _as_constant(value: Lane, dtype: DataType) -> str:
    """A value as a constant is written; which NaN it is differs between targets, and is left out."""
    if not dtype.is_float:
        return show(int(value), dtype)
    return "nan" if isnan(value) else show(arith.encode_float(value, dtype), dtype)


@lru_cache(maxsize=256)
def parse_format(text: str) -> tuple[str | Directive, ...]:
    """The parts of a format: what is printed as it is, and directives.  Raises FormatError."""
    parts: list[str | Directive] = []
    at = 0
    for match in _DIRECTIVE.finditer(text):
        parts.append(text[at : match.start()])
        at = match.end()
        parts.append("%" if match[0] == "%%" else _directive(match))
    # each print is a line: the break at the end that C needs would be a second one
    rest = text[at:].removesuffix("\n")
    return tuple(part for part in (*parts, rest) if part)


def _directive(match: re.Match[str]) -> Directive:
    text, letter = match[0], match["letter"]
    if letter not in _KINDS:
        shown = text if letter.isalpha() else "%"
        known = ", ".join(f"%{known}" for known in _KINDS if known not in "iX")
        what = f"there is no directive {shown}" if letter.isalpha() else "a directive has no letter"
        raise FormatError(what, text, f"write one of {known}, or %% for a percent sign")
    if match["size"]:
        short = text.replace(match["size"] + letter, letter)
        raise FormatError(f"{text}: sizes of operands are those of their types", text, f"write {short}")
    precision = match["precision"] or ""
    if len(match["width"]) > MAX_DIGITS or len(precision) > MAX_DIGITS + 1:
        message = f"{text}: a width or a precision has at most {MAX_DIGITS} digits"
        raise FormatError(message, text, f"write %{letter}")
    if letter in "vb" and (match["flags"].strip("-") or precision):
        help = f"write %{'-' * ('-' in match['flags'])}{match['width']}{letter}, or the directive of the type"
        raise FormatError(f"{text}: %{letter} has a width and the flag - only", text, help)
    return Directive(text, f"{match['flags']}{match['width']}{precision}", letter)


def why_not(directive: Directive, dtype: DataType) -> tuple[str, str] | None:
    """Mistake in a directive for values of a type, and its correction; None if it fits."""
    if not dtype.has_arithmetic and not dtype.is_open:
        return f"no value of {dtype} can be printed", "leave it out"
    if directive.takes(dtype):
        return None
    element = dtype.element.bound
    letter = "f" if element.is_float else "b" if element.is_bool else "u" if element.kind == "uint" else "d"
    return f"{directive.text} prints {_KINDS[directive.letter]}", f"write %{letter}, or %v for any type"


def wrong_count(directives: int, operands: int) -> str:
    """Mistake in a format whose number of directives is not that of the operands."""
    counts = ((directives, "directive"), (operands, "operand"))
    return "the format has {} for {}".format(
        *(f"{count} {what}{'s' * (count != 1)}" for count, what in counts)
    )


def format_line(format: str, types: Sequence[DataType], values: Sequence[Lane | Sequence[Lane]]) -> str:
    """The text of a verified print: of a vector, the value is a sequence of lanes."""
    pairs = iter(zip(types, values, strict=True))
    return "".join(
        part if isinstance(part, str) else _operand(part, *next(pairs)) for part in parse_format(format)
    )


def _operand(directive: Directive, dtype: DataType, value: Lane | Sequence[Lane]) -> str:
    if isinstance(value, Sequence):
        return f"[{', '.join(directive.format(lane, dtype.element) for lane in value)}]"
    return directive.format(value, dtype)
