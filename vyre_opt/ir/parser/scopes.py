"""Names in scope while a text is read, and what is wrong with it so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..diagnostics import Diagnostic, Location, Source, suggest
from ..parse_holes import ParseHoles
from ..program import Buffer, Op, Value
from ..types import UNKNOWN, DataType


class TooDeep(Exception):
    """Parsing stops: the text is nested too deeply."""


def result_names(results: str) -> list[str]:
    """The names of a RESULTS token: `%a, %b =`."""
    return [name.strip() for name in results[:-1].split(",")]


class Scopes:
    """`scope` maps a visible `%name` to its value; `diagnostics` collects errors, `holes` what they left out."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self.scope: dict[str, Value] = {}
        self.scopes: list[list[str]] = []
        self.owners: list[Any] = []  # the block, program, function or pipeline of each scope
        self.pending: tuple[Value, ...] | None = None  # arguments for the next block
        self.holes = ParseHoles()
        self.kept: dict[int, list[Any]] = {}  # by owner: statements that an error has cut off from it
        self.last_buffer: Buffer | None = None
        self.explained_to = 0  # a syntax error before this place has been reported in other words
        # of the item that is being read:
        self.missing: dict[str, Diagnostic] = {}  # errors about values that are not defined, one a name
        self.twice: list[Diagnostic] = []  # errors about values that are defined twice
        self.poisoned: set[str] = set()  # values that lost text would have defined
        self.unbalanced = False  # a brace is missing or too many

    # --- errors and scopes ----------------------------------------------------------

    @property
    def error_count(self) -> int:
        return len(self.diagnostics)

    def error(self, message: str, place: int, end: int, help: str | None = None) -> Diagnostic:
        found = Diagnostic("error", message, Location(self.source, place, end), help=help)
        self.diagnostics.append(found)
        return found

    def has_error(self, start: int, end: int) -> bool:
        """Whether an error has been found between two places, of which the first has just been read."""
        for found in reversed(self.diagnostics):
            if found.loc is None or found.loc.start < start:
                return False
            if found.loc.start < end:
                return True
        return False

    def open_scope(self, owner: Any) -> None:
        if not self.scopes:
            self.missing, self.twice, self.poisoned, self.unbalanced = {}, [], set(), False
        self.scopes.append([])
        self.owners.append(owner)

    def close_scope(self) -> None:
        self.owners.pop()
        for name in self.scopes.pop():
            self.scope.pop(name, None)

    def poison(self, results: str) -> None:
        """Say nothing of the uses of what a RESULTS token names: it is not defined, and that has a reason."""
        self.poisoned.update(result_names(results))

    def define(self, name: str, value: Value, place: int) -> None:
        """Make `%name` visible to the end of the current scope."""
        first = self.scope.get(name)
        if first is not None:
            found = self.error(f"{name} is defined twice", place, place + len(name))
            if isinstance(first.owner, Op):
                found.note("first defined here", first.owner.loc)
            found.help = "an SSA value is assigned once; give this one another name"
            self.twice.append(found)
            if first.type is not value.type:
                value = Value(value.name, UNKNOWN)
        self.scope[name] = value
        if first is None:
            self.scopes[-1].append(name)

    def use(self, name: str, place: int) -> Value:
        found = self.scope.get(name)
        if found is not None:
            return found
        if name in self.poisoned:
            pass
        elif name in self.missing:
            self.missing[name].again(Location(self.source, place, place + len(name)))
        else:
            help = suggest(name, self.scope)
            self.missing[name] = self.error(f"{name} is not defined", place, place + len(name), help)
        return Value(name[1:], UNKNOWN)

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
