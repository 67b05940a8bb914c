"""A search through a file of any size, in bounded memory, for the matches that grep shows, with the bytes that matched."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from .data import octets_of
from .disjoint import Disjoint
from .matched_text import MatchedText
from .matches import Matches

if TYPE_CHECKING:
    from .scanner import Scanner

__all__ = ["LONGEST", "GrepMatch", "GrepStream"]

LONGEST = 1 << 16
"""Bytes that are seen of a match of an expression whose matches may have any length."""


class GrepMatch(NamedTuple):
    """`start`, `end`: of the characters in the text as it was given.  `content`: the decoded bytes that match.

    `encoding`: of the blob that has it; "" for what no blob has.
    """

    start: int
    end: int
    pattern: int
    content: bytes
    encoding: str = ""


class GrepStream:
    """`feed` takes the next part of a text, `finish` is called at its end; both give what they find.

    Where matches overlap, the leftmost is given, of these the longest, and the next one begins behind it; with `overlapping`
    all are, in the order of their ends.  Empty matches are left out.  Of a match of an expression whose matches may have any
    length, LONGEST bytes are seen.
    """

    def __init__(self, scanner: Scanner, *, overlapping: bool = False) -> None:
        self._stream = scanner._stream(limit=LONGEST)
        # a match may wait for one of another pattern, which both see as many bytes of
        longest = scanner._tables.longest
        seen = LONGEST if longest is None else longest
        self._text = MatchedText(scanner._encoding, 4 * max(seen, scanner._tables.reach))
        self._disjoint = None if overlapping else Disjoint()

    def feed(self, data: Any) -> Matches:
        """The matches that are known after the next part.  `contents` may be asked for until the next call."""
        octets = octets_of(data, "data")
        self._text.add(octets)
        return self._chosen(self._stream.feed(octets), self._stream.settled)

    def finish(self) -> Matches:
        return self._chosen(self._stream.finish(), None)

    def _chosen(self, matches: Matches, settled: int | None) -> Matches:
        is_empty = matches.starts == matches.ends
        if is_empty.any():
            matches = matches[~is_empty]
        return matches if self._disjoint is None else self._disjoint.choose(matches, settled)

    def contents(self, matches: Matches) -> Iterator[GrepMatch]:
        """The matches of the last call, with the bytes that matched."""
        first, last = matches.encoded_spans()
        columns = (matches.starts, matches.ends, matches.patterns, first, last)
        return starmap(self._with_content, zip(*(column.tolist() for column in columns), strict=True))

    def _with_content(self, start: int, end: int, pattern: int, first: int, last: int) -> GrepMatch:
        return GrepMatch(first, last, pattern, self._text.content(start, end, first, last))
