"""A search through data that comes in parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..patterns.automaton import DATA_EDGE
from ..patterns.find import matches_of
from ..runtime.cpu import CpuDispatcher
from .cpu import CpuSearch, Hits
from .data import octets_of
from .decoder import Decoder
from .encodings import Encoding
from .matches import Matches
from .tables import SearchTables

__all__ = ["Stream"]

Array = np.ndarray[Any, Any]

WINDOW = 1 << 23
"""Bytes of a window of data that nothing encodes, for each thread."""
MOST_BYTES = 1 << 30
SEAM = 1 << 16
"""Bytes at the start of a part that are searched together with the last bytes of the part before."""


class Stream:
    """`feed` takes the next part of the data, `finish` is called at its end.  Each gives the matches that it brings.

    A match belongs to the part that has its last byte, or the one after, if an anchor looks at that.  Offsets count from the
    start of the first part.  Where matches of a pattern differ in length, all matches come at the end, and
    the data is kept until then.
    """

    def __init__(
        self, tables: SearchTables, encoding: Encoding | None, strict: bool, dispatcher: CpuDispatcher
    ) -> None:
        self._tables, self._encoding = tables, encoding
        compiled = tables.compiled
        self._search = CpuSearch(compiled.search, tables.cells, compiled.warmup, tables.filter, dispatcher)
        self._reach = 0 if compiled.warmup is None else compiled.warmup + 1
        self._decoder = None if encoding is None else Decoder(encoding, strict, dispatcher, self._reach)
        self._window = min(WINDOW * dispatcher.workers, MOST_BYTES)
        self._state = self._last = int(compiled.search.entries[0, DATA_EDGE])
        self._history = np.zeros(0, np.uint8)
        self._searched = 0
        self._kept: list[bytes] = []
        self._found: list[tuple[int, Hits]] = []

    def feed(self, data: Any) -> Matches:
        """The matches that the next part of the data brings."""
        octets = octets_of(data, "data")
        if self._decoder is None:
            for part in self._parts(octets):
                self._search_window(*part)
        else:
            for buffer in self._decoder.decode(octets):
                self._search_decoded(buffer)
        return self._matches(self._new_matches())

    def finish(self) -> Matches:
        """The matches that show only at the end."""
        if self._decoder is not None:
            self._search_decoded(self._decoder.finish())
        if self._tables.knows_lengths:
            found = [self._new_matches(), self._matches_at_end()]
            return self._matches(tuple(np.concatenate(columns) for columns in zip(*found, strict=True)))
        return self._matches(self._all_matches())

    @property
    def known(self) -> int:
        """All matches that end up to here, an offset in the decoded bytes, were given."""
        return max(0, self._searched - 2 * self._tables.compiled.search.looks_ahead)  # `$` sees two bytes

    # --- windows

    def _parts(self, octets: Array) -> Iterator[tuple[Array, int]]:
        """Windows, and how many bytes of each were in the window before."""
        first = 0
        if len(self._history):
            first = min(len(octets), max(SEAM, self._reach))
            yield np.concatenate([self._history, octets[:first]]), len(self._history)
        while first < len(octets):
            end = min(first + self._window, len(octets))
            before = min(self._reach, first)
            yield octets[first - before : end], before
            first = end

    def _search_decoded(self, buffer: Array) -> None:
        known = len(self._history)
        window = buffer[self._reach - known :]
        window[:known] = self._history
        self._search_window(window, known)

    def _search_window(self, window: Array, known: int) -> None:
        """`known`: bytes of the window that were searched before."""
        if len(window) == known:
            return
        hits = self._search.search(window, known, self._state)
        if self._reach == 0:
            self._state = hits.state
        self._last = hits.state
        if not self._tables.knows_lengths:
            self._kept.append(window[known:].tobytes())
        base = self._searched - known
        self._searched += len(window) - known
        if self._reach:
            self._history = window[max(0, len(window) - self._reach) :].copy()
        if len(hits.places):
            self._found.append((base, hits))

    # --- matches

    def _new_matches(self) -> tuple[Array, Array, Array]:
        """The starts, ends and patterns of what was found since the last call."""
        if not self._found or not self._tables.knows_lengths:
            return _no_matches()
        found, self._found = self._found, []
        columns = [self._shown(hits, base) for base, hits in found]
        return columns[0] if len(columns) == 1 else tuple(map(np.concatenate, zip(*columns, strict=True)))  # type: ignore[return-value]

    def _shown(self, hits: Hits, base: int) -> tuple[Array, Array, Array]:
        search = self._tables.compiled.search
        behind = np.uint64(base + 1)
        if self._tables.shows_one_each:
            sets = hits.states - np.uint32(search.first_accepting)
            patterns, ends = search.accept_patterns[sets], hits.places + behind
            lags = search.accept_lags[sets] if search.looks_ahead else None
        else:
            index, patterns, lags = search.accepted(hits.states)
            ends = hits.places[index] + behind
        if search.looks_ahead:
            assert lags is not None
            ends = ends - lags
            order = np.lexsort((patterns, ends))
            patterns, ends = patterns[order], ends[order]
        return ends - self._tables.compiled.lengths[patterns], ends, patterns

    def _matches_at_end(self) -> tuple[Array, Array, Array]:
        """Those that show only where the data ends.  They end there, or one byte before."""
        compiled = self._tables.compiled
        if not compiled.search.looks_ahead:
            return _no_matches()
        patterns, lags = compiled.search.accepted_at_end(self._last)
        order = np.lexsort((patterns, -lags.astype(np.int64)))
        ends = np.uint64(self._searched) - lags[order].astype(np.uint64)
        return ends - compiled.lengths[patterns[order]], ends, patterns[order]

    def _all_matches(self) -> tuple[Array, Array, Array]:
        data = b"".join(self._kept)
        places = [hits.places.astype(np.int64) + base for base, hits in self._found]
        states = [hits.states for _, hits in self._found]
        none = np.zeros(0, np.int64)
        found = matches_of(
            self._tables.compiled,
            data,
            np.concatenate([none, *places]),
            np.concatenate([none, *states]),
            self._last,
        )
        columns = np.array(found, np.uint64).reshape(-1, 3).T
        return columns[0].copy(), columns[1].copy(), columns[2].astype(np.uint32)

    def _matches(self, columns: tuple[Array, ...]) -> Matches:
        starts, ends, patterns = columns
        if self._encoding is None or self._decoder is None:
            return Matches(starts, ends, patterns)
        first, last = self._encoding.spans(starts, ends)
        places = self._decoder.places
        spans = places.of(first), places.of(last - np.uint64(1)) + np.uint64(1)
        if self._tables.knows_lengths:
            done = max(0, self._searched - self._reach)
            places.forget(done * self._encoding.characters // self._encoding.octets)
        return Matches(starts, ends, patterns, spans)


def _no_matches() -> tuple[Array, Array, Array]:
    return np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.uint32)
