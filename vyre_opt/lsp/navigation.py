"""Definitions and uses of names, and renaming."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .symbol_names import MODULE, ItemSymbol, Occurrence, head_of, occurrences, symbol_at
from .text_parts import Span, items_of
from .value_names import Binding, bindings, value_at

__all__ = ["Name", "RenameError", "name_at", "places", "rename"]

_NEW_NAME = re.compile(r"[\w.$]+", re.ASCII)


class RenameError(Exception):
    """The new name is none, or something else has it."""


class Name(NamedTuple):
    """Name at a place in a text: `text` is the name with its sign, `span` the place.

    `definitions` and `uses` are all the places that name the same.
    """

    text: str
    span: Span
    definitions: list[Span]
    uses: list[Span]
    item: Span
    binding: Binding | None = None
    symbol: ItemSymbol | None = None


def name_at(text: str, offset: int) -> Name | None:
    """The value or symbol that an offset is in, or right behind; None where there is none."""
    item = _item_at(text, offset)
    if item is None:
        return None
    value = value_at(text, offset)
    if value is not None:
        name, span = value
        item_text = text[item.start : item.end]
        for binding in bindings(item_text, name):
            if any(item.start + place.start == span.start for place in binding.places):
                definitions, uses = (_moved(p, item.start) for p in (binding.definitions, binding.uses))
                return Name(name, span, definitions, uses, item, binding)
        return None  # in a comment or a string
    occurrence = symbol_at([(item.start, text[item.start : item.end])], offset)
    if occurrence is None or occurrence.symbol.kind == "label":
        return None
    same = _same(text, occurrence.symbol)
    definitions = [o.span for o in same if o.is_definition]
    uses = [o.span for o in same if not o.is_definition]
    written = text[occurrence.span.start : occurrence.span.end]
    return Name(written, occurrence.span, definitions, uses, item, symbol=occurrence.symbol)


def places(name: Name, with_definitions: bool = True) -> list[Span]:
    """All places of a name in the order of the text."""
    return sorted([*(name.definitions if with_definitions else ()), *name.uses])


def rename(text: str, name: Name, new: str) -> list[tuple[Span, str]]:
    """Edits that give a symbol or value a new name, with or without its sign.

    Raises RenameError if that is no name, or one that would mean something else as well.
    """
    sign = name.text[0]
    word = new.removeprefix(sign)
    if not _NEW_NAME.fullmatch(word):
        raise RenameError(f"{new!r} is no name: a name is of letters, digits, _, . and $")
    renamed = sign + word
    if renamed == name.text:
        return []
    if not name.definitions:
        raise RenameError(f"{name.text} is not defined")
    item_text = text[name.item.start : name.item.end]
    if name.binding is not None:
        visible = name.binding.visible
        for other in bindings(item_text, renamed):
            is_disjoint = other.visible.end <= visible.start or visible.end <= other.visible.start
            if not other.definitions or not is_disjoint:
                raise RenameError(f"{renamed} is the name of another value here")
    elif name.symbol is not None:
        symbols = _bound_together(text, name.symbol)
        for symbol in symbols:
            _check_symbol(text, symbol, word)
        return sorted((occurrence.span, renamed) for symbol in symbols for occurrence in _same(text, symbol))
    return [(span, renamed) for span in places(name)]


def _bound_together(text: str, symbol: ItemSymbol) -> list[ItemSymbol]:
    """The type parameters of all items that have the name of one, since a launch passes what is of one for what is of the
    other; of anything else itself alone."""
    declaration = re.compile(rf"\bspec\s+@{re.escape(symbol.name)}\s*:\s*dtype\b", re.ASCII)
    owners = [head_of(item) for _, item in _items(text) if declaration.search(item)]
    if symbol.kind != "spec" or symbol.owner not in owners:
        return [symbol]
    return [ItemSymbol("spec", owner, symbol.name) for owner in owners]


def _check_symbol(text: str, symbol: ItemSymbol, word: str) -> None:
    """Raises RenameError if another symbol that may stand in the same places has the name."""
    kinds = ("buffer", "spec", "param") if symbol.owner != MODULE else (symbol.kind,)
    for start, item in _items(text):
        for occurrence in occurrences(item, start):
            other = occurrence.symbol
            if other.name == word and other.kind in kinds and other.owner == symbol.owner:
                raise RenameError(f"@{word} is the name of another {other.kind} here")


def _same(text: str, symbol: ItemSymbol) -> list[Occurrence]:
    """All places of a symbol.  Programs are named in pipelines, and so are their params."""
    found: list[Occurrence] = []
    for start, item in _items(text):
        kind, name = head_of(item)
        if symbol.owner in (MODULE, (kind, name)) or kind == "pipeline":
            found += [o for o in occurrences(item, start) if o.symbol == symbol]
    return found


def _items(text: str) -> Sequence[tuple[int, str]]:
    return [(span.start, text[span.start : span.end]) for span in items_of(text)[1]]


def _item_at(text: str, offset: int) -> Span | None:
    return next((span for span in items_of(text)[1] if span.start <= offset <= span.end), None)


def _moved(spans: Sequence[Span], by: int) -> list[Span]:
    return [Span(start + by, end + by) for start, end in spans]
