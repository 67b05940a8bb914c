"""A search for patterns whose matches differ in length, through data that comes in parts, in bounded memory.

To know where such a match starts takes the bytes before its end.  So each part is searched together with the last bytes of
those before, as many as a match may have:

    part      |----------------|
    searched  |----------------|
    part                        |----------------|
    searched               |----|----------------|
                            LONGEST

What `Stream` does instead is exact for longer matches too, and keeps all data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .data import octets_of
from .decoder import Decoder
from .encodings import ENCODINGS
from .matches import Matches, no_matches
from .stream import Stream

if TYPE_CHECKING:
    from .scanner import Scanner

__all__ = ["LONGEST", "SegmentedStream"]

Array = np.ndarray[Any, Any]

LONGEST = 1 << 16
"""Bytes of the longest match that is given."""
BESIDE = 2
"""Bytes after a match, and before it, that an anchor looks at."""


class SegmentedStream:
    """`feed` and `finish` as of Stream, without matches of more than LONGEST bytes."""

    def __init__(self, scanner: Scanner) -> None:
        self._tables, self._dispatcher = scanner._tables, scanner._dispatcher
        self._encoding = None if scanner.encoding is None else ENCODINGS[scanner.encoding]
        self._decoder = (
            None if self._encoding is None else Decoder(self._encoding, scanner.strict, self._dispatcher, 0)
        )
        self._tail = np.zeros(0, np.uint8)
        self._searched = 0
        self.known = 0
        """All matches that end up to here, an offset in the decoded bytes, were given."""

    def feed(self, data: Any) -> Matches:
        """The matches that the next part of the data brings."""
        octets = octets_of(data, "data")
        if self._decoder is None:
            return self._search(octets, is_last=False)
        parts = [self._search(decoded, is_last=False) for decoded in self._decoder.decode(octets)]
        return Matches.joined(parts or [no_matches()])

    def finish(self) -> Matches:
        """The matches that show only at the end."""
        rest = np.zeros(0, np.uint8) if self._decoder is None else self._decoder.finish()
        return self._search(rest, is_last=True)

    def _search(self, octets: Array, is_last: bool) -> Matches:
        segment = np.concatenate([self._tail, octets])
        base = self._searched - len(self._tail)
        self._searched += len(octets)
        stream = Stream(self._tables, None, True, self._dispatcher)
        matches = Matches.joined([stream.feed(segment), stream.finish()])
        starts, ends = matches.starts + np.uint64(base), matches.ends + np.uint64(base)
        until = self._searched if is_last else max(self.known, self._searched - BESIDE)
        chosen = (ends > self.known) & (ends <= until) & (ends - starts <= LONGEST)
        self.known = until
        self._tail = segment[max(0, len(segment) - LONGEST - 2 * BESIDE) :]
        return self._placed(starts[chosen], ends[chosen], matches.patterns[chosen])

    def _placed(self, starts: Array, ends: Array, patterns: Array) -> Matches:
        if self._encoding is None or self._decoder is None:
            return Matches(starts, ends, patterns)
        first, last = self._encoding.spans(starts, ends)
        places = self._decoder.places
        spans = places.of(first), places.of(last - np.uint64(1)) + np.uint64(1)
        done = max(0, self.known - LONGEST)
        places.forget(done * self._encoding.characters // self._encoding.octets)
        return Matches(starts, ends, patterns, spans)
