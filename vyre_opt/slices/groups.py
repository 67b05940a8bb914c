"""Groups of neighbours: the elements that an invocation has at a time.

base + first        base + first + 1   ...      `first` is a multiple of GROUP: the invocation's place in a round
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..ir.builder import Builder
from ..ir.program import Value
from .nodes import Extent
from .schedule import GROUP

__all__ = ["Group"]


class Group:
    """`positions`: of its elements in the slice.  `is_whole`: all of them are surely there.

    `base`: where the round begins, from which on `offset` counts; None for a slice of fixed extent, which counts from 0.
    """

    def __init__(self, b: Builder, extent: Extent, offset: Value, base: Value | None, is_whole: bool) -> None:
        self.b, self.extent, self.is_whole = b, extent, is_whole
        self.offsets = [b.add(offset, k) if k else offset for k in range(GROUP)]
        self.positions = [b.add(base, each) for each in self.offsets] if base is not None else self.offsets
        self.inside: list[Value] = []
        """Whether each element is there: a position that has wrapped around is beyond what is left."""
        if not is_whole:
            left = None if base is None else b.sub(extent.value, base)
            for at, position in zip(self.offsets, self.positions, strict=True):
                below = b.lt(position, extent.value)
                self.inside.append(below if left is None else b.and_(b.lt(at, left), below))

    def guarded(self, make: Callable[[int], Value | None], others: Callable[[], Value] | None) -> list[Value]:
        """`make(k)` for each element that is there, `others()` in the place of those that are not.

        Without `others`, `make` gives no values.
        """
        b = self.b
        if self.is_whole:
            return _values(make(k) for k in range(GROUP))
        with b.if_(self.inside[-1]) as branch:
            made = _values(make(k) for k in range(GROUP))
            if others is not None:
                branch.yield_(*made)
        with branch.else_():
            some: list[Value] = []
            for k in range(GROUP - 1):
                some += self.where(self.inside[k], lambda k=k: make(k), others)  # type: ignore[misc]
            if others is not None:
                branch.yield_(*some, others())
        return list(branch.results) if others is not None else []

    def where(
        self, condition: Value, make: Callable[[], Value | None], others: Callable[[], Value] | None
    ) -> list[Value]:
        """`make()` if a condition holds, else `others()`."""
        with self.b.if_(condition) as branch:
            made = _values([make()])
            if others is not None:
                branch.yield_(*made)
        if others is None:
            return []
        with branch.else_():
            branch.yield_(others())
        return list(branch.results)


def _values(made: Iterable[Value | None]) -> list[Value]:
    return [value for value in made if value is not None]
