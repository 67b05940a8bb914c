"""The module of a text that changes: an edit parses its own item again, and no other.

A text consists of items (text_parts.py).  The result depends on the text alone, whatever texts came before.  The
verifier runs over the whole module, which is quick.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..ir.diagnostics import Diagnostic, Location, shown
from ..ir.parse_holes import NO_HOLES, ParseHoles
from ..ir.pipeline import Pipeline
from ..ir.program import Func, Module, Program
from ..ir.types import DataType
from ..ir.verifier import verify
from ..records import dataclass
from ..syntax.parser.actions import ModuleActions
from ..syntax.parser.excerpts import Excerpt, Parsed, parse_excerpt
from .text_parts import Span, items_of

__all__ = ["DocumentAnalysis", "Analyzer", "Item", "Stale"]

_VERSION = re.compile(r"(?:\s|//[^\n]*\n)*+vyre\s++(\d+)(?:\s|//[^\n]*(?:\n|$))*+", re.ASCII)

_KEYWORD = re.compile(r"[ \t]*\w+", re.ASCII)

Item = Program | Func | Pipeline


_CALL = re.compile(r"\bcall\s+@([\w.$]+)", re.ASCII)


class Stale(Exception):
    """The text has changed again, so nobody waits for this result any more."""


class _Context(NamedTuple):
    """Context of an item: the version of the format, and the earlier funcs that it calls."""

    version: str
    funcs: dict[str, Func]

    def is_like(self, other: _Context) -> bool:
        """Whether an item would become the same in another context."""
        return self.version == other.version and self._signatures() == other._signatures()

    def _signatures(self) -> dict[str, tuple[list[DataType], list[DataType]]]:
        return {name: ([p.type for p in func.params], [*func.results]) for name, func in self.funcs.items()}


@dataclass(slots=True, eq=False)
class _Unit:
    """Result of parsing the text of an item.  `following`: the word behind the text, if an error speaks of that."""

    text: str
    context: _Context
    items: list[Item]
    diagnostics: list[Diagnostic]
    holes: ParseHoles
    excerpt: Excerpt
    following: str | None = None


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
            spans, units = [Span(0, len(text))], [self._parsed_unit("", text, _NO_CONTEXT)]
        else:
            units = [
                self._parsed_unit("", text[: head.end], _NO_CONTEXT),
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
        lead = f"vyre {version}\n"
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
                unit = self._parsed_unit(lead, text, context, word)
            else:
                left.remove(unit)
            units.append(unit)
            for item in unit.items:
                if isinstance(item, Func):
                    funcs.setdefault(item.name, item)
        return units

    def _parsed_unit(self, lead: str, text: str, context: _Context, following: str = "") -> _Unit:
        """The unit of a part of the text; `following`: the word behind it, which an error may speak of."""
        excerpt = Excerpt(lead, text, "", self.name)
        parsed = self._parse(excerpt, context.funcs)
        end = excerpt.lead + excerpt.length
        seen = None
        if following and any(d.loc is not None and d.loc.start >= end for d in parsed.diagnostics):
            # what is wrong is that something else follows, so that has to stand there
            seen = following
            longer = Excerpt(lead, text, f"{following}\n", self.name, len(following))
            known = self._parse(longer, context.funcs)
            token = end + len(following) - len(following.lstrip())
            known.diagnostics[:] = [d for d in known.diagnostics if d.loc is None or d.loc.start <= token]
            if known.diagnostics:
                excerpt, parsed = longer, known
        items: list[Item] = list(parsed.module.order)
        return _Unit(text, context, items, parsed.diagnostics, parsed.holes, excerpt, seen)

    def _parse(self, excerpt: Excerpt, funcs: Mapping[str, Func]) -> Parsed:
        if self._is_stale():
            raise Stale
        self._parsed += excerpt.length
        return parse_excerpt(excerpt, funcs)

    def _analysis(
        self, text: str, version: int, spans: Sequence[Span], units: Sequence[_Unit]
    ) -> DocumentAnalysis:
        starts = {
            id(unit.excerpt): (span.start, unit.excerpt) for span, unit in zip(spans, units, strict=True)
        }
        actions = ModuleActions(units[0].excerpt)
        actions.module.version = version
        for unit in units:
            actions.holes.include(unit.holes)
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
