"""Items of a text, parsed without the rest of it.

They stand in an `Excerpt`, a source of its own, so that their locations stay right when the text before them
changes.  Nothing is verified, and errors are kept beside what could be built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.diagnostics import Diagnostic, Source
from ...ir.parse_holes import ParseHoles
from ...ir.program import Func, Module, Program
from ...records import dataclass
from . import nul_byte, read
from .recovery import RecoveringActions

__all__ = ["Excerpt", "Parsed", "parse_excerpt"]


class Excerpt(Source):
    """A part of a text between a `lead` and a `trail` that make a text of it.

    `following`: so many characters of the trail follow the part in its own text too.
    """

    __slots__ = ("lead", "length", "last")

    def __init__(self, lead: str, part: str, trail: str, name: str, following: int = 0) -> None:
        super().__init__(f"{lead}{part}{trail}", name)
        self.lead = len(lead)
        self.length = len(part)
        self.last = len(part) + following

    def offset_in_part(self, start: int) -> int:
        """The offset in the part that a place in the whole stands for; its nearest end for a place outside."""
        return min(max(start - self.lead, 0), self.last)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A module with what could be built, its errors, and what is missing in it."""

    module: Module
    diagnostics: list[Diagnostic]
    holes: ParseHoles


class _ExcerptActions(RecoveringActions):
    """Builds items after funcs of the text before them, which stay outside of the module."""

    def __init__(self, source: Source, earlier: Mapping[str, Func]) -> None:
        super().__init__(source)
        self.own_funcs = self.module.funcs
        self.visible_funcs = {**earlier}

    def _enter(self) -> None:
        self.module.funcs = {**self.visible_funcs, **self.own_funcs}

    def program_head(self, *parts: Any) -> Program:
        program = super().program_head(*parts)
        self._enter()
        return program

    def func_head(self, *parts: Any) -> Func:
        func = super().func_head(*parts)
        self._enter()
        return func

    def complete(self, head: Any, statements: list[Any]) -> None:
        self.module.funcs = self.own_funcs  # a func of the name of one before is not defined twice here
        super().complete(head, statements)


def parse_excerpt(source: Source, earlier: Mapping[str, Func]) -> Parsed:
    """The items of a source after `earlier` funcs; each mistake is one of `diagnostics`."""
    if (error := nul_byte(source)) is not None:
        return Parsed(Module(source=source), [error], ParseHoles())
    actions = _ExcerptActions(source, earlier)
    read(actions)
    return Parsed(actions.module, actions.distinct_diagnostics(), actions.holes)
