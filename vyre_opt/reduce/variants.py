"""Texts with parts to drop: a module, from which a delta pass drops features, and a text of lines or words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.program import Module
from ..ir.verifier import errors_of
from ..records import dataclass
from ..rewriting.cloning import copy_module
from ..syntax.printer import print_program

__all__ = ["DeltaPass", "ModuleVariant", "PartsVariant", "Selection"]


class Selection:
    """The features of a pass that are dropped, by number.

    A pass asks `drops()` once at each feature, in the same order each time: so an empty selection counts them.
    """

    def __init__(self, start: int = 0, stop: int = 0) -> None:
        self.start, self.stop = start, stop
        self.count = 0

    def drops(self) -> bool:
        number = self.count
        self.count += 1
        return self.start <= number < self.stop


DeltaPass = Callable[[Module, Selection], None]
"""Drops the selected ones of the features of a module that it can drop.  What it leaves need not verify."""


@dataclass(frozen=True, slots=True)
class ModuleVariant:
    """A module as what one delta pass can drop features of."""

    module: Module
    text: str
    delta_pass: DeltaPass

    @staticmethod
    def of(module: Module, delta_pass: DeltaPass) -> ModuleVariant:
        return ModuleVariant(module, print_program(module), delta_pass)

    def count(self) -> int:
        selection = Selection()
        self.delta_pass(copy_module(self.module), selection)
        return selection.count

    def without(self, start: int, stop: int) -> ModuleVariant | None:
        """Module without the features of these numbers; None if it does not verify."""
        module = copy_module(self.module)
        self.delta_pass(module, Selection(start, stop))
        if errors_of(module):
            return None
        return ModuleVariant.of(module, self.delta_pass)


@dataclass(frozen=True, slots=True)
class PartsVariant:
    """A text as its parts one after another."""

    parts: Sequence[str]

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def count(self) -> int:
        return len(self.parts)

    def without(self, start: int, stop: int) -> PartsVariant:
        return PartsVariant([*self.parts[:start], *self.parts[stop:]])
