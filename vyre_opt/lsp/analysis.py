"""The module of a text that changes: what an edit does not concern is not parsed again.

A text has items, and the body of a program or a func has statements (see text_parts.py and body_parser.py).  The result is
a matter of the text alone, whatever texts came before.  An item whose statements cannot be told apart is parsed as a
whole.  The verifier runs over the whole module, which is quick.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..ir.diagnostics import Diagnostic, Location, shown
from ..ir.parse_holes import NO_HOLES, ParseHoles, Part
from ..ir.pipeline import Pipeline
from ..ir.program import Block, Func, Module, Program
from ..ir.verifier import verify
from ..syntax.parser.actions import ModuleActions
from ..syntax.parser.fragment import Excerpt, Parsed, Scope, parse_excerpt
from .body_parser import BodyParser, Indivisible, ParsedStatement, following_token, symbols_of
from .part_parser import ParsedPart, parse_part
from .text_parts import ItemParts, Span, body_of, items_of

__all__ = ["DocumentAnalysis", "Analyzer", "Item", "Stale"]

_VERSION = re.compile(r"(?:\s|//[^\n]*\n)*+vyre\s++(\d+)(?:\s|//[^\n]*(?:\n|$))*+", re.ASCII)

_KEYWORD = re.compile(r"[ \t]*\w+", re.ASCII)

Item = Program | Func | Pipeline


_CALL = re.compile(r"\bcall\s+@([\w.$]+)", re.ASCII)


class Stale(Exception):
    """The text has changed again, so nobody waits for this result any more."""


class _Context(NamedTuple):
    """What an item sees of the text before it: the version of the format, and the funcs that it calls."""

    version: str
    funcs: dict[str, Func]

    def is_like(self, other: _Context) -> bool:
        """Whether an item would become the same in another context."""
        return self.version == other.version and symbols_of(None, self.funcs) == symbols_of(None, other.funcs)


@dataclass(slots=True, eq=False)
class _Unit:
    """What came of the text of an item.

    `excerpts`: with the offsets of their parts in the text.  `following`: the word behind it, if an error speaks of
    that.  `head`, `statements`: if it was parsed by statements.
    """

    text: str
    context: _Context
    items: list[Item]
    diagnostics: list[Diagnostic]
    holes: ParseHoles
    excerpts: list[tuple[Excerpt, int]]
    following: str | None = None
    head: ParsedPart | None = None
    statements: list[ParsedStatement] = field(default_factory=list)

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]


_NO_CONTEXT = _Context("", {})


@dataclass(frozen=True, slots=True, eq=False)
class DocumentAnalysis:
    """The module of a text, and what is wrong with it in the order of the text.

    `items`: the parts of the text, each with what it holds.
    `broken`: those of the parts that could not be parsed whole.  `parsed`: how many characters were parsed for it.
    """

    text: str
    module: Module
    diagnostics: list[Diagnostic]
    items: list[tuple[Span, list[Item]]]
    broken: list[Span]
    parsed: int
    _starts: dict[int, tuple[int, Excerpt]]

    @property
    def has_errors(self) -> bool:
        return any(diagnostic.severity == "error" for diagnostic in self.diagnostics)

    def span(self, loc: Location) -> Span:
        """The place in the text of a location in the module or in a diagnostic."""
        source = loc.source
        assert isinstance(source, Excerpt)
        start, _ = self._starts[id(source)]
        return Span(start + source.offset_in_part(loc.start), start + source.offset_in_part(loc.end))

    def is_in(self, diagnostic: Diagnostic, parts: Sequence[Span]) -> bool:
        """Whether a diagnostic is about one of some parts of the text."""
        if diagnostic.loc is None:
            return False
        place = self.span(diagnostic.loc).start
        return any(part.start <= place < part.end for part in parts)

    def item_at(self, offset: int) -> tuple[Span, list[Item]]:
        """The part of the text around an offset, and the items in it."""
        return next((part for part in self.items if offset < part[0].end), self.items[-1])


class Analyzer:
    """Analyses the text of a file again and again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._units: list[_Unit] = []
        self._parsed = 0
        self._is_stale: Callable[[], bool] = bool

    def analyze(self, text: str, is_stale: Callable[[], bool] = bool) -> DocumentAnalysis:
        """The analysis of a text, quick if the last one was much alike.

        Raises Stale when `is_stale` says that the result is of no use any more.
        """
        self._parsed, self._is_stale = 0, is_stale
        head, spans = items_of(text)
        version = _VERSION.fullmatch(text, head.start, head.end)
        if version is None or "\0" in text:
            spans, units = [Span(0, len(text))], [self._whole("", text, _NO_CONTEXT)]
        else:
            units = [
                self._whole("", text[: head.end], _NO_CONTEXT),
                *self._items([text[a:b] for a, b in spans], version[1]),
            ]
            spans = [head, *spans]
        analysis = self._analysis(text, int(version[1]) if version else 1, spans, units)
        self._units = units
        return analysis

    def _items(self, texts: Sequence[str], version: str) -> list[_Unit]:
        """The units of some items: those of the last text where it had the same."""
        following = [match[0] if (match := _KEYWORD.match(text)) else "" for text in texts[1:]]
        following += [""] * bool(texts)
        left, units = self._units[1:], []
        new = set(texts)
        funcs: dict[str, Func] = {}
        for text, word in zip(texts, following, strict=True):
            context = _Context(version, {name: funcs[name] for name in _CALL.findall(text) if name in funcs})
            same = (
                u
                for u in left
                if u.text == text and u.context.is_like(context) and u.following in (None, word)
            )
            unit = next(same, None)
            if unit is None:
                unit = self._item(text, context, [u for u in left if u.text not in new], left, word)
            else:
                left.remove(unit)
            units.append(unit)
            for item in unit.items:
                if isinstance(item, Func):
                    funcs.setdefault(item.name, item)
        return units

    def _item(
        self, text: str, context: _Context, gone: Sequence[_Unit], left: list[_Unit], following: str
    ) -> _Unit:
        """The unit of an item that is new.  `gone`: those of the last text whose items are no longer there."""
        body = None if text.lstrip().startswith("pipeline") else body_of(text)
        if body is not None:
            first_line = text.partition("\n")[0]
            old = next((unit for unit in gone if unit.first_line == first_line), gone[0] if gone else None)
            if old is None:
                old = next((unit for unit in left if unit.text == text), None)
            if old is not None:
                left.remove(old)
            try:
                unit = self._by_statements(text, body, context, old)
            except Indivisible:
                unit = None
            if unit is not None:
                return unit
        return self._whole(f"vyre {context.version}\n", text, context, following)

    def _whole(self, lead: str, text: str, context: _Context, following: str = "") -> _Unit:
        scope = Scope(funcs=context.funcs)
        excerpt, parsed, seen = parse_part(self._parse, self.name, lead, text, "", following, scope)
        items: list[Item] = list(parsed.module.order)
        return _Unit(text, context, items, parsed.diagnostics, parsed.holes, [(excerpt, 0)], seen)

    def _by_statements(
        self, text: str, body: ItemParts, context: _Context, old: _Unit | None
    ) -> _Unit | None:
        """The unit of a program or a func, parsed by statements; None if its head leaves it open what it is."""
        lead, texts = f"vyre {context.version}\n", [text[a:b] for a, b in body.statements]
        head_text, following = text[: body.head.end], following_token(["", *texts], 0)
        if old is not None and old.context.version != context.version:
            old = None
        head = old.head if old is not None else None
        if head is None or _text_of(head) != head_text or head.following not in (None, following):
            head = parse_part(self._parse, self.name, lead, head_text, "}", following)
        if len(head.parsed.module.order) != 1:
            return None
        (item,) = head.parsed.module.order
        assert not isinstance(item, Pipeline)
        earlier: Sequence[ParsedStatement] = ()
        if old is not None and old.head is not None and _same_names(old.head.parsed, head.parsed):
            earlier = old.statements
        is_same_head = old is not None and old.head is head and old.context.is_like(context)
        parser = BodyParser(item, lead, self.name, head.parsed.parameters, context.funcs, self._parse)
        statements = parser.update(texts, earlier, is_same_head)
        new, holes = _with_body(item, statements)
        holes.include(head.parsed.holes, {id(item): new, id(item.body): new.body})
        excerpts = [(head.excerpt, 0)]
        excerpts += [(s.excerpt, span.start) for s, span in zip(statements, body.statements, strict=True)]
        diagnostics = [*head.parsed.diagnostics, *(d for s in statements for d in s.diagnostics)]
        return _Unit(text, context, [new], diagnostics, holes, excerpts, None, head, statements)

    def _parse(self, excerpt: Excerpt, scope: Scope | None = None) -> Parsed:
        if self._is_stale():
            raise Stale
        self._parsed += excerpt.length
        return parse_excerpt(excerpt, scope)

    def _analysis(
        self, text: str, version: int, spans: Sequence[Span], units: Sequence[_Unit]
    ) -> DocumentAnalysis:
        starts = {
            id(excerpt): (span.start + offset, excerpt)
            for span, unit in zip(spans, units, strict=True)
            for excerpt, offset in unit.excerpts
        }
        actions = ModuleActions(units[0].excerpts[0][0])
        actions.module.version = version
        for unit in units:
            actions.holes.include(unit.holes, {})
            for item in unit.items:
                actions.add(item, type(item).__name__.lower())
        errors = [d for unit in units for d in unit.diagnostics]
        if self._is_stale():
            raise Stale
        # items of one part that are defined twice are errors of that part already
        reported = {(d.message, id(d.loc.source)) for d in errors if d.loc is not None}
        twice = (d for d in actions.diagnostics if d.loc and (d.message, id(d.loc.source)) not in reported)
        errors += twice
        problems = verify(actions.module, actions.holes if errors else NO_HOLES)
        parts = [(span, unit.items) for span, unit in zip(spans, units, strict=True)]
        broken = [span for span, unit in zip(spans, units, strict=True) if unit.diagnostics]
        analysis = DocumentAnalysis(text, actions.module, errors, parts, broken, self._parsed, starts)
        for problem in problems:
            # a warning may only follow from what an error left out
            if problem.severity == "error" or not (broken and analysis.is_in(problem, broken)):
                errors.append(problem)
        errors.sort(key=lambda d: analysis.span(d.loc).start if d.loc is not None else 0)
        shown(errors)
        return analysis


def _text_of(part: ParsedPart) -> str:
    excerpt = part.excerpt
    return excerpt.text[excerpt.lead : excerpt.lead + excerpt.length]


def _same_names(old: Parsed, new: Parsed) -> bool:
    """Whether two heads, or the same, leave statements the same names."""
    if old is new:
        return True
    items = (*old.module.order, *new.module.order)
    return old.parameters == new.parameters and all(isinstance(item, Program) for item in items)


def _with_body(
    item: Program | Func, statements: Sequence[ParsedStatement]
) -> tuple[Program | Func, ParseHoles]:
    """The item with its statements, and what is missing in it."""
    ops = [op for statement in statements for op in statement.ops]
    if isinstance(item, Func) and ops and ops[-1].name == "yield" and not ops[-1].operands:
        ops.pop()  # the text may have it and the IR has not
    body = Block((), ops)
    body.args = item.body.args  # they stay those of the head's own block
    new = replace(item, body=body)
    holes = ParseHoles()
    for statement in statements:
        if statement.holes is not None:
            owner = statement.owner
            stands: dict[int, Part] = {} if owner is None else {id(owner): new, id(owner.body): body}
            holes.include(statement.holes, stands)
    return new, holes
