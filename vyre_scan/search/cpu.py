"""Search on the CPU for the places where an automaton accepts: launches of pattern_filter and pattern_walk over pieces of data.

A piece begins some bytes before what it reports, as many as an automaton must see to be in the right state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vyre_opt.execution import output_memory
from vyre_opt.execution.target import Target
from vyre_opt.ir.program import Program

from ..patterns.automaton import concatenated_ranges
from ..programs.pattern_filter import pattern_filter
from ..programs.pattern_grams import pattern_grams
from ..programs.pattern_matches import INVOCATIONS, match_columns
from ..programs.pattern_walk import CHAINS, pattern_walk
from .automaton_cells import AutomatonCells, launch, unpacked
from .prefilter import Prefilter

__all__ = ["CpuSearch"]

Array = np.ndarray[Any, Any]

WALKED_PIECE, FILTERED_PIECE = 1 << 13, 1 << 15
"""Bytes of a piece, if the automaton needs to see few bytes before it."""

FEW_HITS = 64
"""Hits of which the columns are made without a launch."""

FEW_BYTES = 256
"""Bytes that are walked through without a launch."""

FIRST_ROOM = 64
"""Hits of a piece for which there is room at first; of one with more they are only counted, and it is searched again."""

WALK_BYTES, WALK_BYTES_OF_GRAMS = 30, 80
"""A walk from a candidate takes as long as so many bytes of a walk through all; that of a gram begins earlier."""
TRY_AGAIN = 16
"""Windows after which a filter that was slower than a walk is tried again."""


class _LaunchPieces:
    """Pieces of a launch: `begins` and `shown`, `until` of pattern_walk, and in a search by walks `entries`.

    For walks the arrays have CHAINS times some rows; the last are of no piece, and show nothing.
    """

    def __init__(self, begins: Array, shown: Array, until: Array, entries: Array | None = None) -> None:
        self.count = count = len(begins)
        rows = count if entries is None else count + -count % CHAINS
        self.begins, self.reports = np.zeros(rows, np.uint32), np.zeros((rows, 4), np.uint32)
        self.begins[:count], self.reports[:count, 0], self.reports[:count, 1] = begins, shown, until
        self.entries = None if entries is None else np.resize(entries, rows)
        self.slots, self.room = np.zeros(1, np.int64), 0

    def __len__(self) -> int:
        return self.count

    def chosen(self, which: Array, entries: Array | None) -> _LaunchPieces:
        return _LaunchPieces(self.begins[which], self.reports[which, 0], self.reports[which, 1], entries)

    def make_room(self, room: int) -> None:
        """Have slots for so many hits of each piece."""
        if self.room != room:
            self.room = room
            self.set_slots(np.arange(self.count + 1) * room)

    def set_slots(self, slots: Array) -> None:
        """`slots`: n + 1 numbers: where the hits of each piece go, and the slot behind the last."""
        self.slots = slots
        self.reports[: self.count, 2], self.reports[: self.count, 3] = slots[:-1], slots[1:]


@dataclass(slots=True)
class CpuSearch:
    """Searches data in windows, for one thread at a time: how much a window held says how much room the next one gets.

    `warmup`: as of CompiledPatterns.  `prefilter`: of literals, or None.  `room`: for the hits of a piece.
    """

    walked: AutomatonCells
    warmup: int
    prefilter: Prefilter | None
    dispatcher: Target
    room: int = FIRST_ROOM
    _windows_without_filter: int = field(default=0, init=False)
    _latest: tuple[tuple[int, int], _LaunchPieces] | None = field(default=None, init=False)

    def search(self, data: Array, start: int) -> Array:
        """The hits at `start` and after it: u64, in ascending order: index of a byte << 32 | number of the accepting state
        after it, from 0.

        `data`: u8, less than 4 GiB; before `start` it has what the automaton must see, as far as there is anything.
        """
        if len(data) <= FEW_BYTES:
            return self._by_hand(data, 0, 0, start)
        if self._filters():
            return self._filtered(data, start)
        return self._walked(data, start)

    def _filters(self) -> bool:
        if self.prefilter is None:
            return False
        if self._windows_without_filter:
            self._windows_without_filter -= 1
        return not self._windows_without_filter

    # --- by the filter

    def _filtered(self, data: Array, start: int) -> Array:
        key = (start, len(data))
        if self._latest is None or self._latest[0] != key:
            self._latest = key, self._pieces_to_filter(*key)
        hits, _, walks = self._launch(data, self._latest[1])
        assert self.prefilter is not None
        cost = WALK_BYTES_OF_GRAMS if self.prefilter.stride else WALK_BYTES
        if int(walks.sum()) * cost > len(data):
            self._windows_without_filter = TRY_AGAIN
        return hits

    def _pieces_to_filter(self, start: int, end: int) -> _LaunchPieces:
        size = max(FILTERED_PIECE, 8 * self.warmup)
        shown = np.arange(start, end, size, dtype=np.int64)
        return _LaunchPieces(np.maximum(shown - self.warmup, 0), shown, np.minimum(shown + size, end))

    # --- by walks

    def _walked(self, data: Array, start: int) -> Array:
        """Walk by pieces of equal length, the last of which ends with the data."""
        total, warmup = len(data) - start, self.warmup
        size = max(WALKED_PIECE, 4 * warmup)
        if total < CHAINS * size:
            size = max(64, -(-total // CHAINS))
        words = -(-(size + warmup) // 4)
        if 4 * words > len(data):
            return self._walked_at_once(data, start)
        shown = np.arange(start, len(data), size, dtype=np.int64)
        until = np.minimum(shown + size, len(data))
        begins = np.clip(shown - warmup, 0, len(data) - 4 * words)
        begins[-1] = len(data) - 4 * words
        return self._launch(
            data, _LaunchPieces(begins, shown, until, np.zeros(len(begins), np.uint32)), words
        )[0]

    def _walked_at_once(self, data: Array, start: int) -> Array:
        """Walk by one piece, then by single bytes."""
        words = len(data) // 4
        zero = np.zeros(1, np.int64)
        piece = _LaunchPieces(zero, zero + start, zero + 4 * words, zero.astype(np.uint32))
        hits, _, exits = self._launch(data, piece, words)
        rest = self._by_hand(data, 4 * words, int(exits[0]) // self.walked.classes, start)
        return np.concatenate([hits, rest])

    def _by_hand(self, data: Array, begin: int, state: int, start: int) -> Array:
        """Few bytes, from `begin` on; the hits from `start` on."""
        packed, automaton = [], self.walked.automaton
        follow, first = automaton.transitions.item, automaton.first_accepting
        for position, column in enumerate(automaton.classes[data[begin:]].tolist(), begin):
            state = follow(state, column)
            if state >= first and position >= start:
                packed.append(position << 32 | state - first)
        return np.array(packed, np.uint64)

    # --- launches

    def _launch(self, data: Array, pieces: _LaunchPieces, words: int = 0) -> tuple[Array, Array, Array]:
        """Search pieces by pattern_walk if they have entries, else by the prefilter.

        Gives the hits of all pieces, one after the other, how many each has, and what is in @exits or @walks.
        """
        pieces.make_room(self.room)
        hits, counts, others = self._run(data, pieces, words)
        most = int(counts.max(initial=0))
        if most == 0 or (len(counts) == 1 and most <= self.room):
            return hits[:most], counts, others
        slots, fits = pieces.slots, counts <= self.room
        self.room = max(FIRST_ROOM, min(2 * most, 4 * FILTERED_PIECE))
        firsts = np.cumsum(counts) - counts
        chosen, full = np.flatnonzero(fits & (counts > 0)), np.flatnonzero(~fits)
        found = hits[concatenated_ranges(slots[chosen], counts[chosen])]
        if not len(full):
            return found, counts, others
        # those with more hits than there was room for are searched once more
        again = pieces.chosen(full, None if pieces.entries is None else pieces.entries[full])
        again.set_slots(np.concatenate([[0], np.cumsum(counts[full])]))
        more, _, _ = self._run(data, again, words)
        if not len(chosen):
            return more, counts, others
        all_hits = np.empty(int(counts.sum()), np.uint64)
        all_hits[concatenated_ranges(firsts[chosen], counts[chosen])] = found
        all_hits[concatenated_ranges(firsts[full], counts[full])] = more
        return all_hits, counts, others

    def _run(self, data: Array, pieces: _LaunchPieces, words: int) -> tuple[Array, Array, Array]:
        """One launch: @hits, @counts as i64, and @exits or @walks."""
        hits = output_memory.empty(max(int(pieces.slots[-1]), 1), np.dtype(np.uint64))
        counts, others = np.zeros((2, len(pieces.begins)), np.uint32)
        walked = self.walked
        arrays = [data, walked.columns, walked.cells, pieces.begins, pieces.reports.reshape(-1), counts, hits]
        if pieces.entries is not None:
            groups, params = len(counts) // CHAINS, (*walked.params, words)
            self._run_bounded(pattern_walk(), [*arrays, pieces.entries, others], groups, params)
        else:
            prefilter = self.prefilter
            assert prefilter is not None
            program = pattern_grams() if prefilter.stride else pattern_filter()
            settings = (prefilter.fold, prefilter.shift, prefilter.stride) if prefilter.stride else ()
            self._run_bounded(
                program, [*arrays, prefilter.table, others], len(counts), walked.params + settings
            )
        count = len(pieces)
        return hits[: int(pieces.slots[-1])], counts[:count].astype(np.int64), others[:count]

    def columns_of(self, packed: Array, base: int, lengths: Array) -> tuple[Array, Array, Array]:
        """The starts, ends and patterns of what hits show as the byte before the place behind, sorted by end, then pattern.

        `base`: the place of the data's first byte.  `lengths`: of the matches of each pattern.
        """
        walked, automaton = self.walked, self.walked.automaton
        counts = None if automaton.shows_one_each else automaton.num_shown[packed.astype(np.uint32)]
        if counts is not None and counts.max() == 1:
            counts = None
        if len(packed) <= FEW_HITS:
            if counts is None:
                behind = (packed >> np.uint64(32)).astype(np.int64) + 1
                few = walked.first_shown[packed.astype(np.uint32)]
            else:
                _, behind, few = walked.shown(*unpacked(packed))
            ends = (behind + base).astype(np.uint64)
            return ends - lengths[few], ends, few
        total = len(packed) if counts is None else int(counts.sum())
        starts, ends = (output_memory.empty(total, np.dtype(np.uint64)) for _ in range(2))
        patterns = output_memory.empty(total, np.dtype(np.uint32))
        outputs = [starts, ends, patterns]
        if counts is None:
            arrays = [packed, walked.first_shown, lengths, *outputs]
        else:
            slots = (np.cumsum(counts) - counts).view(np.uint64)
            arrays = [packed, automaton.accept_patterns, lengths, *outputs, automaton.accept_offsets, slots]
        groups = -(-len(packed) // INVOCATIONS)
        self._run_bounded(match_columns(counts is not None), arrays, groups, (base + 1,))
        return starts, ends, patterns

    def _run_bounded(
        self, program: Program, arrays: list[Array], groups: int, params: tuple[int, ...]
    ) -> None:
        """Launch a program whose workgroups have a piece each."""
        launch(self.dispatcher, program, arrays, groups, params, is_bounded=True)
