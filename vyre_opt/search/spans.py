"""Where matches start and end, of patterns whose matches differ in length.

The automaton of a search shows where a match ends, or the first bytes of one.  From an end a walk backwards finds the
leftmost start; from the start of first bytes a walk forwards finds all ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels import pattern_confirm as confirm
from ..kernels import pattern_starts as starts
from ..patterns.automaton import CONTEXT_OF, DATA_EDGE, FINAL_NEWLINE, NEWLINE
from ..patterns.errors import LimitExceeded
from ..targets.cpu import CpuDispatcher
from .automaton_cells import launch, unpacked
from .byte_history import ByteHistory, Rows
from .tables import SearchTables

__all__ = [
    "NO_ENDS",
    "Columns",
    "Ends",
    "SpanSearch",
    "joined_columns",
    "joined_ends",
    "sorted_columns",
]

Array = np.ndarray[Any, Any]
Columns = tuple[Array, Array, Array]
"""Starts, ends and patterns of matches."""

FIRST_LOOK, GROWTH = 1 << 12, 16
"""Bytes in front of a match in which its start is looked for at first, and how many times as many next."""
BLOCK = 1 << 24
"""Bytes in front of matches that are looked at together."""
FIRST_STRETCH = 64
"""Bytes from the start of a prefix on in which its match is looked for at first, where data are at hand by rows."""
FIRST_ROOM = 4
"""Ends of matches that begin at one place for which there is room at first."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The places behind what the search's automaton showed, i64, and the patterns."""

    ends: Array
    patterns: Array

    def chosen(self, which: Array) -> Ends:
        return Ends(self.ends[which], self.patterns[which])

    def joined(self, other: Ends) -> Ends:
        return joined_ends([self, other])

    def __len__(self) -> int:
        return len(self.ends)


NO_ENDS = Ends(np.zeros(0, np.int64), np.zeros(0, np.uint32))


class SpanSearch:
    """Finds the matches of `ends` that a search gives, in the data that `history` keeps.

    `drops_longer`: leaves matches out that have more bytes than that.
    """

    def __init__(self, tables: SearchTables, dispatcher: CpuDispatcher, drops_longer: bool = False) -> None:
        self.dispatcher, self.drops_longer = dispatcher, drops_longer
        self.compiled = compiled = tables.compiled
        self.reverse, self.confirm = tables.reverse, tables.confirm
        self._rows_of_reverse = np.cumsum(compiled.is_reversed) - 1
        self._rows_of_confirm = np.cumsum(compiled.prefixes > 0) - 1
        entries = None if self.reverse is None else self.reverse.entries
        self._sees_behind = entries is not None and bool((entries != entries[:, :1]).any())

    def matches(self, history: ByteHistory, ends: Ends, is_end: bool) -> tuple[Columns, Ends]:
        """The matches, and the ends that must wait for more data.

        `is_end`: whether there is no more.  Raises LimitExceeded for a match that is longer than what is kept, unless
        those are left out.
        """
        plain, begun, from_ends = self._by_kind(ends)
        found, waiting = [plain], NO_ENDS
        if len(from_ends):
            # what an anchor sees behind the last byte is not known yet, nor whether a line break is the last
            waits = (from_ends.ends >= history.total - 1) & (self._sees_behind and not is_end)
            waiting = from_ends.chosen(waits)
            found.append(self._from_ends(history, from_ends.chosen(~waits), is_end))
        if len(begun):
            columns, unfinished = self._from_prefixes(history, begun, is_end)
            found.append(columns)
            waiting = waiting.joined(unfinished)
        return joined_columns(found), waiting

    def _by_kind(self, ends: Ends) -> tuple[Columns, Ends, Ends]:
        """The matches of patterns whose length is known; of the others the ends of first bytes, and those of matches."""
        prefixes, lengths = self.compiled.prefixes[ends.patterns], self.compiled.lengths[ends.patterns]
        is_plain, is_begun = lengths > 0, prefixes > 0
        plain = ends.chosen(is_plain)
        columns = plain.ends - lengths[is_plain], plain.ends, plain.patterns
        return columns, ends.chosen(is_begun), ends.chosen(~is_plain & ~is_begun)

    # --- backwards, from ends

    def _from_ends(self, history: ByteHistory, ends: Ends, is_end: bool) -> Columns:
        begins = np.zeros(len(ends), np.int64)
        left, look = np.arange(len(ends)), FIRST_LOOK
        while len(left):
            chosen = ends.chosen(left)
            wanted = history.total - int(chosen.ends.min()) + look
            data = history.last(wanted)
            base = history.total - len(data)
            shown, runs_out = self._walk_back(data, base, chosen, is_end)
            begins[left] = shown
            left = left[runs_out]
            if len(left) and len(data) < wanted:
                if not self.drops_longer:
                    raise _too_long(int(ends.ends[left[0]]), history)
                is_known = np.ones(len(ends), bool)
                is_known[left] = False
                return begins[is_known], ends.ends[is_known], ends.patterns[is_known]
            look *= GROWTH
        return begins, ends.ends, ends.patterns

    def _walk_back(self, data: Array, base: int, ends: Ends, is_end: bool) -> tuple[Array, Array]:
        """The starts as far as `data` shows them, and whether a walk came to where it begins, which is no start."""
        places = np.maximum(ends.ends - base, 0)
        begins, states = self._begins(data, places, ends.patterns, _contexts(data, places, is_end))
        begins += base
        if base == 0:
            assert self.reverse is not None
            return np.where(self.reverse.shows_at_end[states], 0, begins), np.zeros(len(ends), bool)
        return begins, (states != 0) | (ends.ends < base)

    def _begins(self, data: Array, places: Array, patterns: Array, contexts: Array) -> tuple[Array, Array]:
        """The leftmost starts of matches that end at `places` of `data`, and the states in which the walks came to its start.

        `contexts`: what stands at each place, for the byte before it.
        """
        walker = self.reverse
        assert walker is not None
        entries = walker.entries[self._rows_of_reverse[patterns], contexts]
        shown, exits = np.zeros((2, len(places)), np.uint32)
        arrays = [data, walker.columns, walker.cells, walker.least_lags, places.astype(np.uint32)]
        launch(
            self.dispatcher,
            starts.pattern_starts(),
            [*arrays, entries, shown, exits],
            -(-len(places) // starts.INVOCATIONS),
            walker.params,
        )
        return shown.astype(np.int64), walker.states_of(exits)

    # --- in data of which rows are at hand

    def in_rows(self, ends: Ends, longest: int, rows: Rows, limit: int) -> tuple[Columns, Ends]:
        """The matches of these ends, and the ends that must wait, of sets that a GPU searches: no anchors, and up to `longest`
        bytes in a match or a prefix.

        `rows`: gives the bytes from places on; those up to `limit` are known.  At place 0 data begin, unless all ends are
        farther away than `longest`.
        """
        plain, begun, from_ends = self._by_kind(ends)
        found, waiting = [plain], NO_ENDS
        if len(from_ends):
            found.append((self._begins_in_rows(from_ends, longest, rows), from_ends.ends, from_ends.patterns))
        if len(begun):
            columns, waiting = self._from_prefixes_in_rows(begun, rows, limit)
            found.append(columns)
        return joined_columns(found), waiting

    def _begins_in_rows(self, ends: Ends, longest: int, rows: Rows) -> Array:
        begins = np.zeros(len(ends), np.int64)
        width = longest + 1  # a walk is idle when it has seen all bytes of a match and one before
        for which in _blocks(np.flatnonzero(ends.ends >= width), width):
            data = rows(ends.ends[which] - width, width).reshape(-1)
            places = np.arange(1, len(which) + 1) * width
            shown, _ = self._begins(data, places, ends.patterns[which], np.full(len(which), DATA_EDGE))
            begins[which] = ends.ends[which] - (places - shown)
        at_front = np.flatnonzero(ends.ends < width)
        if len(at_front):
            chosen = ends.chosen(at_front)
            data = rows(np.zeros(1, np.int64), int(chosen.ends.max()))[0]
            begins[at_front], _ = self._walk_back(data, 0, chosen, True)
        return begins

    def _from_prefixes_in_rows(self, ends: Ends, rows: Rows, limit: int) -> tuple[Columns, Ends]:
        walker = self.confirm
        assert walker is not None
        begins = ends.ends - self.compiled.prefixes[ends.patterns]
        before = np.full(len(ends), DATA_EDGE)
        within = np.flatnonzero(begins > 0)
        before[within] = CONTEXT_OF[rows(begins[within] - 1, 1)[:, 0]]
        entries = walker.entries[self._rows_of_confirm[ends.patterns], before]
        states = np.zeros(len(ends), np.int64)
        parts: list[tuple[Array, Array, Array]] = []
        left, width = np.arange(len(ends)), FIRST_STRETCH
        while len(left):
            unfinished: list[Array] = [left[:0]]
            for which in _blocks(left, width):
                walk_begins = begins[which]
                known = np.minimum(walk_begins + width, limit)
                flat = np.arange(len(which)) * width
                data = rows(walk_begins, width).reshape(-1)
                owners, packed, states[which] = self._walk_on(
                    data, flat, entries[which], flat + (known - walk_begins)
                )
                is_cut = (states[which] != 0) & (known < limit)
                unfinished.append(which[is_cut])
                places, numbers = unpacked(packed)
                kept = ~is_cut[owners]
                owners, places, numbers = owners[kept], places[kept], numbers[kept]
                parts.append((which[owners], places + (walk_begins - flat)[owners], numbers))
            left, width = np.concatenate(unfinished), width * GROWTH
        owners, places, numbers = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return self._confirmed(begins, ends, (owners, places, numbers), states, limit, False)

    # --- forwards, from the first bytes

    def _from_prefixes(self, history: ByteHistory, ends: Ends, is_end: bool) -> tuple[Columns, Ends]:
        walker = self.confirm
        assert walker is not None
        begins = np.maximum(ends.ends - self.compiled.prefixes[ends.patterns], 0)
        order = np.argsort(begins, kind="stable")
        begins, ends = begins[order], ends.chosen(order)
        data = history.last(history.total - int(begins[0]) + 1)
        base = history.total - len(data)
        if base > begins[0]:
            if not self.drops_longer:
                raise _too_long(int(begins[0]), history)
            is_kept = begins >= base
            begins, ends = begins[is_kept], ends.chosen(is_kept)
            if not len(begins):
                return joined_columns([]), NO_ENDS
        places = begins - base
        before = np.where(places > 0, CONTEXT_OF[data[places - 1]], DATA_EDGE)
        entries = walker.entries[self._rows_of_confirm[ends.patterns], before]
        owners, packed, states = self._walk_on(data, places, entries, np.full(len(places), len(data)))
        hit_places, numbers = unpacked(packed)
        hits = owners, hit_places + base, numbers
        return self._confirmed(begins, ends, hits, states, history.total, is_end)

    def _confirmed(
        self,
        begins: Array,
        ends: Ends,
        hits: tuple[Array, Array, Array],
        states: Array,
        total: int,
        is_end: bool,
    ) -> tuple[Columns, Ends]:
        """The matches that walks from `begins` show, and the ends of prefixes that must wait.

        `hits`: of each the number of its walk, the place, and the number of the accepting state.  `states`: of each walk where
        the data end, or 0.  `total`: bytes so far.
        """
        walker = self.confirm
        assert walker is not None
        owners, places, numbers = hits
        is_open = (states != 0) & (not is_end)
        if is_open.any():
            lasts = begins.copy()
            np.maximum.at(lasts, owners, places + 1)
            is_open = self._waits(begins, lasts, ends.patterns, is_open)
        kept = ~is_open[owners]
        index, behind, _, lags = walker.shown(places[kept], numbers[kept])
        owner = owners[kept][index]
        columns = [(begins[owner], behind - lags, ends.patterns[owner])]
        for at in np.flatnonzero(walker.shows_at_end[states]) if is_end else ():
            own_lags = np.unique(walker.automaton.accepted_at_end(int(states[at]))[1]).astype(np.int64)
            count = len(own_lags)
            columns.append((np.full(count, begins[at]), total - own_lags, np.full(count, ends.patterns[at])))
        return _leftmost(joined_columns(columns)), ends.chosen(is_open)

    def _waits(self, begins: Array, lasts: Array, patterns: Array, is_open: Array) -> Array:
        """Whether the matches that begin at each place must wait for those that are under way, since they share ends.

        `lasts`: the end of the longest match of each.  Of matches with one end that with the leftmost start counts, so all
        of them are to be known at once.
        """
        while True:
            earliest = np.full(self.compiled.num_patterns, np.iinfo(np.int64).max)
            np.minimum.at(earliest, patterns[is_open], begins[is_open])
            waits = is_open | (lasts > earliest[patterns])
            if np.array_equal(waits, is_open):
                return waits
            is_open = waits

    def _walk_on(
        self, data: Array, places: Array, entries: Array, until: Array
    ) -> tuple[Array, Array, Array]:
        """The numbers of the places that hits belong to, the hits, see pattern_walk, and the states at `until`."""
        walker = self.confirm
        assert walker is not None
        room = FIRST_ROOM
        while True:
            slots = np.arange(len(places) + 1) * room
            reports = np.zeros((len(places), 4), np.uint32)
            reports[:, 1], reports[:, 2], reports[:, 3] = until, slots[:-1], slots[1:]
            counts, exits = np.zeros((2, len(places)), np.uint32)
            hits = np.zeros(int(slots[-1]), np.uint64)
            arrays = [data, walker.columns, walker.cells, places.astype(np.uint32), reports.reshape(-1)]
            launch(
                self.dispatcher,
                confirm.pattern_confirm(),
                [*arrays, counts, hits, entries, exits],
                -(-len(places) // confirm.INVOCATIONS),
                walker.params,
            )
            if int(counts.max()) <= room:
                used = np.arange(room) < counts[:, None]
                owners = np.nonzero(used)[0]
                return owners, hits.reshape(-1, room)[used], walker.states_of(exits)
            room = int(counts.max())


def _blocks(indices: Array, width: int) -> list[Array]:
    """Runs of indices of rows of so many bytes, of at most BLOCK bytes each."""
    return np.array_split(indices, -(-len(indices) * width // BLOCK)) if len(indices) else []


def _contexts(data: Array, places: Array, is_end: bool) -> Array:
    """What stands at each place, for the byte before it."""
    inside = places < len(data)
    contexts = np.full(len(places), DATA_EDGE)
    contexts[inside] = CONTEXT_OF[data[places[inside]]]
    if is_end:
        contexts[(contexts == NEWLINE) & (places == len(data) - 1)] = FINAL_NEWLINE
    return contexts


def joined_ends(parts: list[Ends]) -> Ends:
    """The ends of all parts, one after the other."""
    return Ends(
        np.concatenate([part.ends for part in parts]), np.concatenate([part.patterns for part in parts])
    )


def joined_columns(parts: list[Columns]) -> Columns:
    """The columns of all parts, one after the other."""
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint32)
    begins, ends, patterns = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return begins, ends, patterns


def _leftmost(columns: Columns) -> Columns:
    """Of the matches of a pattern that have one end that with the leftmost start."""
    begins, ends, patterns = columns
    order = np.lexsort((begins, patterns, ends))
    begins, ends, patterns = begins[order], ends[order], patterns[order]
    is_first = np.ones(len(ends), bool)
    is_first[1:] = (ends[1:] != ends[:-1]) | (patterns[1:] != patterns[:-1])
    return begins[is_first], ends[is_first], patterns[is_first]


def sorted_columns(columns: Columns) -> Columns:
    """The same, sorted by end, then pattern."""
    begins, ends, patterns = columns
    order = np.lexsort((patterns, ends))
    return begins[order], ends[order], patterns[order]


def _too_long(place: int, history: ByteHistory) -> LimitExceeded:
    return LimitExceeded(
        f"a match at byte {place} has more than the {history.limit} bytes that are kept of a stream; bound the "
        "expression's repetitions, or search the data as a whole"
    )
