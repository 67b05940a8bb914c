"""Names in scope while a text is read, and what is wrong with it so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..diagnostics import Diagnostic, Location, Source, suggest
from ..program import Op, Value
from ..types import UNKNOWN, DataType


class TooDeep(Exception):
    """Parsing stops: the text is nested too deeply."""


def result_names(results: str) -> list[str]:
    """The names of a RESULTS token: `%a, %b =`."""
    return [name.strip() for name in results[:-1].split(",")]


class Scopes:
    """`scope` maps a visible `%name` to its value; `diagnostics` collects errors."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self.scope: dict[str, Value] = {}
        self.scopes: list[list[str]] = []
        self.owners: list[Any] = []  # the block, program or function of each scope
        self.pending: tuple[Value, ...] | None = None  # arguments for the next block

    # --- errors and scopes ----------------------------------------------------------

    @property
    def error_count(self) -> int:
        return len(self.diagnostics)

    def error(self, message: str, place: int, end: int, help: str | None = None) -> Diagnostic:
        found = Diagnostic("error", message, Location(self.source, place, end), help=help)
        self.diagnostics.append(found)
        return found

    def open_scope(self, owner: Any) -> None:
        self.scopes.append([])
        self.owners.append(owner)

    def close_scope(self) -> None:
        self.owners.pop()
        for name in self.scopes.pop():
            self.scope.pop(name, None)

    def abandon(self, value: Any) -> None:
        """Forget a part that an error cut off: close its scope, poison what it would define."""
        self.pending = None
        if self.owners and value is self.owners[-1]:
            self.close_scope()
        elif isinstance(value, str) and value[:1] == "%" and value[-1:] == "=" and self.scopes:
            for name in result_names(value):
                self.scope.setdefault(name, Value(name[1:], UNKNOWN))
                self.scopes[-1].append(name)

    def define(self, name: str, value: Value, place: int) -> None:
        """Make `%name` visible to the end of the current scope."""
        if name in self.scope:
            found = self.error(f"{name} is defined twice", place, place + len(name))
            owner = self.scope[name].owner
            if isinstance(owner, Op):
                found.note("first defined here", owner.loc)
            found.help = "an SSA value is assigned once; give this one another name"
        self.scope[name] = value
        self.scopes[-1].append(name)

    def use(self, name: str, place: int) -> Value:
        found = self.scope.get(name)
        if found is None:
            self.error(f"{name} is not defined", place, place + len(name), suggest(name, self.scope))
            found = Value(name[1:], UNKNOWN)
        return found

    def written_types(
        self, name: str, operands: Sequence[Value], types: Sequence[DataType], loc: Location
    ) -> None:
        """The types written in parentheses are those of the operands."""
        if len(types) != len(operands):
            self.error(f"{name}: {len(types)} types for {len(operands)} operands", loc.start, loc.end)
            return
        for value, dtype in zip(operands, types, strict=True):
            if dtype is not value.type and UNKNOWN not in (dtype, value.type):
                at = loc.find(f"%{value.name}")
                self.error(f"{name}: %{value.name} is {value.type}, not {dtype}", at.start, at.end)

    def operands_first(self, place: int, end: int, token: str) -> list[Value]:
        return [self.scope.get(token) or self.use(token, place)]

    def operands_next(self, place: int, end: int, values: list[Value], token: str) -> list[Value]:
        values.append(self.scope.get(token) or self.use(token, end - len(token)))
        return values
