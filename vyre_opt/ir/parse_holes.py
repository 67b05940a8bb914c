"""What the errors of a text have left out of the module that was built from it.

The verifier looks at what could be built all the same, so that one run reports every mistake.
Here it learns what not to conclude: a buffer that nobody declares may stand in a line that could
not be read, and an op whose attributes are wrong has been reported already.
"""

from __future__ import annotations

from collections.abc import Iterable

from .pipeline import Pipeline, Stage
from .program import Block, Buffer, Func, Op, Program, Spec

__all__ = ["NO_GAPS", "ParseHoles"]

Part = Program | Func | Pipeline | Block | Buffer | Spec | Op | Stage
Item = Program | Func | Pipeline


class ParseHoles:
    """Parts of a module that are in doubt, and names that a lost part of the text may define.

    `any_item`: programs, functions or pipelines of unknown names may be missing.
    """

    def __init__(self) -> None:
        self.any_item = False
        self._unbalanced: set[int] = set()
        self._doubtful: dict[int, Part] = {}  # by identity; the reference keeps it alive
        self._names: set[tuple[int, str]] = set()

    def doubt(self, part: Part) -> None:
        """Say nothing more about `part`, but for the names in it, which may be wrong as well.

        Of an item: its declarations.  Of a block: how it ends.
        """
        self._doubtful[id(part)] = part

    def doubts(self, part: Part) -> bool:
        return id(part) in self._doubtful

    def unbalance(self, item: Program | Func) -> None:
        """A brace is missing or too many: the ops of `item` may not stand in the blocks that are meant."""
        self._unbalanced.add(id(item))
        self.doubt(item.body)
        for op in item.walk():
            for block in op.regions:
                self.doubt(block)

    def is_unbalanced(self, item: Program | Func) -> bool:
        return id(item) in self._unbalanced

    def lose(self, owner: Item | None, names: Iterable[str]) -> None:
        """Text that mentions `names` could not be read: a part of `owner`, or (None) outside of all items."""
        place = 0 if owner is None else id(owner)
        self._names.update((place, name) for name in names)

    def may_define(self, owner: Item | None, name: str) -> bool:
        """Whether text that was lost in `owner` may have defined `@name` there."""
        if owner is None and self.any_item:
            return True
        return (0 if owner is None else id(owner), name) in self._names


NO_GAPS = ParseHoles()
"""Of a module that was built whole.  Never written to."""
