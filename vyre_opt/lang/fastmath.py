"""`fastmath=` of a program and of a call: which flags the ops on floats get."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ir.ops import FASTMATH, OpDef
from ..ir.program import NO_ATTRS, Block
from ..ir.tracebacks import CallValueError

__all__ = ["flags_of_program", "give_flags", "words_of"]

_ARITHMETIC = ("unary", "binary", "ternary", "atomic")


def words_of(flags: Any) -> list[Any]:
    """The words of a text such as "afn, contract", or of a sequence or set of them; anything else is a wrong word itself."""
    if isinstance(flags, str):
        return flags.replace(",", " ").split()
    return list(flags) if isinstance(flags, Iterable) else [flags]


def flags_of_program(flags: Any) -> tuple[str, ...]:
    """The flags of a program, in the order of the language.  Raises ValueError."""
    words = words_of(flags)
    for word in words:
        if word not in FASTMATH:
            raise CallValueError(f"fastmath takes {', '.join(FASTMATH)}, not {word!r}")
    return tuple(flag for flag in FASTMATH if flag in words)


def give_flags(body: Block, flags: tuple[str, ...]) -> None:
    """Give the flags of the program to its arithmetic on floats, each op those that it takes, but where a call has its own."""
    for op in body.walk():
        own = op.attrs.get("fastmath")
        if own is None and flags and op.results and op.result.type.element.is_float:
            own = _taken(op.definition, flags)
        if own:
            op.attrs = {**op.attrs, "fastmath": own}
        elif own is not None:
            op.attrs = {name: value for name, value in op.attrs.items() if name != "fastmath"} or NO_ATTRS


def _taken(row: OpDef, flags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(flag for flag in flags if flag in row.fastmath) if row.format in _ARITHMETIC else ()
