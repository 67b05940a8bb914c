"""A search through a file of any size, in bounded memory, for the matches that grep shows, with the bytes that matched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..patterns.rule_facts import UNBOUNDED
from .data import octets_of
from .disjoint import Disjoint
from .encodings import BLANK, RAW, Encoding
from .matches import Matches

if TYPE_CHECKING:
    from .scanner import Scanner

__all__ = ["LONGEST", "GrepMatch", "GrepStream", "longest_match"]

LONGEST = 1 << 16
"""Bytes that are seen of a match of an expression whose matches may have any length."""
MOST_BLANKS = 1 << 16
"""A match that has more blanks and line breaks between its characters, and begins in an earlier part, loses its start."""


class GrepMatch(NamedTuple):
    """Match with its bytes.  `start`, `end`: places of its characters in the text.  `content`: the decoded bytes that match.

    `encoding`: of the blob that has it; "" for what no blob has.
    """

    start: int
    end: int
    pattern: int
    content: bytes
    encoding: str = ""


class GrepStream:
    """Search in a text: `feed` takes its next part, `finish` is called at its end; both give matches.

    Where matches overlap, the leftmost is given, of these the longest, and the next one begins behind it; with `overlapping`
    all are, in the order of their ends.  Empty matches are left out.  Of a match of an expression whose matches may have any
    length, LONGEST bytes are seen.
    """

    def __init__(self, scanner: Scanner, *, overlapping: bool = False) -> None:
        self._stream = scanner._stream(limit=LONGEST)
        # a match may wait for one of another pattern, which both see as many bytes of
        longest = max(longest_match(scanner), scanner._tables.reach)
        self._text = _MatchedText(scanner._encoding, 4 * longest)
        self._disjoint = None if overlapping else Disjoint()

    def feed(self, data: Any) -> Matches:
        """The matches that are known after the next part.  `contents` may be asked for until the next call."""
        octets = octets_of(data)
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
        for start, end, pattern, first, last in zip(*(column.tolist() for column in columns), strict=True):
            yield GrepMatch(first, last, pattern, self._text.content(start, end, first, last))


def longest_match(scanner: Scanner) -> int:
    """Bytes of the longest match that is found."""
    longest = scanner._tables.longest
    return longest if longest < UNBOUNDED else LONGEST


class _MatchedText:
    """The decoded bytes of matches in a text that comes in parts; only the last part is in memory.

    `add` takes each part before its matches are asked for.  `longest`: bytes of the longest match."""

    def __init__(self, encoding: Encoding, longest: int) -> None:
        self.encoding = encoding
        # twice as many characters as the bytes need, for line breaks, and what a decoder has not decoded yet
        self._reach = longest + 16 if encoding is RAW else 4 * longest + MOST_BLANKS
        self._tail = np.zeros(0, np.uint8)  # of what came before the part
        self._next_tail = np.zeros(0, np.uint8)  # of that and the part
        self._part = np.zeros(0, np.uint8)
        self._part_start = 0

    def add(self, part: Array) -> None:
        """The next part.  It is not looked at when the one after it comes, which may lie in the same memory."""
        self._part_start += len(self._part)
        self._tail, self._part = self._next_tail, part
        if len(part) >= self._reach:
            self._next_tail = part[-self._reach :].copy()
        else:
            self._next_tail = np.concatenate([self._tail, part])[-self._reach :]

    def _raw(self, first: int, last: int) -> Array:
        first, last = first - self._part_start, last - self._part_start
        if first >= 0:
            return self._part[first:last]
        size = len(self._tail)
        before = self._tail[max(0, size + first) : max(0, size + min(last, 0))]
        return np.concatenate([before, self._part[: max(0, last)]])

    def content(self, start: int, end: int, first: int, last: int) -> bytes:
        """The decoded bytes from `start` up to `end`, which the characters from `first` up to `last` hold."""
        raw = self._raw(first, last)
        characters = raw if self.encoding is RAW else raw[self.encoding.values[raw] != BLANK]
        return self.encoding.decode(characters, start * 8 % self.encoding.bits)[: end - start].tobytes()
