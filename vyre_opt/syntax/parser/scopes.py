"""The symbol table while a text is parsed, and the errors found in it so far."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

from ...ir.diagnostics import Diagnostic, Location, Source
from ...ir.literals import LiteralError, read_int, unquote
from ...ir.parse_holes import ParseHoles
from ...ir.program import Buffer, Module, Op, Value
from ...ir.suggestions import last
from ...ir.types import UNKNOWN, DataType
from ...worker import import_module
from .locations import MAX_NUMBER, WrittenLocation
from .rewritten_lines import fresh, head_of, line_around

Symbol = tuple[str, Location]
"""The name of a `@name` and its place."""


_LANES = {name: lane for names in ("xyzw", "rgba") for lane, name in enumerate(names)}


class TooDeep(Exception):
    """Blocks are nested too deeply; parsing stops."""


def result_names(results: str) -> list[str]:
    """The names in a RESULTS token: `%a`, `%b` of `%a, %b =`."""
    return [name.strip() for name in results[:-1].split(",")]


class Scopes:
    """Collects errors in `diagnostics`, and in `holes` what they left out of the module."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.module = Module(source=source)
        self.diagnostics: list[Diagnostic] = []
        # by message and text: the first of those that a text may make again and again
        self.first_errors: dict[tuple[str, str], Diagnostic] = {}
        self.repeated: set[int] = set()  # id() of the errors that are such a mistake made again
        self.scope: dict[str, Value] = {}  # the visible values by `%name`
        self.scopes: list[list[str]] = []  # innermost last: the names that leave `scope` at its end
        self.openings: list[int] = []  # where the brace of each is, of an item's anywhere in it
        self.owners: list[Any] = []  # the block, program, function or pipeline of each scope
        self.pending: tuple[Value, ...] | None = None  # arguments of the block that opens next
        self.holes = ParseHoles()
        # by id of the owner: statements that an error cut off from it
        self.salvaged: dict[int, list[Any]] = {}
        self.has_locations = False
        self.placed: list[tuple[Any, WrittenLocation]] = []  # what a `loc(...)` stands behind
        self.last_buffer: Buffer | None = None
        # what the item that is being read declares: its buffers, and the types of its spec constants and params
        self.declared: dict[str, Buffer] = {}
        self.scalars: dict[str, DataType] = {}
        self.reported_until = 0  # syntax errors before this offset have been reported in other words
        # Of the item that is being read:
        self.ended: dict[
            str, tuple[Value, list[int]]
        ] = {}  # of blocks that have ended, with the braces of these
        self.undefined: dict[str, Diagnostic] = {}  # errors about undefined values, one per name
        self.redefinitions: list[Diagnostic] = []  # errors about values that are defined twice
        self.poisoned: set[str] = set()  # names that discarded text would have defined
        self.unbalanced = False  # a brace is missing, or there is one too many

    # --- errors and scopes ----------------------------------------------------------

    @property
    def error_count(self) -> int:
        return len(self.diagnostics)

    @property
    def distinct_errors(self) -> int:
        return len(self.diagnostics) - len(self.repeated)

    def distinct_diagnostics(self) -> list[Diagnostic]:
        """The errors without those that are a mistake made again, which are notes of the first."""
        return [error for error in self.diagnostics if id(error) not in self.repeated]

    def error(self, message: str, start: int, end: int, help: str | None = None) -> Diagnostic:
        diagnostic = Diagnostic("error", message, Location(self.source, start, end), help=help)
        self.diagnostics.append(diagnostic)
        return diagnostic

    def advice(self, word: str, context: str, *known: Iterable[str]) -> str | None:
        """Advice about a `word` that does not exist in a `context` (see syntax/synonyms.py) where `known` ones do."""
        import_module("vyre_opt.syntax.synonyms")
        from ..synonyms import advice

        return advice(word, context, *known)

    def name_error(
        self, message: str, start: int, end: int, help: str | None, what: str | None = None
    ) -> Diagnostic:
        """Report a mistake that a text may make many times, such as a wrong name: as one error with its places.

        `what`: the same for all of them, if their text is not.
        """
        error = self.error(message, start, end, help)
        first = self.first_errors.setdefault((message, what or self.source.text[start:end]), error)
        if first is not error:
            first.add_place(error.loc)
            self.repeated.add(id(error))
        return error

    def has_error(self, start: int, end: int) -> bool:
        """Whether an error lies between two offsets; the text from `start` on must be what was read last."""
        for diagnostic in reversed(self.diagnostics):  # in the order of the text, so only the last matter
            if diagnostic.loc is None or diagnostic.loc.start < start:
                return False
            if diagnostic.loc.start < end:
                return True
        return False

    def open_scope(self, owner: Any, start: int = 0) -> None:
        """`start`: of a block's brace."""
        if not self.scopes:
            self.undefined, self.redefinitions, self.poisoned, self.unbalanced = {}, [], set(), False
            self.declared, self.scalars = {}, {}
            self.ended.clear()
        self.scopes.append([])
        self.openings.append(start)
        self.owners.append(owner)

    def close_scope(self) -> None:
        self.owners.pop()
        opening = self.openings.pop()
        for name in self.scopes.pop():
            value = self.scope.pop(name, None)
            if self.scopes and value is not None:
                self.ended[name] = value, [*self.ended.get(name, (value, []))[1][-1:], opening]

    def poison(self, results: str) -> None:
        """Report no use of the names in a RESULTS token: an error is why they are not defined."""
        self.poisoned.update(result_names(results))

    def define(self, name: str, value: Value, start: int) -> None:
        """Make `%name` visible to the end of the current scope."""
        first = self.scope.get(name)
        if first is not None:
            error = self.error(f"{name} is defined twice", start, start + len(name))
            if isinstance(first.owner, Op):
                error.note("first defined here", first.owner.loc)
            new, line = fresh(f"{name}_1", self.scope), self._line_at(start)
            error.help = f"an SSA value is assigned once: write {new}{line[len(name) :]}, and {new} for {name} behind it"
            if name not in self.scopes[-1] and first.type is not UNKNOWN:
                error.help = self._given_out(name, first.type, line)
            self.redefinitions.append(error)
            if first.type is not value.type:
                value = Value(value.name, UNKNOWN)  # nobody knows which of the two a use means
        self.scope[name] = value
        if first is None:
            self.scopes[-1].append(name)

    def _line_at(self, start: int) -> str:
        """The line around an offset, without its indentation and its comment; of a very long one, what is near."""
        return line_around(self.source.text, start).partition("//")[0].strip()

    def _given_out(self, name: str, dtype: DataType, line: str) -> str:
        """The remedy for a value from outside that a line of a block would change."""
        step, next_one = fresh(f"{name}_1", self.scope), fresh("%next", self.scope)
        value = line.partition("=")[2].strip()
        head = head_of(self.source.text, self.openings[-1])
        rule = "a block does not change a value from outside"
        if head.startswith(("for ", "while ")):
            changed = re.sub(rf"{re.escape(name)}(?![\w.$])", step, value)
            return (
                f"{rule}; a loop carries it: {name}_end = {head} iter({step} = {name} : {dtype}) {{, in it {next_one} = {changed} "
                f"and yield {next_one}, and {name}_end for {name} behind it"
            )
        if head.startswith("if "):
            return (
                f"{rule}, and an if gives it: {step} = {head} -> {dtype} {{, in it {next_one} = {value} and yield {next_one}, "
                f"behind it }} else {{ yield {name} }}, and {step} for {name} from there on"
            )
        return f"{rule}: give this one another name"

    def use(self, name: str, start: int) -> Value:
        """The visible value `%name`, or a poison value of that name after an error."""
        value = self.scope.get(name)
        if value is not None:
            return value
        if name in self.poisoned:
            pass
        elif name in self.undefined:
            self.undefined[name].add_place(Location(self.source, start, start + len(name)))
        else:
            error = self.error(f"{name} is not defined", start, start + len(name), self._lane_of(name))
            inner, openings = self.ended.get(name, (None, []))
            if inner is not None and inner.type is not UNKNOWN:
                place = inner.owner.loc if isinstance(inner.owner, Op) else None
                error.note("it is defined here, in a block that has ended", place)
                *before, head = [head_of(self.source.text, opening) for opening in openings]
                if head.endswith("else") and before and before[0].startswith("if "):
                    error.help = f"write {name} = {before[0]} -> {inner.type} {{, and yield {name} at the end of both blocks"
                else:
                    error.help = f"give it out of the block: {name} = {head if head.startswith('if ') else 'if %c'} -> {inner.type} {{ ... yield %a }} else {{ yield %b }}"
                    if place is not None and error.loc is not None:
                        error.help = f"move line {error.loc.line}, {self._line_at(start)}, behind line {place.line}, into the block; or {error.help}"
            if error.help is None:
                error.help = f"define it before: {name} = with an op behind it"
                error.suggestion = partial(self.advice, name, "op", last(self.scope))
            self.undefined[name] = error
        return Value(name[1:], UNKNOWN)

    def _lane_of(self, name: str) -> str | None:
        """Spelling of `%v.x` here, if `%v` is a vector: other languages name lanes so."""
        vector, _, lane = name.rpartition(".")
        value = self.scope.get(vector)
        if value is None or not value.type.is_vec or lane not in _LANES:
            return None
        return f"a lane is extracted: extract {vector}[{_LANES[lane]}] : {value.type}"

    def integer(self, start: int, end: int, text: str) -> int:
        try:
            return read_int(text)
        except LiteralError as error:
            self.error(str(error), start, end)
            return 1

    bound_int = extent_number = type_int = integer

    def listed(self, start: int, end: int, first: Any, rest: list[Any] | None = None) -> list[Any]:
        """A list of one or more; `rest` is what follows the first comma."""
        return [first, *(rest or ())]

    # the parse loop finds a method by its rule's name; a modifier and types_one are lists of one
    words = modifier = block_args = launch_params = iter = extents = type_args = type_list = types_one = (
        listed
    )

    # --- locations --------------------------------------------------------------------

    def location(self, start: int, end: int, name: str, line: str, column: str) -> WrittenLocation:
        numbers = [self.integer(start, end, text) for text in (line, column)]
        if not all(1 <= number <= MAX_NUMBER for number in numbers):
            self.error(f"a line and a column are 1 to {MAX_NUMBER}", start, end)
        self.has_locations = True
        return WrittenLocation(start, end, unquote(name), *numbers)

    def location_unknown(self, start: int, end: int, word: str) -> WrittenLocation:
        if word != "unknown":
            self.error(
                f"no location is called {word}", start, end, 'write loc("file":line:column), or loc(unknown)'
            )
        self.has_locations = True
        return WrittenLocation(start, end)

    def located(self, statements: list[Any]) -> list[Any]:
        """`statements` without the locations among them, which are noted for what stands before each."""
        if not self.has_locations:
            return statements
        result: list[Any] = []
        previous: Any = WrittenLocation
        for item in statements:
            if not isinstance(item, WrittenLocation):
                result.append(item)
                previous = item
            elif previous is WrittenLocation:
                self.error("a location stands behind what it locates", item.start, item.end)
            else:
                if previous is not None:  # an op that could not be built
                    self.placed.append((previous, item))
                previous = WrittenLocation
        return result

    def absent(self, start: int, end: int) -> None:
        return None

    count_open = absent

    def operands_first(self, start: int, end: int, token: str) -> list[Value]:
        return [self.scope.get(token) or self.use(token, start)]

    def operands_next(self, start: int, end: int, values: list[Value], token: str) -> list[Value]:
        values.append(self.scope.get(token) or self.use(token, end - len(token)))
        return values
