"""Values that names of a source stand for at an op, for debuggers.

An op of a kernel in Python that was translated for a debugger has a `ScopedLocation`.  Copies of programs keep locations, so
a scope refers to values by their names, which are then unique in a program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..records import dataclass
from .diagnostics import Location

__all__ = ["BufferName", "LocalName", "Scope", "ScopedLocation", "ValueName"]


@dataclass(frozen=True, slots=True)
class ValueName:
    """The value of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class BufferName:
    """The buffer of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class LocalName:
    """An array of an invocation's own: what its elements are bound to, row by row."""

    parts: tuple[Any, ...]
    shape: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Scope:
    """`calls`: the functions that are being run, from the outermost in.  `names`: of its local names, each a ValueName, a
    BufferName, a LocalName, a constant of Python, or a tuple of these, perhaps a `NamedTuple`."""

    calls: tuple[str, ...]
    names: Mapping[str, Any]


class ScopedLocation(Location):
    """A location, and the scope there."""

    __slots__ = ("scope",)

    def __init__(self, loc: Location, scope: Scope) -> None:
        super().__init__(loc.source, loc.start, loc.end)
        self.scope = scope
