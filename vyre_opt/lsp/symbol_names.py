"""Symbols of a text: the `@names` that mean one item, or one buffer, constant or parameter of an item.

Read from the text alone, by the words around a name, so that it works while the text does not parse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..ir.grids import FUNCTIONS
from .text_parts import Span

__all__ = ["Occurrence", "ItemSymbol", "head_of", "occurrences", "symbol_at"]

_HEAD = re.compile(r"\s*(program|func|pipeline)\s+@([\w.$]+)", re.ASCII)
_SIGN = re.compile(
    r"""//[^\n]*+ | "(?:[^"\\\n]|\\.)*+" | (?P<symbol>@[\w.$]+) | (?P<value>%[\w.$]+) | (?P<word>[A-Za-z_][\w.]*+) | (?P<number>\d[\w.]*+)
       | (?P<sign>->|[()\[\]{}<>:=])""",
    re.ASCII | re.VERBOSE,
)


class ItemSymbol(NamedTuple):
    """`kind`: program, func, pipeline, buffer, spec, param or label; `owner`: kind and name of the item that has it."""

    kind: str
    owner: tuple[str, str]
    name: str


class Occurrence(NamedTuple):
    symbol: ItemSymbol
    span: Span
    is_definition: bool


MODULE = ("", "")
"""The owner of items."""


def head_of(item: str) -> tuple[str, str]:
    """The kind and the name of an item, as far as its text has them."""
    match = _HEAD.match(item)
    return (match[1], match[2]) if match else ("", "")


def symbol_at(texts: Sequence[tuple[int, str]], offset: int) -> Occurrence | None:
    """The name that an offset is in, or right behind.  `texts`: those of the items, by where they begin."""
    for start, item in texts:
        if start <= offset <= start + len(item):
            for occurrence in occurrences(item, start):
                if occurrence.span.start <= offset <= occurrence.span.end:
                    return occurrence
    return None


def occurrences(item: str, start: int = 0) -> Iterator[Occurrence]:
    """All symbols in the text of an item that begins at `start`."""
    kind, name = head_of(item)
    reader = _PipelineReader((kind, name)) if kind == "pipeline" else _BodyReader((kind, name))
    for match in _SIGN.finditer(item):
        if match.lastgroup == "symbol":
            symbol, is_definition = reader.symbol(match[0][1:])
            span = Span(start + match.start(), start + match.end())
            yield Occurrence(symbol, span, is_definition)
        if match.lastgroup is not None:
            reader.read(match[0], match.lastgroup)


class _BodyReader:
    """Tells what names are in a program or a func, by the word or sign before each."""

    def __init__(self, owner: tuple[str, str]) -> None:
        self.owner = owner
        self.last = self.second_last = ""

    def read(self, text: str, kind: str) -> None:
        self.second_last, self.last = self.last, text

    def symbol(self, name: str) -> tuple[ItemSymbol, bool]:
        last = self.last
        if last in ("program", "func", "pipeline"):
            return ItemSymbol(last, MODULE, name), True
        if last == "call":
            return ItemSymbol("func", MODULE, name), False
        if last == "region":
            return ItemSymbol("label", self.owner, name), False
        if last in ("spec", "param"):
            return ItemSymbol(last, self.owner, name), self.second_last != "="
        if last in (":", "->", "x", "<"):
            return ItemSymbol("spec", self.owner, name), False
        return ItemSymbol("buffer", self.owner, name), last == "buffer"


class _PipelineReader(_BodyReader):
    """Tells what names are in a pipeline: of a launch by its parts, elsewhere by the word before."""

    def __init__(self, owner: tuple[str, str]) -> None:
        super().__init__(owner)
        self.program = ""
        self.calls: list[str] = []  # the word before each open parenthesis; "[" for a bracket

    def read(self, text: str, kind: str) -> None:
        if text in ("(", "["):
            self.calls.append(self.last if text == "(" else text)
        elif text in (")", "]") and self.calls:
            self.calls.pop()
        super().read(text, kind)

    def symbol(self, name: str) -> tuple[ItemSymbol, bool]:
        last, call = self.last, self.calls[-1] if self.calls else ""
        if last == "launch":
            self.program = name
            return ItemSymbol("program", MODULE, name), False
        if last in ("pipeline", "buffer", "spec", ":", "x", "<"):
            return super().symbol(name)
        if last == "param":
            return ItemSymbol("param", self.owner, name), True
        if call == "params" and last != "=":
            return ItemSymbol("param", ("program", self.program), name), False
        if call == "params" or (call and call != "len" and self._is_extent):
            return ItemSymbol("param", self.owner, name), False
        return ItemSymbol("buffer", self.owner, name), False

    @property
    def _is_extent(self) -> bool:
        """Whether a number is what is written here: a part of a grid, or of the size of a buffer."""
        return "grid" in self.calls or self.calls[-1] in (*FUNCTIONS, "[")
