"""A search through a file of any size, in bounded memory, for the matches that grep shows, with the bytes that matched."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .data import octets_of
from .disjoint import Disjoint, Row
from .matched_text import MatchedText
from .matches import Matches
from .stream import Stream

if TYPE_CHECKING:
    from .scanner import Scanner

__all__ = ["GrepMatch", "GrepStream", "longest_match", "matches_within"]

Array = np.ndarray[Any, Any]

LONGEST = 1 << 16
"""Bytes of the longest match that is given of expressions whose matches differ in length."""


class GrepMatch(NamedTuple):
    """`start`, `end`: of the characters in the text as it was given.  `content`: the decoded bytes that match."""

    start: int
    end: int
    pattern: int
    content: bytes


def longest_match(scanner: Scanner) -> int:
    """Bytes of the longest match that a stream gives, which bounds what it keeps."""
    tables = scanner._tables
    return tables.compiled.longest if tables.knows_lengths else LONGEST


class GrepStream:
    """`feed` takes the next part of a text, `finish` is called at its end; both give what they find.

    Where matches overlap, the leftmost is given, of these the longest, and the next one begins behind it; with `overlapping`
    all are, in the order of their ends.  Of regular expressions whose matches differ in length, no match is longer than
    LONGEST bytes.
    """

    def __init__(self, scanner: Scanner, *, overlapping: bool = False) -> None:
        is_exact = scanner._tables.knows_lengths
        self._scanner = scanner
        self._stream = scanner._stream(longest=None if is_exact else LONGEST)
        longest = longest_match(scanner)
        self._text = MatchedText(scanner._encoding, longest)
        self._disjoint = (
            None if overlapping else Disjoint(longest, None if is_exact else self._matches_within)
        )

    def feed(self, data: Any) -> Matches:
        """The matches that are known after the next part.  `contents` may be asked for until the next call."""
        octets = octets_of(data, "data")
        self._text.add(octets)
        matches = self._stream.feed(octets)
        return matches if self._disjoint is None else self._disjoint.choose(matches, self._stream.known)

    def finish(self) -> Matches:
        matches = self._stream.finish()
        return matches if self._disjoint is None else self._disjoint.choose(matches, None)

    def contents(self, matches: Matches) -> Iterator[GrepMatch]:
        """The matches of the last call, with the bytes that matched."""
        first, last = matches.encoded_spans()
        columns = (matches.starts, matches.ends, matches.patterns, first, last)
        return starmap(self._with_content, zip(*(column.tolist() for column in columns), strict=True))

    def _with_content(self, start: int, end: int, pattern: int, first: int, last: int) -> GrepMatch:
        return GrepMatch(first, last, pattern, self._text.content(start, end, first, last))

    def _matches_within(self, row: Row, start: int) -> list[Row]:
        begin, end, _, first, last = row
        content = self._text.content(begin, end, first, last)[start - begin :]
        found = matches_within(self._scanner, content)
        starts, ends = found.starts + np.uint64(start), found.ends + np.uint64(start)
        spans = self._text.spans(begin, first, last, starts, ends)
        return list(zip(starts.tolist(), ends.tolist(), found.patterns.tolist(), *spans, strict=True))


def matches_within(scanner: Scanner, content: bytes) -> Matches:
    """All matches in decoded bytes, whatever the scanner's encoding is."""
    return Stream(scanner._tables, None, True, scanner._dispatcher).all_in(content)
