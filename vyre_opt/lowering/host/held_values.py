"""Values of the language in the code of a subgroup: LLVM values, or memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, overload

from ...ir.program import Value

__all__ = ["MemoryForValues", "Parts", "PartsInMemory"]

Parts = Sequence[str]
"""The LLVM values of one value of the language, one for each element of a vec<N x T>."""


class PartsInMemory(Sequence[str]):
    """Parts of a value that is kept in memory.

    `load_part(number)` writes a load of one, given by a literal or an LLVM name; so does each use by an index.
    """

    def __init__(self, count: int, load_part: Callable[[str], str]) -> None:
        self.length, self.load_part = count, load_part

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> list[str]: ...

    def __getitem__(self, at: int | slice) -> str | list[str]:
        numbers = range(self.length)[at]
        if isinstance(numbers, int):
            return self.load_part(str(numbers))
        return [self.load_part(str(number)) for number in numbers]


class MemoryForValues(Protocol):
    """Keeps values that are too large, or live for too long, to be left to LLVM."""

    def holds(self, value: Value) -> bool:
        """Whether a value is one of them."""

    def store(self, value: Value, parts: Iterable[str]) -> PartsInMemory:
        """Write stores of its parts."""

    def store_each(self, value: Value, write: Callable[[str], str]) -> PartsInMemory:
        """Write a loop over its parts: `write(number)` writes and names one, whose number is an LLVM name."""
