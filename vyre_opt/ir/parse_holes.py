"""Parts of a module that syntax and name errors left out, so that the verifier reports nothing that only follows from them.

The verifier looks at all that could be built, so that one run reports every mistake.  It must not
conclude that a buffer is undeclared if the declaration may be in a line that could not be read, nor
report an op again whose attributes the parser has refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from .pipeline import Pipeline, Stage
from .program import Block, Buffer, Func, Op, Param, Program, Spec

__all__ = ["NO_HOLES", "ParseHoles"]

Part = Program | Func | Pipeline | Block | Buffer | Spec | Param | Op | Stage
Item = Program | Func | Pipeline


class ParseHoles:
    """The invalid parts of a module, and the names that unread text may define.

    `has_lost_items`: programs, functions or pipelines of unknown names may be missing.
    """

    def __init__(self) -> None:
        self.has_lost_items = False
        self._unbalanced: set[int] = set()
        self._invalid: dict[int, Part] = {}  # id() -> part; holding the part keeps its id from being reused
        self._lost_names: set[tuple[int, str]] = set()  # (id() of the item or 0, name)

    def mark_invalid(self, part: Part) -> None:
        """An error about `part` has been reported: report nothing more but wrong names inside it.

        For a program, function or pipeline this is about its declarations; for a block, about how it ends.
        """
        self._invalid[id(part)] = part

    def is_invalid(self, part: Part) -> bool:
        return id(part) in self._invalid

    def mark_unbalanced(self, item: Program | Func) -> None:
        """A brace is missing or too many, so ops of `item` may be in another block than was meant."""
        self._unbalanced.add(id(item))
        self.mark_invalid(item.body)
        for op in item.walk():
            for block in op.regions:
                self.mark_invalid(block)

    def is_unbalanced(self, item: Program | Func) -> bool:
        return id(item) in self._unbalanced

    def add_lost_names(self, owner: Item | None, names: Iterable[str]) -> None:
        """Unread text mentions `names`; it is a part of `owner`, or (None) outside of all items."""
        key = 0 if owner is None else id(owner)
        self._lost_names.update((key, name) for name in names)

    def include(self, other: ParseHoles) -> None:
        """Add the holes of items that were parsed alone."""
        self.has_lost_items |= other.has_lost_items
        self._invalid |= other._invalid
        self._unbalanced |= other._unbalanced
        self._lost_names |= other._lost_names

    def may_define(self, owner: Item | None, name: str) -> bool:
        """Whether unread text of `owner`, or (None) outside of all items, may define `@name`."""
        if owner is None and self.has_lost_items:
            return True
        return (0 if owner is None else id(owner), name) in self._lost_names


NO_HOLES = ParseHoles()
"""The holes of a module without any.  Never written to; the verifier compares with `is`."""
