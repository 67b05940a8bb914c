"""Searches for lines that match: they give the spans of matches in documents, none of which crosses a line break."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..search.scanner import Scanner

__all__ = ["LineSearch", "PlainSearch", "ScannerSearch", "Span", "line_parts"]

Span = tuple[int, int, int]
"""Start and end of a match, and the number of its pattern."""
DocumentSpans = tuple[int, list[Span]]
"""Number of a document that has a match, a slice of data, and its matches in order, none of which overlap."""

BOUNDS = {"word": re.compile(rb"\w"), "whole": re.compile(rb"[^\n]")}
"""Bytes that may not stand before and behind a literal."""


class PlainSearch:
    """Search for one literal by methods of bytes: nothing has to be loaded first."""

    def __init__(self, literal: bytes, bounds: str) -> None:
        self.literal, self.bounds = literal, BOUNDS.get(bounds)

    def spans(self, data: bytes, begins: Sequence[int], ends: Sequence[int]) -> Iterator[DocumentSpans]:
        literal, size, find = self.literal, len(self.literal), data.find
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            at = find(literal, begin, end)
            if at < 0:
                continue
            spans = []
            while at >= 0:
                is_match = self.bounds is None or self._is_apart(data, at, begin, end, self.bounds)
                if is_match:
                    spans.append((at, at + size, 0))
                at = find(literal, at + size if is_match else at + 1, end)
            if spans:
                yield number, spans

    def _is_apart(self, data: bytes, at: int, begin: int, end: int, forbidden: re.Pattern[bytes]) -> bool:
        """Whether a match at `at` in a document has no forbidden byte beside it."""
        stop = at + len(self.literal)
        return not (at > begin and forbidden.match(data, at - 1)) and not forbidden.match(data, stop, end)


class ScannerSearch:
    """Search for any patterns, whose expressions have their bounds in themselves."""

    def __init__(self, scanner: Scanner, overlapping: bool) -> None:
        self.scanner, self.overlapping = scanner, overlapping

    def spans(self, data: bytes, begins: Sequence[int], ends: Sequence[int]) -> Iterator[DocumentSpans]:
        import numpy as np

        from ..search.disjoint import Disjoint
        from ..search.matches import Matches
        from ..search.segments import matches_in

        octets = np.frombuffer(data, np.uint8)
        first, last = np.array(begins, np.int64), np.array(ends, np.int64)
        matches = Matches(*matches_in(self.scanner, octets, first, last))
        if not len(matches):
            return
        if not self.overlapping:
            is_empty = matches.starts == matches.ends
            disjoint = Disjoint().choose(matches[~is_empty], None)
            matches = Matches.joined([disjoint, matches[is_empty]])
        matches = matches[np.lexsort((matches.ends, matches.starts))]
        documents = np.searchsorted(first, matches.starts, side="right") - 1
        edges = np.flatnonzero(np.diff(documents, prepend=-1, append=-2)).tolist()
        columns = (matches.starts, matches.ends, matches.patterns)
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        for at, end in pairwise(edges):
            yield int(documents[at]), rows[at:end]


LineSearch = PlainSearch | ScannerSearch


def line_parts(parts: Iterator[bytes | memoryview]) -> Iterator[bytes]:
    """The same bytes in parts that end with lines."""
    waiting: list[bytes] = []
    for part in parts:
        content = bytes(part)
        end = content.rfind(b"\n") + 1
        if end:
            yield b"".join([*waiting, content[:end]])
            waiting = [content[end:]] if end < len(content) else []
        else:
            waiting.append(content)
    if waiting:
        yield b"".join(waiting)
