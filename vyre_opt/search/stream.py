"""A search through data that comes in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..execution.dispatcher import BadInputs
from ..patterns.automaton import DATA_EDGE
from ..targets.cpu import CpuDispatcher
from .automaton_cells import unpacked
from .byte_history import WAITING, ByteHistory, Rows
from .cpu import CpuSearch, Hits
from .data import DeviceOctets, octets_in_place
from .decoder import Decoder
from .encodings import Encoding
from .matches import Matches
from .spans import NO_ENDS, Columns, Ends, SpanSearch, joined_columns, joined_ends, sorted_columns
from .tables import SearchTables

if TYPE_CHECKING:
    from .gpu import GpuSearch

__all__ = ["Stream"]

Array = np.ndarray[Any, Any]

WINDOW = 1 << 23
"""Bytes of a window of data that nothing encodes, for each thread."""
MOST_BYTES = 1 << 30
HISTORY, MOST_KEPT = 1 << 20, 1 << 32
"""Bytes that are kept of a stream, and of data that is searched as a whole: places in them have 32 bits."""
SEAM = 1 << 16
"""Bytes at the start of a part that are searched together with the last bytes of the part before."""
LEAST_ON_GPU, LEAST_RESIDENT = 1 << 22, 1 << 18
"""Characters of a part in main memory, and of one on a GPU, from which on a GPU is faster."""
TAIL = 64
"""Characters at the end of a part, at least, that a GPU does not search: padding may be among them."""


class Stream:
    """`feed` takes the next part of the data, `finish` is called at its end.  Each gives the matches that it brings.

    A match belongs to the part that shows it: that with its last byte as a rule, or the one after where an anchor looks at
    what follows.  Offsets count from the start of the first part.

    Of patterns whose matches differ in length, those are found that have up to HISTORY bytes; a longer one raises
    LimitExceeded, or with `longest` is left out, as are those of more than `longest` bytes.  `is_whole`: all data is one part,
    which nobody changes before `finish`; then there is no such limit.  `gpu_for`: what searches large parts, or None.
    """

    def __init__(
        self,
        tables: SearchTables,
        encoding: Encoding | None,
        strict: bool,
        dispatcher: CpuDispatcher,
        gpu_for: Callable[[Array | DeviceOctets], GpuSearch | None] = lambda octets: None,
        *,
        is_whole: bool = False,
        longest: int | None = None,
    ) -> None:
        self._gpu_for = gpu_for
        self._tables, self._encoding = tables, encoding
        compiled = tables.compiled
        self._search = CpuSearch(tables.search, compiled.warmup, tables.prefilter, dispatcher)
        self._reach = tables.reach
        self._decoder = None if encoding is None else Decoder(encoding, strict, dispatcher, self._reach)
        self._window = min(WINDOW * dispatcher.workers, MOST_BYTES)
        self._state = self._last = int(compiled.search.entries[0, DATA_EDGE])
        self._history = np.zeros(0, np.uint8)
        self._searched = 0
        self._ended = ""
        self._found: list[Columns] = []
        self._longest = longest
        self._spans = None if tables.knows_lengths else SpanSearch(tables, dispatcher, longest is not None)
        self._byte_history = ByteHistory(MOST_KEPT if is_whole else longest or HISTORY)
        self._copies = self._decoder is not None or not is_whole
        self._waiting = NO_ENDS
        self._gpu_failed = False
        self._shows_at_end = (
            self._decoder is not None or self._spans is not None or compiled.search.looks_ahead
        )

    def begin(self, start: int, before: Array) -> None:
        """Begin within data, at `start`: what is fed follows `before`, in encoded text as many whole groups of characters as
        are needed for what a match may have before.  Only for sets whose matches have known lengths."""
        self._history = before
        self._searched = start
        if self._decoder is not None and self._encoding is not None:
            self._history = self._decoder.begin(start, before)
            self._searched = self._encoding.bytes_of(start)
        self._history = self._history[max(0, len(self._history) - self._reach) :]

    def end_of_part(self) -> None:
        """Raise EncodingError if the text ended here, for other text follows."""
        if self._decoder is not None:
            self._decoder.end_of_part()

    def all_in(self, data: Any) -> Matches:
        """All matches in data that is a whole, of which nothing was fed.  Nothing can be fed any more."""
        self._ended = "the stream is finished"
        self._search_part(octets_in_place(data, "data"))
        if self._shows_at_end:
            self._search_end()
        return self._matches()

    def feed(self, data: Any) -> Matches:
        """The matches that the next part of the data brings."""
        octets = octets_in_place(data, "data")
        with self._until_error():
            self._search_part(octets)
            return self._matches()

    def finish(self) -> Matches:
        """The matches that show only at the end.  Nothing can be fed any more."""
        with self._until_error():
            self._search_end()
            matches = self._matches()
        self._ended = "the stream is finished"
        return matches

    def _search_part(self, octets: Array | DeviceOctets) -> None:
        if isinstance(octets, DeviceOctets) or len(octets) >= LEAST_ON_GPU:
            octets = self._search_on_gpu(octets)
        if self._decoder is not None:
            for buffer in self._decoder.decode(octets):
                self._search_decoded(buffer)
            return
        first = 0
        if len(self._history):
            first = min(len(octets), max(SEAM, self._reach))
            self._search_window(np.concatenate([self._history, octets[:first]]), len(self._history))
        while first < len(octets):
            end = min(first + self._window, len(octets))
            before = min(self._reach, first)
            self._search_window(octets[first - before : end], before)
            first = end

    def _search_end(self) -> None:
        if self._decoder is not None:
            self._search_decoded(self._decoder.finish())
        search = self._tables.compiled.search
        if search.looks_ahead or self._spans is not None:
            patterns, lags = search.accepted_at_end(self._last)
            self._add(Ends(self._searched - lags.astype(np.int64), patterns), is_end=True)

    @contextmanager
    def _until_error(self) -> Iterator[None]:
        """Refuses what comes after an error, whose part of the data may be half searched."""
        if self._ended:
            raise BadInputs(f"{self._ended}; begin another one")
        self._ended = "the stream broke off"
        try:
            yield
        except Exception as error:
            self._ended = f"the stream failed: {error}"
            raise
        self._ended = ""

    @property
    def known(self) -> int:
        """All matches that end up to here, an offset in the decoded bytes, were given."""
        known = self._searched - 2 * self._tables.compiled.search.looks_ahead  # `$` sees two bytes
        if len(self._waiting):
            known = min(known, int(self._waiting.ends.min()) - 1)
        return max(0, known)

    # --- windows

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
        base = self._searched - known
        self._searched += len(window) - known
        if self._reach:
            self._history = window[max(0, len(window) - self._reach) :].copy()
        if self._spans is not None:
            self._byte_history.add(window[known:].copy() if self._copies else window[known:])
        self._add_hits(hits, base)

    # --- on a GPU

    def _search_on_gpu(self, octets: Array | DeviceOctets) -> Array:
        """Search the front of a part, and give the rest: all of it where the GPU does not search.

        It searches whole groups of characters that hold bits.  What is around them is searched by the CPU, and all from
        the first window on that has other characters.
        """
        least = LEAST_RESIDENT if isinstance(octets, DeviceOctets) else LEAST_ON_GPU
        gpu = self._gpu_for(octets) if len(octets) >= least else None
        if gpu is None or self._gpu_failed:
            return _in_main_memory(octets, 0, len(octets))
        first, decoder = 0, self._decoder
        if self._searched or (decoder is not None and decoder.waiting):
            first = max(SEAM, gpu.before)
            if decoder is not None:
                first += -(first + decoder.waiting) % decoder.encoding.characters
            self._search_part(_in_main_memory(octets, 0, first))
        if len(self._waiting) or (decoder is not None and not decoder.is_between_groups):
            return _in_main_memory(octets, first, len(octets))
        end = first + (len(octets) - TAIL - first) // gpu.unit * gpu.unit
        seen = gpu.characters_of(self._reach + WAITING)
        back = max(first, end - seen)
        edge = _in_main_memory(octets, back, len(octets))  # now, for a copy from a GPU waits until it is idle
        origin, done, ends = first - min(first, gpu.before), first, [NO_ENDS]
        base = self._searched - self._bytes_of(first - origin)
        with closing(gpu.windows(octets, first, end)) as windows:
            for window in windows:
                if window.is_wrong:
                    self._gpu_failed = True  # the CPU says what is wrong, or skips blanks
                    break
                done = window.first + window.count
                seen_from = self._bytes_of(window.first - window.before - origin)
                if self._spans is None:
                    self._add_hits(Hits(window.hits, 0), base + seen_from)
                else:
                    _, behind, patterns, _ = self._tables.search.shown(*unpacked(window.hits))
                    ends.append(Ends(behind + seen_from, patterns))
        if self._spans is not None:  # now, for what a row has is known to be right
            rows, known = gpu.rows(octets, origin, self._search.dispatcher), self._bytes_of(done - origin)
            kept = self._add_in_rows(self._spans, joined_ends(ends), rows, known, base)
            seen = max(seen, gpu.characters_of(kept))
        if done == end and seen <= end - back:
            self._pass(end - first, edge[: end - back])
            return edge[end - back :]
        if done > first:
            self._pass(done - first, _in_main_memory(octets, max(origin, done - seen), done))
        return _in_main_memory(octets, done, len(octets))

    def _add_in_rows(self, spans: SpanSearch, ends: Ends, rows: Rows, known: int, base: int) -> int:
        """Add the matches of ends that a GPU found.  Gives how many of the latest bytes those have that must wait, as far as
        bytes are kept.

        `known`: bytes that rows can be of.  `base`: the place of the first of them, from which ends are counted.
        """
        (starts, behind, patterns), waiting = spans.in_rows(ends, self._reach, rows, known)
        self._found.append((starts + base, behind + base, patterns))
        self._waiting = Ends(waiting.ends + base, waiting.patterns)
        if not len(waiting):
            return 0
        begins = waiting.ends - self._tables.compiled.prefixes[waiting.patterns]
        return min(known - int(begins.min()), self._byte_history.limit) + WAITING

    def _bytes_of(self, characters: int) -> int:
        return characters if self._encoding is None else self._encoding.bytes_of(characters)

    def _pass(self, characters: int, latest: Array) -> None:
        """Go on behind so many characters, which a GPU searched; the latest of them are given."""
        count = self._bytes_of(characters)
        if self._encoding is not None and self._decoder is not None:
            latest = self._encoding.decode_groups(latest)
            self._decoder.skip(characters)
        self._searched += count
        self._history = latest[max(0, len(latest) - self._reach) :].copy()
        if self._spans is not None:
            self._byte_history.skip(count, latest)

    # --- matches

    def _add_hits(self, hits: Hits, base: int) -> None:
        """`base`: the place of the window's first byte."""
        compiled = self._tables.compiled
        if not len(hits.packed):
            if len(self._waiting):
                self._add(NO_ENDS)
        elif self._spans is None and not compiled.search.looks_ahead:
            self._found.append(self._search.columns_of(hits.packed, base, compiled.lengths))
        else:
            _, behind, patterns, lags = self._tables.search.shown(*unpacked(hits.packed))
            self._add(Ends(behind + base - lags, patterns))

    def _add(self, ends: Ends, is_end: bool = False) -> None:
        """Add the matches that have these ends, and those that waited for more data."""
        if self._spans is None:
            starts = ends.ends - self._tables.compiled.lengths[ends.patterns]
            self._found.append((starts, ends.ends, ends.patterns))
            return
        columns, self._waiting = self._spans.matches(self._byte_history, self._waiting.joined(ends), is_end)
        self._found.append(columns)

    def _matches(self) -> Matches:
        """What was found since the last call."""
        found, self._found = [columns for columns in self._found if len(columns[1])], []
        starts, ends, patterns = found[0] if len(found) == 1 else joined_columns(found)
        if self._spans is not None or self._tables.compiled.search.looks_ahead:
            starts, ends, patterns = sorted_columns((starts, ends, patterns))
        starts, ends = starts.astype(np.uint64, copy=False), ends.astype(np.uint64, copy=False)
        patterns = patterns.astype(np.uint32, copy=False)
        if self._longest is not None:
            is_short = ends - starts <= self._longest
            starts, ends, patterns = starts[is_short], ends[is_short], patterns[is_short]
        if self._encoding is None or self._decoder is None:
            return Matches(starts, ends, patterns)
        places, spans = self._decoder.places, None
        if not places.is_regular:
            first, last = self._encoding.spans(starts, ends)
            spans = places.of(first), places.of(last - np.uint64(1)) + np.uint64(1)
        kept = self._reach if self._spans is None else self._byte_history.limit
        done = max(0, self._searched - kept)
        places.forget(done * self._encoding.characters // self._encoding.octets)
        return Matches(starts, ends, patterns, spans, None if spans else self._encoding)


def _in_main_memory(octets: Array | DeviceOctets, first: int, end: int) -> Array:
    return octets.to_host(first, end) if isinstance(octets, DeviceOctets) else octets[first:end]
