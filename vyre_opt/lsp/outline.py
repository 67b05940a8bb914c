"""Outline of a text: its declarations as a tree, and the lines that fold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lsprotocol import types

from .positions import LineIndex
from .symbol_names import head_of, occurrences
from .text_parts import Span, items_of

__all__ = ["document_symbols", "folding_ranges"]

_KINDS = {
    "program": types.SymbolKind.Class,
    "func": types.SymbolKind.Function,
    "pipeline": types.SymbolKind.Namespace,
    "buffer": types.SymbolKind.Array,
    "spec": types.SymbolKind.Constant,
    "param": types.SymbolKind.Variable,
}
_SIGN = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|([{}])', re.ASCII)
_COMMENTS = re.compile(r"(?:^[ \t]*//[^\n]*(?:\n|$)){2,}", re.MULTILINE)


def document_symbols(lines: LineIndex) -> Iterator[types.DocumentSymbol]:
    """The programs, funcs and pipelines of a text, each with its declarations."""
    text = lines.text
    for start, end in items_of(text)[1]:
        item = text[start:end]
        kind, name = head_of(item)
        if not name:
            continue
        last = item.rfind("}") + 1 or len(item.rstrip())
        definitions = [o for o in occurrences(item, start) if o.is_definition]
        head = next((o.span for o in definitions if o.symbol.kind == kind), Span(start, start))
        children = [
            types.DocumentSymbol(
                name=f"@{o.symbol.name}",
                kind=_KINDS[o.symbol.kind],
                range=lines.range(_line(text, o.span)),
                selection_range=lines.range(o.span),
                detail=text[o.span.end : _line(text, o.span).end].strip(),
            )
            for o in definitions
            if o.symbol.kind in ("buffer", "spec", "param")
        ]
        yield types.DocumentSymbol(
            name=f"@{name}",
            kind=_KINDS[kind],
            range=lines.range(Span(start, start + last)),
            selection_range=lines.range(head),
            detail=kind,
            children=children,
        )


def _line(text: str, span: Span) -> Span:
    """The line of a declaration, without its indentation and the comment behind it."""
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.end)
    line = text[start : len(text) if end < 0 else end].partition("//")[0].rstrip()
    return Span(start + len(line) - len(line.lstrip()), max(start + len(line), span.end))


def folding_ranges(lines: LineIndex) -> Iterator[types.FoldingRange]:
    """Blocks by their braces, and comments of several lines."""
    opened: list[int] = []
    for match in _SIGN.finditer(lines.text):
        if match[1] == "{":
            opened.append(match.start())
        elif match[1] == "}" and opened:
            first, last = lines.position(opened.pop()).line, lines.position(match.start()).line
            if last - 1 > first:
                yield types.FoldingRange(first, last - 1)
    for match in _COMMENTS.finditer(lines.text):
        first, last = lines.position(match.start()).line, lines.position(match.end() - 1).line
        yield types.FoldingRange(first, last, kind=types.FoldingRangeKind.Comment)
