"""Searches for lines that match: they give the spans of matches in documents, none of which crosses a line break."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..search.scanner import Scanner

__all__ = ["LineSearch", "PlainSearch", "ScannerSearch", "Span", "line_parts"]

Span = tuple[int, int, int]
"""Start and end of a match, and the number of its pattern."""

BOUNDS = {
    "word": (re.compile(rb"\w"), re.compile(rb"\w")),
    "whole": (re.compile(rb"[^\n]"), re.compile(rb"[^\n]")),
}
"""Bytes that may not stand before and behind a literal."""


class LineSearch(Protocol):
    def spans(
        self, data: bytes, begins: Sequence[int], ends: Sequence[int]
    ) -> Iterator[tuple[int, list[Span]]]:
        """The numbers of the documents that have a match, each with its matches, in order and without overlap.

        The documents are slices of `data`.
        """
        ...


class PlainSearch:
    """Search for one literal by methods of bytes: nothing has to be loaded first."""

    def __init__(self, literal: bytes, bounds: str) -> None:
        self.literal, self.bounds = literal, BOUNDS.get(bounds)

    def spans(
        self, data: bytes, begins: Sequence[int], ends: Sequence[int]
    ) -> Iterator[tuple[int, list[Span]]]:
        literal, size, find = self.literal, len(self.literal), data.find
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            at = find(literal, begin, end)
            if at < 0:
                continue
            spans = []
            while at >= 0:
                if self.bounds is None or _is_apart(data, at, at + size, begin, end, self.bounds):
                    spans.append((at, at + size, 0))
                    at = find(literal, at + size, end)
                else:
                    at = find(literal, at + 1, end)
            if spans:
                yield number, spans


def _is_apart(
    data: bytes,
    start: int,
    stop: int,
    begin: int,
    end: int,
    bounds: tuple[re.Pattern[bytes], re.Pattern[bytes]],
) -> bool:
    """Whether a match has none of what `bounds` forbids beside it, in a document."""
    before, behind = bounds
    return not (start > begin and before.match(data, start - 1)) and not (
        stop < end and behind.match(data, stop, end)
    )


class ScannerSearch:
    """Search for any patterns, whose expressions have their bounds in themselves."""

    def __init__(self, scanner: Scanner, overlapping: bool) -> None:
        self.scanner, self.overlapping = scanner, overlapping

    def spans(
        self, data: bytes, begins: Sequence[int], ends: Sequence[int]
    ) -> Iterator[tuple[int, list[Span]]]:
        import numpy as np

        from ..search.disjoint import Disjoint
        from ..search.matches import Matches
        from ..search.segments import matches_in

        octets = np.frombuffer(data, np.uint8)
        first, last = np.array(begins, np.int64), np.array(ends, np.int64)
        starts, stops, patterns = matches_in(self.scanner, octets, first, last)
        if not len(starts):
            return
        if not self.overlapping:
            is_empty = starts == stops
            full = ~is_empty
            found = Matches(
                starts[full].astype(np.uint64),
                stops[full].astype(np.uint64),
                patterns[full].astype(np.uint32),
            )
            chosen = Disjoint().choose(found, None)
            starts = np.concatenate([chosen.starts.astype(np.int64), starts[is_empty]])
            stops = np.concatenate([chosen.ends.astype(np.int64), stops[is_empty]])
            patterns = np.concatenate([chosen.patterns, patterns[is_empty]])
        order = np.lexsort((stops, starts))
        starts, stops, patterns = starts[order], stops[order], patterns[order]
        documents = np.searchsorted(first, starts, side="right") - 1
        edges = np.flatnonzero(np.diff(documents, prepend=-1, append=-2)).tolist()
        rows = list(zip(starts.tolist(), stops.tolist(), patterns.tolist(), strict=True))
        for at, end in pairwise(edges):
            yield int(documents[at]), rows[at:end]


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
