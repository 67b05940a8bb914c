"""`--spec NAME=VALUE`: the value of a specialization constant from the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..ir.diagnostics import suggest
from ..ir.literals import Literal, LiteralError, encode
from ..ir.program import Program
from .conduct import ToolError

__all__ = ["read_assignment", "set_specs"]

_KINDS = (
    ("bool", re.compile(r"true|false")),
    ("int", re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")),
    ("float", re.compile(r"[+-]?(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|inf|nan)")),
)


def read_assignment(text: str) -> tuple[str, str]:
    """`@name=value` as its two sides, without the @.  Raises ValueError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip("@ ") or not value.strip():
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name.strip().removeprefix("@"), value.strip()


def set_specs(programs: Iterable[Program], given: Sequence[tuple[str, str]]) -> None:
    """Make each given value the default of the constants of its name.  Raises ToolError."""
    owners = list(programs)
    for name, text in given:
        specs = [program.specs[name] for program in owners if name in program.specs]
        if not specs:
            known = sorted({spec for program in owners for spec in program.specs})
            listed = f"; there are {', '.join('@' + s for s in known)}" if known else "; there are none"
            raise ToolError(f"no program has a spec @{name}{listed}{_hint(name, known)}")
        for spec in specs:
            try:
                spec.default = encode(_literal(text), spec.dtype)
            except LiteralError as wrong:
                raise ToolError(f"spec @{name} is {spec.dtype}: {wrong}") from None


def _hint(name: str, known: list[str]) -> str:
    hint = suggest(name, known, "@")
    return f"; {hint}" if hint else ""


def _literal(text: str) -> Literal:
    for kind, form in _KINDS:
        if form.fullmatch(text):
            return kind, text
    raise LiteralError(f"{text!r} is not a literal; write 7, 0x1f, 1.5, inf, nan, true or false")
