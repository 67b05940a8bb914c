"""Search on the CPU for the places where an automaton accepts: launches of programs over pieces of data.

A piece begins some bytes before what it reports, as many as an automaton must see to be in the right state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from vyre_opt.execution import output_memory
from vyre_opt.execution.target import Target

from ..patterns.automaton import Automaton, concatenated_ranges
from ..programs.pattern_walk import CHAINS, pattern_walk
from .launch import launch
from .prefilter import Prefilter

__all__ = ["CpuSearch"]

Array = np.ndarray[Any, Any]

WALKED_PIECE, FILTERED_PIECE = 1 << 13, 1 << 15
"""Bytes of a piece, if the automaton needs to see few bytes before it."""

FEW_BYTES = 256
"""Bytes that are walked through without a launch."""

FIRST_ROOM = 64
"""Hits of a piece for which there is room at first; of one with more they are only counted, and it is searched again."""

TRY_AGAIN = 16
"""Windows after which a filter that was slower than a walk is tried again."""


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """`begins` and `reports` of pattern_walk, for `count` pieces, and the slots of their hits, with the one behind the last.

    `words`: of a search by walks, a quarter of the bytes of each piece.
    """

    begins: Array
    reports: Array
    slots: Array
    words: int

    @classmethod
    def of(cls, begins: Array, shown: Array, until: Array, slots: Array, words: int) -> _Pieces:
        count = len(begins)
        rows = count + -count % CHAINS  # the last are of no piece, and report nothing
        padded, reports = np.zeros(rows, np.uint32), np.zeros((rows, 4), np.uint32)
        padded[:count] = begins
        for column, values in enumerate((shown, until, slots[:-1], slots[1:])):
            reports[:count, column] = values
        return cls(padded, reports, slots, words)

    def __len__(self) -> int:
        return len(self.slots) - 1

    def chosen(self, which: Array, slots: Array) -> _Pieces:
        shown, until = self.reports[which, :2].T
        return _Pieces.of(self.begins[which], shown, until, slots, self.words)


@lru_cache(maxsize=8)
def _filtered_pieces(least: int, start: int, end: int, warmup: int, room: int) -> _Pieces:
    """`least`: bytes of a piece.  `room`: for the hits of each."""
    size = max(least, 8 * warmup)
    shown = np.arange(start, end, size, dtype=np.int64)
    slots = np.arange(len(shown) + 1) * room
    return _Pieces.of(np.maximum(shown - warmup, 0), shown, np.minimum(shown + size, end), slots, 0)


@lru_cache(maxsize=8)
def _walked_pieces(least: int, start: int, end: int, warmup: int, room: int) -> _Pieces:
    """Pieces of equal length, the last of which ends with the data; or which are longer than all data."""
    size = max(least, 4 * warmup)
    if end - start < CHAINS * size:
        size = max(64, -(-(end - start) // CHAINS))
    words = -(-(size + warmup) // 4)
    shown = np.arange(start, end, size, dtype=np.int64)
    begins = np.maximum(np.minimum(shown - warmup, end - 4 * words), 0)
    begins[-1] = max(0, end - 4 * words)
    slots = np.arange(len(shown) + 1) * room
    return _Pieces.of(begins, shown, np.minimum(shown + size, end), slots, words)


@dataclass(slots=True)
class CpuSearch:
    """Searches data in windows, for one thread at a time: how much a window held says how much room the next one gets.

    `prefilter`: of literals, or None.  `room`: for the hits of a piece.
    """

    automaton: Automaton
    prefilter: Prefilter | None
    dispatcher: Target
    room: int = FIRST_ROOM
    _windows_without_filter: int = field(default=0, init=False)

    def search(self, data: Array, start: int) -> Array:
        """The hits at `start` and after it, as Automaton.matches takes them.

        `data`: u8, less than 4 GiB; before `start` it has what the automaton must see, as far as there is anything.
        """
        if len(data) <= FEW_BYTES:
            return self._by_hand(data, start)
        span = start, len(data), self.automaton.warmup, self.room
        prefilter = self.prefilter
        if prefilter is not None and self._windows_without_filter:
            self._windows_without_filter -= 1
        if prefilter is None or self._windows_without_filter:
            pieces = _walked_pieces(WALKED_PIECE, *span)
            behind = 4 * pieces.words - len(data)
            if behind > 0:
                data = np.append(data, np.zeros(behind, np.uint8))
            return self._launch(data, pieces)[0]
        hits, walks = self._launch(data, _filtered_pieces(FILTERED_PIECE, *span), prefilter)
        if walks * prefilter.walk_bytes > len(data):
            self._windows_without_filter = TRY_AGAIN
        return hits

    def _by_hand(self, data: Array, start: int) -> Array:
        packed, automaton, state = [], self.automaton, 0
        follow, first = automaton.transitions.item, automaton.first_accepting
        for position, column in enumerate(automaton.classes[data].tolist()):
            state = follow(state, column)
            if state >= first and position >= start:
                packed.append(position << 32 | state - first)
        return np.array(packed, np.uint64)

    # --- launches

    def _launch(self, data: Array, pieces: _Pieces, prefilter: Prefilter | None = None) -> tuple[Array, int]:
        """The hits in pieces, and how often the prefilter had to walk."""
        hits, counts, walks = self._run(data, pieces, prefilter)
        room, most = self.room, int(counts.max())
        if most == 0 or (len(counts) == 1 and most <= room):
            return hits[:most], walks
        self.room = max(FIRST_ROOM, min(2 * most, 4 * FILTERED_PIECE))
        fits = counts <= room
        hits = hits[concatenated_ranges(pieces.slots[:-1][fits], counts[fits])]
        if most > room:  # pieces with more hits than there was room for are searched once more
            slots = np.append(0, np.cumsum(counts[~fits]))
            more, _, _ = self._run(data, pieces.chosen(np.flatnonzero(~fits), slots), prefilter)
            hits = np.sort(np.concatenate([hits, more]), kind="stable")
        return hits, walks

    def _run(self, data: Array, pieces: _Pieces, prefilter: Prefilter | None) -> tuple[Array, Array, int]:
        """One launch: @hits, @counts as i64, and the sum of @walks."""
        automaton, rows = self.automaton, len(pieces.begins)
        hits = output_memory.empty(int(pieces.slots[-1]), np.dtype(np.uint64))
        counts, walks = np.zeros((2, rows), np.uint32)
        tables = [data, automaton.columns, automaton.cells]
        arrays = [*tables, pieces.begins, pieces.reports.reshape(-1), counts, hits]
        if prefilter is None:
            params = automaton.params | {"words": pieces.words}
            launch(self.dispatcher, pattern_walk(), arrays, rows // CHAINS, params)
        else:
            arrays += [prefilter.table, walks]
            params = automaton.params | prefilter.params
            launch(self.dispatcher, prefilter.program, arrays, len(pieces), params)
        return hits, counts[: len(pieces)].astype(np.int64), int(walks.sum())
