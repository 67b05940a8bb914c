"""What a name or an expression of a kernel stands for while it is translated.

Static        a Python object, known when the kernel is translated: a literal, a constant of a closure, a type
Value         a value of the IR, whose type may still be open (see inference.py)
tuple         of any of these
BufferView    an array argument or shared memory, perhaps as vectors
Unbound       a name without a value here, and why
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..ir.diagnostics import Location
from ..ir.program import Buffer, Value
from .constants import constant_of

__all__ = [
    "BREAK",
    "CONTINUE",
    "RESULT",
    "RETURN",
    "Binding",
    "BufferView",
    "Static",
    "Unbound",
    "leaves",
    "parts_of",
    "rebuild",
]


BREAK, CONTINUE, RETURN = "(break)", "(continue)", "(return)"
"""Names of the flags that say that a loop, a round or a function was left, which no name of Python can be."""

RESULT = "(result)"
"""The name of what a function returns."""


@dataclass(frozen=True, slots=True)
class Static:
    """A Python object; `loc`: where it was written, for a literal."""

    value: Any
    loc: Location | None = field(default=None, compare=False)

    @property
    def is_number(self) -> bool:
        return isinstance(self.value, (int, float)) and not isinstance(self.value, bool)


@dataclass(frozen=True, slots=True)
class BufferView:
    """A buffer, of whose elements `lanes` neighbours are one.  `fill`: what blocks have beyond its edges; None where nothing may be."""

    buffer: Buffer
    lanes: int = 1
    fill: Static | Value | None = None


@dataclass(frozen=True, slots=True)
class Unbound:
    """No value.  `reason`: why, for a message; `loc`: the place that it speaks of."""

    reason: str
    loc: Location | None = None


Binding = Static | Value | BufferView | Unbound | tuple[Any, ...]


def leaves(binding: Binding) -> list[Any]:
    """The parts of a tuple, of its tuples too; anything else is a part itself."""
    parts = parts_of(binding)
    return [binding] if parts is None else [leaf for part in parts for leaf in leaves(part)]


def rebuild(like: Binding, parts: list[Any]) -> Any:
    """A binding of the shape of `like` with other leaves, which are taken from `parts`."""
    shape = parts_of(like)
    return parts.pop(0) if shape is None else tuple(rebuild(part, parts) for part in shape)


def parts_of(binding: Binding) -> tuple[Any, ...] | None:
    """What a tuple consists of, one of constants too; None for what is none."""
    if isinstance(binding, Static) and isinstance(binding.value, tuple):
        return tuple(Static(constant_of(part)) for part in binding.value)
    return binding if isinstance(binding, tuple) else None
