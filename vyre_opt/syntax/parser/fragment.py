"""Parts of a text, parsed without the rest of it: statements of a body, the declarations of an item, whole items.

What is parsed stands in an `Excerpt`, a source of its own, so that its locations stay right when the text before it
changes.  Nothing is verified, and errors are kept beside what could be built.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...ir.diagnostics import Diagnostic, Source
from ...ir.parse_holes import ParseHoles
from ...ir.program import Buffer, Func, Module, Program, Value
from ...ir.types import DataType
from . import nul_byte, read
from .recovery import RecoveringActions

__all__ = ["Excerpt", "Parsed", "Scope", "parse_excerpt"]

_VALUE = re.compile(r"%[\w.$]+", re.ASCII)


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
class Scope:
    """What statements of a body see of the item around them.

    `values` by `%name`; `poisoned`: names that an error left undefined; `parameters`: types by the names of
    type parameters; `scalars`: the types of specialization constants and params; `funcs`: those before the item.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    poisoned: frozenset[str] = frozenset()
    parameters: Mapping[str, DataType] = field(default_factory=dict)
    buffers: Mapping[str, Buffer] = field(default_factory=dict)
    scalars: Mapping[str, DataType] = field(default_factory=dict)
    funcs: Mapping[str, Func] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Parsed:
    """`values`: what the names in the excerpt mean at its end, where that is not what they meant before it."""

    module: Module
    diagnostics: list[Diagnostic]
    holes: ParseHoles
    values: dict[str, Value]
    poisoned: frozenset[str]
    parameters: dict[str, DataType]


class _ExcerptActions(RecoveringActions):
    """Opens the outermost scope with what is visible already."""

    def __init__(self, source: Source, outer: Scope) -> None:
        super().__init__(source)
        self.outer = outer
        self.added: dict[str, Value] = {}
        self.own_funcs = self.module.funcs

    def program_head(self, *parts: Any) -> Program:
        program = super().program_head(*parts)
        self._enter()
        return program

    def func_head(self, *parts: Any) -> Func:
        func = super().func_head(*parts)
        self._enter()
        return func

    def _enter(self) -> None:
        self.scope.update(self.outer.values)
        self.poisoned.update(self.outer.poisoned)
        self.parameters = {**self.outer.parameters, **self.parameters}
        self.declared.update(self.outer.buffers)
        self.scalars.update(self.outer.scalars)
        self.module.funcs = {**self.outer.funcs, **self.own_funcs}

    def program(self, start: int, end: int, head: Any, *parts: Any) -> Any:
        names = set(_VALUE.findall(self.source.text))
        visible = {name: self.scope[name] for name in names if name in self.scope}
        self.added = {name: v for name, v in visible.items() if self.outer.values.get(name) is not v}
        return super().program(start, end, head, *parts)

    func = program

    def complete(self, head: Any, statements: list[Any]) -> None:
        self.module.funcs = self.own_funcs  # a func of the name of one before is not defined twice here
        super().complete(head, statements)


def parse_excerpt(source: Source, outer: Scope | None = None) -> Parsed:
    """What a source holds, after `outer` if that is given; errors are in `diagnostics`, each mistake once."""
    if (error := nul_byte(source)) is not None:
        return Parsed(Module(source=source), [error], ParseHoles(), {}, frozenset(), {})
    actions = _ExcerptActions(source, outer or Scope())
    read(actions)
    return Parsed(
        actions.module,
        actions.distinct_diagnostics(),
        actions.holes,
        actions.added,
        frozenset(actions.poisoned),
        actions.parameters,
    )
