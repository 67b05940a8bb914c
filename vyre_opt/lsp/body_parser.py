"""The statements of one body, of which only those are parsed that an edit concerns.

What came of a statement holds as long as its text is the same and each name in it means the same value.  A value that a
changed statement still defines, under the same name and of the same type, stays the same object, so that the statements
that use it hold as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from ..ir.diagnostics import Diagnostic
from ..ir.parse_holes import ParseHoles
from ..ir.pipeline import Pipeline
from ..ir.program import Buffer, Func, Op, Param, Program, Spec, Unnamed, Value
from ..ir.types import DataType
from ..syntax.parser.fragment import Excerpt, Parsed, Scope
from .part_parser import Parse, parse_part

__all__ = ["MOST_ERRORS", "BodyParser", "ParsedStatement", "Indivisible", "following_token", "symbols_of"]

_VALUE = re.compile(r"%[\w.$]+", re.ASCII)
_FIRST_TOKEN = re.compile(r"\s*+(?://[^\n]*+\s*+)*+(?:%[\w.$]++[^=\n]*+=|[\w.]++|\S)", re.ASCII)
_SYMBOL = re.compile(r"@[\w.$]+", re.ASCII)
_MOST_RUNS = 40
"""Runs of statements that are parsed apart; where more have changed, all the rest of the body is parsed in one."""
MOST_ERRORS = 100
"""In one body."""


Symbols = Mapping[str, tuple[object, ...] | None]
_NO_SYMBOLS: Symbols = {}


class Indivisible(Exception):
    """A body has an op across two statements, or more than MOST_ERRORS: its statements are not looked at one by one."""


@dataclass(slots=True, eq=False)
class ParsedStatement:
    """What came of the text of a statement; never changed once it is a part of a result.

    `meanings`: what each name in the text meant before it; None: nothing, or (`poison`) what an error left undefined.
    `symbols`: the same for the `@names` in it.  `values`, `poisoned`: the names that mean something else behind it.  `following`: the token behind it, if an error
    speaks of that.  `signature`: of the names before it.
    """

    text: str
    excerpt: Excerpt
    ops: list[Op]
    meanings: dict[str, Value | None]
    poison: Set[str]
    values: dict[str, Value]
    symbols: Symbols
    poisoned: frozenset[str] = frozenset()
    diagnostics: list[Diagnostic] = field(default_factory=list)
    holes: ParseHoles | None = None
    owner: Program | Func | None = None  # the item of the excerpt, which `holes` knows
    following: str | None = None
    signature: int = 0


def symbols_of(
    item: Program | Func | Pipeline | None, funcs: Mapping[str, Func]
) -> dict[str, tuple[object, ...]]:
    """What the `@names` of an item mean to its statements: their types."""
    symbols: dict[str, tuple[object, ...]] = {}
    for name, func in funcs.items():
        symbols[f"@{name}"] = (*(param.type for param in func.params), "->", *func.results)
    if isinstance(item, Program):
        every: list[Buffer | Spec | Param] = [
            *item.buffers.values(),
            *item.specs.values(),
            *item.params.values(),
        ]
        for declared in every:
            key = f"@{declared.name}"
            symbols[key] = (*symbols.get(key, ()), type(declared), declared.dtype)
    return symbols


class _Meanings:
    """What names mean behind some statements.  `signature` is another where others are visible, or declared."""

    def __init__(
        self, values: Mapping[str, Value], symbols: Mapping[str, tuple[object, ...]], signature: int
    ) -> None:
        self.values = dict(values)
        self.symbols = symbols
        self.poisoned: set[str] = set()
        self.signature = signature

    def copy(self) -> _Meanings:
        names = _Meanings(self.values, self.symbols, self.signature)
        names.poisoned = set(self.poisoned)
        return names

    def add(self, statement: ParsedStatement) -> None:
        values = self.values
        for name, value in statement.values.items():
            if name not in values:
                self.signature += hash(name)
            values[name] = value
        if statement.poisoned:
            self.signature += sum(hash((name,)) for name in statement.poisoned - self.poisoned)
            self.poisoned |= statement.poisoned

    def agree(self, statement: ParsedStatement, following: str) -> bool:
        """Whether a statement would become the same if it were parsed here again."""
        get = self.values.get
        for name, value in statement.meanings.items():
            if get(name) is not value:
                return False
        for name, symbol in statement.symbols.items():
            if self.symbols.get(name) != symbol:
                return False
        if statement.following is not None and statement.following != following:
            return False
        if statement.diagnostics and statement.signature != self.signature:
            return False  # they may suggest other names
        if not self.poisoned and not statement.poison:
            return True
        return self.poisoned & statement.meanings.keys() == statement.poison


class BodyParser:
    """Parses the statements of `item`, whose own declarations are parsed.  `lead`: what makes its text a whole one."""

    def __init__(
        self,
        item: Program | Func,
        lead: str,
        name: str,
        parameters: Mapping[str, DataType],
        funcs: Mapping[str, Func],
        parse: Parse,
    ) -> None:
        is_program = isinstance(item, Program)
        # a statement of ours comes first, so that a declaration behind it is one too late
        results = f" -> ({', '.join(map(str, item.results))})" if isinstance(item, Func) else ""
        opening = f"func @{item.name}(){results} {{\n"
        if is_program:
            opening = f"program @{item.name} workgroup(1) {{ barrier workgroup\n"
        self.lead = lead + opening
        self.added_ops = int(is_program)
        self.item = item
        self.name = name
        self.parameters = parameters
        self.funcs = funcs
        self.symbols = symbols_of(item, funcs)
        self.parse = parse
        self.errors = 0

    def update(
        self, texts: Sequence[str], old: Sequence[ParsedStatement], is_same_head: bool
    ) -> list[ParsedStatement]:
        """What comes of the statements, after `old` came of those of the text before.

        `is_same_head`: all that is declared is the same as it was.  Raises Indivisible.
        """
        before, after = _common(texts, [statement.text for statement in old])
        arguments = self.item.params if isinstance(self.item, Func) else ()
        values = {f"%{argument.name}": argument for argument in arguments}
        names = _Meanings(values, self.symbols, hash(tuple(self.symbols)))
        statements: list[ParsedStatement] = []
        for number, statement in enumerate(old[:before]):
            # the last one may have an error because of what follows
            is_sure = is_same_head and number + 1 < before
            if not is_sure and not names.agree(statement, following_token(texts, number)):
                before = number
                break
            names.add(statement)
            statements.append(statement)
        replaced = old[before : len(old) - after]
        candidates: list[ParsedStatement | None] = [None] * (len(texts) - after) + list(
            old[len(old) - after :]
        )
        self._parse_from(texts, candidates, statements, names, len(texts) - after, replaced)
        if after and not (is_same_head and _effect(replaced) == _effect(statements[before:])):
            self._parse_from(texts, candidates, statements, names, len(texts), [])
        else:
            statements += old[len(old) - after :]
        return statements

    def _parse_from(
        self,
        texts: Sequence[str],
        candidates: list[ParsedStatement | None],
        statements: list[ParsedStatement],
        names: _Meanings,
        end: int,
        replaced: Sequence[ParsedStatement],
    ) -> None:
        """Append to `statements` those up to `end`, in the place of those that are `replaced`."""
        values = {name: value for statement in replaced for name, value in statement.values.items()}
        runs = 0
        while (at := len(statements)) < end:
            candidate = candidates[at]
            if candidate is not None and names.agree(candidate, following_token(texts, at)):
                new = [candidate]
            else:
                stop = at + 1
                while (
                    stop < end
                    and (runs >= _MOST_RUNS or candidates[stop] is None)
                    and _is_balanced(texts[stop - 1])
                    and _is_balanced(texts[stop])
                ):
                    stop += 1
                if candidate is not None:
                    values.update(candidate.values)
                new = self._run(texts, at, stop, names)
                _adopt(new, values)
                runs += 1
            for statement in new:
                names.add(statement)
            statements += new

    def _run(self, texts: Sequence[str], start: int, stop: int, names: _Meanings) -> list[ParsedStatement]:
        """Statements from `start` on, up to `stop` or to an error; one at least."""
        if stop - start > 1:
            excerpt = Excerpt(self.lead, "".join(texts[start:stop]), "}", self.name)
            parsed = self.parse(excerpt, self._scope(names))
            whole = self._before_errors(texts[start:stop], excerpt, parsed, names)
            if whole:
                return whole
        return [self._single(texts[start], following_token(texts, start), names)]

    def _before_errors(
        self, texts: Sequence[str], excerpt: Excerpt, parsed: Parsed, names: _Meanings
    ) -> list[ParsedStatement]:
        """Of statements that were parsed together those that no error concerns, from the first on."""
        errors = [excerpt.offset_in_part(d.loc.start) for d in parsed.diagnostics if d.loc is not None]
        first = min(errors, default=excerpt.length + 1)
        if not parsed.module.order:
            return []
        ops = parsed.module.order[0].body.ops  # type: ignore[union-attr]
        at, start = self.added_ops, excerpt.lead
        known, statements = names.copy(), []
        for number, text in enumerate(texts):
            end = start + len(text)
            # an error at the first word of a statement may be one of the statement before
            if end - excerpt.lead + len(texts[number + 1] if number + 1 < len(texts) else "") >= first:
                break
            ops_before = []
            while at < len(ops) and ops[at].loc is not None and ops[at].loc.start < end:  # type: ignore[union-attr]
                if ops[at].loc.end > end:  # type: ignore[union-attr]
                    raise Indivisible
                ops_before.append(ops[at])
                at += 1
            statement = self._moved(text, ops_before, excerpt, start, known)
            statements.append(statement)
            known.add(statement)
            start = end
        return statements

    def _moved(
        self, text: str, ops: list[Op], excerpt: Excerpt, start: int, names: _Meanings
    ) -> ParsedStatement:
        """A statement of its own of some `ops` of an excerpt, where its text starts at `start`."""
        new_excerpt = Excerpt(self.lead, text, "}", self.name)
        shift = new_excerpt.lead - start
        for outer in ops:
            for op in outer.walk():
                loc = op.loc
                if loc is not None and loc.source is excerpt:  # ops may share theirs
                    loc.source, loc.start, loc.end = new_excerpt, loc.start + shift, loc.end + shift
        mentioned = set(_VALUE.findall(text))
        results = [result for op in ops for result in op.results if not isinstance(result.name, Unnamed)]
        values = {name: result for result in results if (name := f"%{result.name}") in mentioned}
        poison = names.poisoned & mentioned
        return ParsedStatement(
            text, new_excerpt, ops, _meanings(mentioned, names), poison, values, _symbols_in(text, names)
        )

    def _single(self, text: str, following: str, names: _Meanings) -> ParsedStatement:
        """A statement that is parsed alone."""
        part = parse_part(self.parse, self.name, self.lead, text, "}", following, self._scope(names))
        excerpt, parsed, seen = part
        self.errors += len(parsed.diagnostics)
        if self.errors > MOST_ERRORS:
            raise Indivisible
        mentioned = set(_VALUE.findall(text))
        owner = parsed.module.order[0] if parsed.module.order else None
        assert owner is None or isinstance(owner, Program | Func)
        end = excerpt.lead + excerpt.length
        ops = owner.body.ops[self.added_ops :] if owner is not None else []
        return ParsedStatement(
            text,
            excerpt,
            [op for op in ops if op.loc is None or op.loc.start < end],
            _meanings(mentioned, names),
            names.poisoned & mentioned,
            {name: value for name, value in parsed.values.items() if name in mentioned},
            _symbols_in(text, names),
            parsed.poisoned & mentioned,
            parsed.diagnostics,
            parsed.holes if parsed.diagnostics else None,
            owner,
            seen,
            names.signature,
        )

    def _scope(self, names: _Meanings) -> Scope:
        buffers: Mapping[str, Buffer] = {}
        scalars: dict[str, DataType] = {}
        if isinstance(self.item, Program):
            buffers = self.item.buffers
            constants: list[Spec | Param] = [*self.item.specs.values(), *self.item.params.values()]
            scalars = {constant.name: constant.dtype for constant in constants}
        poisoned = frozenset(names.poisoned)
        return Scope(names.values, poisoned, self.parameters, buffers, scalars, self.funcs)


def _symbols_in(text: str, names: _Meanings) -> Symbols:
    if "@" not in text:
        return _NO_SYMBOLS
    get = names.symbols.get
    return {name: get(name) for name in _SYMBOL.findall(text)}


def _meanings(mentioned: set[str], names: _Meanings) -> dict[str, Value | None]:
    get = names.values.get
    return {name: get(name) for name in mentioned}


def following_token(texts: Sequence[str], number: int) -> str:
    """The first token behind a statement, with the space before it."""
    if number + 1 == len(texts):
        return "}"
    match = _FIRST_TOKEN.match(texts[number + 1])
    return match.group() if match else ""


def _is_balanced(text: str) -> bool:
    return text.count("{") == text.count("}")


def _common(new: Sequence[str], old: Sequence[str]) -> tuple[int, int]:
    """How many texts at the start, and how many others at the end, are the same."""
    most = min(len(new), len(old))
    before = 0
    while before < most and new[before] == old[before]:
        before += 1
    after = 0
    while after < most - before and new[-1 - after] == old[-1 - after]:
        after += 1
    return before, after


def _effect(statements: Sequence[ParsedStatement]) -> tuple[dict[str, int], frozenset[str]]:
    """What statements do to the meanings of names, one after another."""
    values = {name: id(value) for statement in statements for name, value in statement.values.items()}
    poisoned: frozenset[str] = frozenset().union(*(statement.poisoned for statement in statements))
    return values, poisoned


def _adopt(statements: Sequence[ParsedStatement], old: dict[str, Value]) -> None:
    """Let values that statements define be the `old` objects of the same name and type; each is taken once."""
    new: dict[Value, Value] = {}
    for statement in statements:
        for name, value in statement.values.items():
            earlier = old.pop(name, None)
            if earlier is not None and earlier is not value and earlier.type is value.type:
                new[value] = earlier
    if not new:
        return
    for statement in statements:
        for outer in statement.ops:
            for op in outer.walk():
                op.operands = tuple([new.get(operand, operand) for operand in op.operands])
        for outer in statement.ops:
            if any(result in new for result in outer.results):
                outer.results = tuple([new.get(result, result) for result in outer.results])
                for result in outer.results:
                    result.owner = outer
        statement.values = {name: new.get(value, value) for name, value in statement.values.items()}
        statement.meanings = {n: v if v is None else new.get(v, v) for n, v in statement.meanings.items()}
