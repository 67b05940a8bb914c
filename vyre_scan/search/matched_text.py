"""The decoded bytes of matches, from a text that comes in parts, of which only the last is in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .encodings import BLANK, Encoding

__all__ = ["MatchedText"]

Array = np.ndarray[Any, Any]

MOST_BLANKS = 1 << 16
"""A match that has more blanks and line breaks between its characters, and begins in an earlier part, loses its start."""


class MatchedText:
    """`add` takes each part before its matches are asked for.  `longest`: bytes of the longest match."""

    def __init__(self, encoding: Encoding | None, longest: int) -> None:
        self.encoding = encoding
        # twice as many characters as the bytes need, for line breaks, and what a decoder has not decoded yet
        self._reach = longest + 16 if encoding is None else 4 * longest + MOST_BLANKS
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
        """The decoded bytes from `start` up to `end`, of which the text has the characters from `first` up to `last`."""
        raw = self._raw(first, last)
        if self.encoding is None:
            return raw.tobytes()
        characters = raw[self.encoding.values[raw] != BLANK]
        return self.encoding.decode_few(characters, start * 8 % self.encoding.bits)[: end - start].tobytes()
