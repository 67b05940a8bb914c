"""Bindings: the meanings of names and expressions of a kernel while it is translated.

Static        a Python object, known when the kernel is translated: a literal, a constant of a closure, a type
Value         a value of the IR, whose type may still be open (see inference.py)
tuple         of any of these; of a class with names, one of it (see named_tuples.py)
BufferView    an array argument or shared memory, perhaps as vectors
Unbound       a name without a value here, and why
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any, Self

from ..ir.diagnostics import Location
from ..ir.program import Buffer, Value
from ..ir.types import DataType, with_article
from ..records import dataclass
from .constants import constant_of
from .inference import AnyType

__all__ = [
    "BREAK",
    "CONTINUE",
    "RESULT",
    "RETURN",
    "Binding",
    "BufferView",
    "LocalArray",
    "Static",
    "Unbound",
    "classes_of",
    "leaves",
    "named_class",
    "parts_of",
    "rebuild",
    "shown_tuple",
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


class LocalArray(tuple[Any, ...]):
    """The elements of an array of an invocation's own, row by row, as values (see local_arrays.py).  `stored_at`: the index of all stores to
    it; None before the first, and ... where there is no one index."""

    dtype: DataType
    shape: tuple[int, ...]
    stored_at: Any

    def __new__(
        cls, parts: Iterable[Any], dtype: DataType, shape: tuple[int, ...], stored_at: Any = ...
    ) -> Self:
        array = super().__new__(cls, parts)
        array.dtype, array.shape, array.stored_at = dtype, shape, stored_at
        return array

    def _make(self, parts: Iterable[Any]) -> Self:
        """One of the same type and shape, as a `NamedTuple` makes it."""
        return type(self)(parts, self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Unbound:
    """No value.  `reason`: why, for a message; `loc`: the place that it speaks of; `help`: what to write; `types`: those of values
    that have none in common."""

    reason: str
    loc: Location | None = None
    help: str | None = None
    types: tuple[AnyType, ...] = ()


Binding = Static | Value | BufferView | Unbound | tuple[Any, ...]


def leaves(binding: Binding) -> list[Any]:
    """The parts of a tuple, of its tuples too; anything else is a part itself."""
    parts = parts_of(binding)
    return [binding] if parts is None else [leaf for part in parts for leaf in leaves(part)]


def rebuild(like: Binding, parts: list[Any]) -> Any:
    """A binding of the shape of `like` with other leaves, which are taken from `parts`."""
    shape = parts_of(like)
    return parts.pop(0) if shape is None else _like(shape, [rebuild(part, parts) for part in shape])


def parts_of(binding: Binding) -> tuple[Any, ...] | None:
    """Parts of a tuple, of one of constants too; None for another object."""
    if isinstance(binding, Static) and isinstance(binding.value, tuple):
        return _like(binding.value, [Static(constant_of(part)) for part in binding.value])
    return binding if isinstance(binding, tuple) else None


def _like(original: tuple[Any, ...], parts: list[Any]) -> tuple[Any, ...]:
    """Parts as a tuple of the class of another one."""
    make = getattr(original, "_make", tuple)
    return make(parts)


def named_class(binding: Binding) -> type | None:
    """The class of a tuple with names, of constants too; None for anything else."""
    value = binding.value if isinstance(binding, Static) else binding
    return type(value) if isinstance(value, tuple) and hasattr(value, "_fields") else None


def classes_of(binding: Binding) -> list[Any]:
    """The classes of a tuple and of the tuples in it, of a local array its shape: two of one form have them alike."""
    if isinstance(binding, LocalArray):
        return [binding.shape]
    parts = parts_of(binding)
    inner = [] if parts is None else [cls for part in parts for cls in classes_of(part)]
    return [named_class(binding), *inner]


def shown_tuple(binding: Binding) -> str:
    """Name of an object in a message: `a tuple`, `a Particle`."""
    cls = named_class(binding)
    if isinstance(binding, LocalArray):
        return f"a local array of {' x '.join(map(str, binding.shape))}"
    if cls is None:
        return "one value" if parts_of(binding) is None else "a tuple"
    return with_article(cls.__name__)
