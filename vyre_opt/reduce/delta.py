"""Delta debugging: drop many parts at once, then fewer, as long as the rest is interesting.

A. Zeller, R. Hildebrandt: Simplifying and Isolating Failure-Inducing Input, IEEE Transactions on Software
Engineering 28 (2002), with the parts taken from the last to the first, since what uses a value stands after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, Self, TypeVar

from ..records import dataclass
from .oracle import Oracle

__all__ = ["minimise"]


class Variant(Protocol):
    """A text with parts that can be dropped, numbered from 0."""

    @property
    def text(self) -> str: ...

    def count(self) -> int: ...

    def without(self, start: int, stop: int) -> Self | None:
        """Text without a range of parts; None if there is no such text."""


V = TypeVar("V", bound=Variant)


@dataclass(frozen=True, slots=True)
class _Smaller(Generic[V]):
    """A variant without some parts; `start`: number of the first dropped part."""

    start: int
    variant: V

    @property
    def text(self) -> str:
        return self.variant.text


def minimise(variant: V, oracle: Oracle) -> V:
    """A variant from which no single part can be dropped.  Raises OutOfTests."""
    size = count = variant.count()
    while size:
        stop = count
        while (smaller := oracle.first(_without_ranges(variant, stop, size))) is not None:
            variant = smaller.variant
            count = variant.count()
            stop = min(smaller.start, count)
        size = min(size // 2, count)
    return variant


def _without_ranges(variant: V, stop: int, size: int) -> Iterator[_Smaller[V]]:
    """The variant without each range of `size` parts, from that which ends at `stop` on to the first."""
    while stop > 0:
        start = max(0, stop - size)
        smaller = variant.without(start, stop)
        if smaller is not None:
            yield _Smaller(start, smaller)
        stop = start
