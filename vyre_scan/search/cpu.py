"""Search on the CPU for the places where an automaton accepts: launches of programs over pieces of data.

A piece begins some bytes before what it reports, as many as an automaton must see to be in the right state.
"""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache

import numpy as np

from vyre_opt.driver.direct_launch import launch
from vyre_opt.execution import output_memory
from vyre_opt.execution.target import Target
from vyre_opt.ir.ops import SUBGROUP_SIZE
from vyre_opt.records import dataclass

from ..arrays import Array
from ..patterns.automaton import Automaton
from ..programs.pattern_filter import pattern_filter
from ..programs.pattern_grams import pattern_grams
from ..programs.pattern_walk import CHAINS, pattern_walk
from ..programs.start_walk import start_walk
from .prefilter import Prefilter

__all__ = ["CpuSearch"]

WALKED_PIECE, FILTERED_PIECE = 1 << 13, 1 << 15
"""Bytes of a piece, if the automaton needs to see few bytes before it."""

FEW_BYTES = 256
"""Bytes that are walked through without a launch."""

WALK_BYTES = 30
"""A walk from a place where a literal may begin takes as long as a walk through so many bytes of all."""

TRY_AGAIN = 16
"""Windows after which a filter that was slower than a walk is tried again."""


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """Pieces of data as `begins` and `reports` of pattern_walk: `count`, and some that report nothing up to a multiple of CHAINS.

    `words`: of a search by walks, a quarter of the bytes of each piece.  `longest`: bytes of the longest,
    rounded up to a multiple of SUBGROUP_SIZE.
    """

    begins: Array
    reports: Array
    count: int
    words: int
    longest: int

    @classmethod
    def of(cls, begins: Array, report_starts: Array, end: int, words: int) -> _Pieces:
        """Pieces that report from `report_starts` on, each up to the next one, the last up to `end`."""
        bounds = np.append(report_starts, end)
        padding = -len(begins) % CHAINS
        reports = np.pad(np.stack([bounds[:-1], bounds[1:]], axis=1), ((0, padding), (0, 0)))
        all_begins = np.pad(begins, (0, padding))
        longest = -(-int((bounds[1:] - begins).max()) // SUBGROUP_SIZE) * SUBGROUP_SIZE
        return cls(all_begins.astype(np.uint32), reports.astype(np.uint32), len(begins), words, longest)


@lru_cache(maxsize=8)
def _filtered_pieces(least: int, start: int, end: int, warmup: int) -> _Pieces:
    """Pieces of `least` bytes and more."""
    report_starts = np.arange(start, end, max(least, 8 * warmup), dtype=np.int64)
    return _Pieces.of(np.maximum(report_starts - warmup, 0), report_starts, end, 0)


@lru_cache(maxsize=8)
def _walked_pieces(least: int, start: int, end: int, warmup: int) -> _Pieces:
    """Pieces of equal length, the last of which ends with the data; or which are longer than all data."""
    size = max(least, 4 * warmup)
    if end - start < CHAINS * size:
        size = max(64, -(-(end - start) // CHAINS))
    words = -(-(size + warmup) // 4)
    report_starts = np.arange(start, end, size, dtype=np.int64)
    begins = np.maximum(np.minimum(report_starts - warmup, end - 4 * words), 0)
    begins[-1] = max(0, end - 4 * words)
    return _Pieces.of(begins, report_starts, end, words)


@dataclass(slots=True)
class CpuSearch:
    """Searches data in windows, for one thread at a time.  `prefilter`: of literals, or None."""

    automaton: Automaton
    prefilter: Prefilter | None
    dispatcher: Target
    _windows_without_filter: int = field(default=0, init=False)

    def search(self, data: Array, start: int) -> Array:
        """The hits at `start` and after it, as Automaton.matches takes them.

        `data`: u8, less than 4 GiB; before `start` it has what the automaton must see, as far as there is anything.
        """
        if len(data) <= FEW_BYTES:
            return self._by_hand(data, start)
        span = start, len(data), self.automaton.warmup
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
        if walks * WALK_BYTES > len(data):
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
        automaton, rows = self.automaton, len(pieces.begins)
        # room for one at each byte, most of whose pages nobody touches
        hits = output_memory.empty(len(data), np.dtype(np.uint64))
        counts, walks = np.zeros((2, rows), np.uint32)
        tables = [data, automaton.columns, automaton.cells]
        arrays = [*tables, pieces.begins, pieces.reports.reshape(-1), counts, hits]
        if prefilter is None:
            params = automaton.params | {"words": pieces.words}
            launch(self.dispatcher, pattern_walk(), arrays, rows // CHAINS, params)
        elif prefilter.stride:
            starts, params = self._starts(data, pieces, prefilter)
            arrays = [*arrays, starts[0], walks, *starts[1:]]
            launch(self.dispatcher, start_walk(), arrays, pieces.count, automaton.params | params)
        else:
            arrays += [prefilter.table, walks]
            launch(self.dispatcher, pattern_filter(), arrays, pieces.count, automaton.params)
        pieces_with_hits = np.flatnonzero(counts)
        firsts = pieces.reports[pieces_with_hits, 0].tolist()
        parts = [
            hits[first : first + count]
            for first, count in zip(firsts, counts[pieces_with_hits].tolist(), strict=True)
        ]
        return np.concatenate([hits[:0], *parts]), int(walks.sum())

    def _starts(
        self, data: Array, pieces: _Pieces, prefilter: Prefilter
    ) -> tuple[list[Array], dict[str, int]]:
        """@starts, and of each piece their number and the first position where nothing has looked; and the params of @starts."""
        shared = {"capacity": pieces.longest}
        room = pieces.count * pieces.longest
        blocks = output_memory.empty(room // SUBGROUP_SIZE, np.dtype(np.uint64))
        lists = output_memory.empty(2 * room, np.dtype(np.uint32)).reshape(2, -1)
        numbers = np.zeros((2, pieces.count), np.uint32)
        arrays = [data, pieces.begins, pieces.reports.reshape(-1), prefilter.table, blocks, *lists, *numbers]
        launch(
            self.dispatcher, pattern_grams(prefilter.stride), arrays, pieces.count, shared | prefilter.params
        )
        return [lists[1], *numbers], shared
