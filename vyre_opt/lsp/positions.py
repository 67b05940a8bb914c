"""Places in a text: offsets in characters here, lines and columns in the protocol.

A column counts the code units of the encoding that client and server have agreed on: UTF-16 where nothing else is said,
so that a character beyond the Basic Multilingual Plane counts twice.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from lsprotocol import types

from .text_parts import Span

__all__ = ["LineIndex"]

_LINE_END = re.compile(r"\r\n|\n|\r")


class LineIndex:
    """Offsets in `text` from and to positions; a position outside of the text is its nearest place."""

    def __init__(
        self, text: str, encoding: types.PositionEncodingKind = types.PositionEncodingKind.Utf16
    ) -> None:
        self.text = text
        self.encoding = encoding
        self._is_ascii = text.isascii()
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def position(self, offset: int) -> types.Position:
        line = bisect_right(self._starts, offset) - 1
        start = self._starts[line]
        return types.Position(line, self._units(self.text[start:offset]))

    def range(self, span: Span) -> types.Range:
        return types.Range(self.position(span.start), self.position(span.end))

    def offset(self, position: types.Position) -> int:
        if position.line >= len(self._starts):
            return len(self.text)
        start = self._starts[position.line]
        line = self.line(position.line)
        if self._is_ascii:
            return start + min(position.character, len(line))
        units = 0
        for number, character in enumerate(line):
            if units >= position.character:
                return start + number
            units += self._units(character)
        return start + len(line)

    def span(self, range: types.Range) -> Span:
        return Span(self.offset(range.start), self.offset(range.end))

    def line(self, number: int) -> str:
        """The text of a line without its end."""
        last = number + 1 == len(self._starts)
        text = self.text[self._starts[number] : None if last else self._starts[number + 1]]
        return text.rstrip("\r\n")

    def edited(self, change: types.TextDocumentContentChangeEvent) -> LineIndex:
        """The text after a change that the client tells of."""
        if isinstance(change, types.TextDocumentContentChangePartial):
            start, end = self.span(change.range)
            text = f"{self.text[:start]}{change.text}{self.text[max(start, end) :]}"
        else:
            text = change.text
        return LineIndex(text, self.encoding)

    def _units(self, text: str) -> int:
        if self._is_ascii or self.encoding == types.PositionEncodingKind.Utf32:
            return len(text)
        if self.encoding == types.PositionEncodingKind.Utf8:
            return len(text.encode(errors="surrogatepass"))
        return len(text) + sum(character > "\uffff" for character in text)
