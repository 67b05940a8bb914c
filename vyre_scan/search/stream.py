"""A search through data that comes in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_opt.execution.dispatcher import BadInputs
from vyre_opt.execution.target import Target
from vyre_opt.records import dataclass

from ..patterns.rule_facts import UNBOUNDED
from .cpu import CpuSearch
from .data import DeviceOctets, octets_in_place
from .decoder import Decoder
from .encodings import RAW, Encoding
from .matches import Matches
from .places import Places
from .rule_search import Columns, RuleSearch, WholeData
from .tables import PatternTables

if TYPE_CHECKING:
    from .gpu import GpuSearch
from ..arrays import Array

__all__ = ["Stream", "joined_columns"]

GpuSearches = Callable[[Array | DeviceOctets], "list[GpuSearch]"]

WINDOW = 1 << 23
"""Bytes of a window of data that nothing encodes, for each thread."""
MOST_BYTES = 1 << 30
HISTORY = 1 << 20
"""Bytes that a stream sees of a match that may have any length."""
SEAM = 1 << 16
"""Bytes at the start of a part that are searched together with the last bytes of the part before."""
LEAST_ON_GPU, LEAST_RESIDENT = 1 << 22, 1 << 18
"""Characters of a part in main memory, and of one on a GPU, from which on a GPU is faster."""
TAIL = 64
"""Characters at the end of a part, at least, that a GPU does not search: padding may be among them."""
LONG = 1 << 16
"""Characters that are decoded once for all that see them."""


class Stream:
    """Search in data: `feed` takes its next part, `finish` is called at its end.  Each gives the matches that it brings.

    A match of a literal belongs to the part with its last byte, one of an expression to that which shows where it ends.
    Offsets count from the start of the first part.

    Of expressions whose matches may have any length, the first `limit` bytes are seen (None: HISTORY): a match that goes on
    behind them raises LimitExceeded, or with a `limit` ends there.  `is_whole`: all data is one part, which nobody changes
    before the end; then there is no such limit.  `gpu_searches`: gives what searches a large part.  `atoms`: gets the starts, the
    ends and the expressions of atoms, which are then not looked at.
    """

    def __init__(
        self,
        tables: PatternTables,
        encoding: Encoding,
        strict: bool,
        dispatcher: Target,
        gpu_searches: GpuSearches = lambda octets: [],
        *,
        is_whole: bool = False,
        limit: int | None = None,
        atoms: list[Columns] | None = None,
    ) -> None:
        self._gpu_searches = gpu_searches
        self._tables, self._encoding, self._dispatcher = tables, encoding, dispatcher
        self._searches = [CpuSearch(one.automaton, one.prefilter, dispatcher) for one in tables.searches]
        self._reach = tables.reach
        self._decoder = None if encoding is RAW else Decoder(encoding, strict, dispatcher, self._reach)
        self._window = min(WINDOW * dispatcher.workers, MOST_BYTES)
        self._searched = 0
        self._history = _History()
        self._refusal = ""
        self._columns: list[Columns] = []
        self._atoms = atoms
        self._rules: RuleSearch | None = None
        if tables.expressions and atoms is None:
            most = None if is_whole else limit or HISTORY
            self._rules = RuleSearch(tables.expressions, most, raises=limit is None)
        self._is_at_hand = is_whole and encoding is RAW
        self._gpu_failed = False

    def begin(self, start: int, before: Array) -> None:
        """Begin within data, at `start`, behind the bytes or whole groups of characters `before`, which a match may begin in.
        Only for sets without expressions."""
        if self._decoder is not None:
            before, start = self._decoder.begin(start, before), self._encoding.bytes_of(start)
        self._searched = start
        self._history = _History(start, [before], len(before))

    def end_of_part(self) -> None:
        """Raise EncodingError if the text ended here, for other text follows."""
        if self._decoder is not None:
            self._decoder.end_of_part()

    def all_in(self, data: Any) -> Matches:
        """All matches in whole data, as the only part.  Nothing can be fed any more."""
        self._refusal = "the stream is finished"
        octets = octets_in_place(data)
        if isinstance(octets, DeviceOctets):
            self._is_at_hand = False
        self._search_part(octets)
        if self._decoder is not None or self._rules is not None:
            self._search_end(octets)
        return self._matches()

    def feed(self, data: Any) -> Matches:
        """The matches that the next part of the data brings."""
        octets = octets_in_place(data)
        with self._until_error():
            self._search_part(octets)
            return self._matches()

    def finish(self) -> Matches:
        """The matches that show only at the end.  Nothing can be fed any more."""
        with self._until_error():
            self._search_end()
            matches = self._matches()
        self._refusal = "the stream is finished"
        return matches

    def _search_part(self, octets: Array | DeviceOctets) -> None:
        if isinstance(octets, DeviceOctets) or len(octets) >= LEAST_ON_GPU:
            octets = self._search_on_gpu(octets)
        if self._decoder is not None:
            for buffer in self._decoder.decode(octets):
                self._search_decoded(buffer)
            return
        first = 0
        if self._history.size:
            first, front = min(len(octets), max(SEAM, self._reach)), self._history.latest(self._reach)
            self._search_window(np.concatenate([front, octets[:first]]), len(front))
        while first < len(octets):
            end = min(first + self._window, len(octets))
            before = min(self._reach, first)
            self._search_window(octets[first - before : end], before)
            first = end

    def _search_end(self, whole: Array | DeviceOctets | None = None) -> None:
        if self._decoder is not None:
            self._search_decoded(self._decoder.finish())
        if self._rules is not None:
            octets = whole if self._is_at_hand and isinstance(whole, np.ndarray) else self._history.joined()
            data = WholeData(octets, self._searched - len(octets))
            self._columns += self._rules.advance(data, self._searched, True)

    @contextmanager
    def _until_error(self) -> Iterator[None]:
        """Refuses what comes after an error, whose part of the data may be half searched."""
        if self._refusal:
            raise BadInputs(f"{self._refusal}; begin another one")
        self._refusal = "the stream broke off"
        try:
            yield
        except Exception as error:
            self._refusal = f"the stream failed: {error}"
            raise
        self._refusal = ""

    @property
    def settled(self) -> int:
        """All matches that begin before it, an offset in the decoded bytes, were given."""
        literals = self._tables.literals
        settled = self._searched if literals is None else self._searched - literals.automaton.longest + 1
        if self._rules is not None:
            settled = min(settled, self._rules.settled)
        return max(0, settled)

    # --- windows

    def _search_decoded(self, buffer: Array) -> None:
        before = self._history.latest(self._reach)
        window = buffer[self._reach - len(before) :]
        window[: len(before)] = before
        self._search_window(window, len(before))

    def _search_window(self, window: Array, overlap: int) -> None:
        """Search a window, whose first `overlap` bytes were searched before."""
        if len(window) == overlap:
            return
        base = self._searched - overlap
        self._searched += len(window) - overlap
        for number, search in enumerate(self._searches):
            self._add_hits(number, search.search(window, overlap), base)
        if not self._is_at_hand:
            self._pass(WholeData(window, base))

    def _pass(self, source: WholeData | _DecodedPart) -> None:
        """Go on behind the next bytes, which `source` has, and which were searched for literals and atoms."""
        first, begin = self._searched - self._reach, self._history.end
        if self._rules is not None and not self._is_at_hand:
            continued = _Continued(self._history, source)
            self._columns += self._rules.advance(continued, self._searched, False)
            first = min(first, self._rules.needs_from)
        begin = max(first, begin)
        octets, base = source.bytes_of(begin, self._searched)
        self._history.append(octets[begin - base : self._searched - base], self._searched, first)

    def _add_hits(self, number: int, hits: Array, base: int) -> None:
        """Add the hits of the automaton with a number.  `base`: the place of the first byte that hits count from."""
        if not len(hits):
            return
        tables = self._tables.searches[number]
        if tables.owners is None:
            starts, ends, patterns = tables.automaton.matches(hits, base)
            if self._tables.numbers is not None:
                patterns = self._tables.numbers[patterns]
            self._columns.append((starts.view(np.int64), ends.view(np.int64), patterns))
            return
        atoms = tables.atoms(hits, base)
        if self._atoms is not None:
            self._atoms.append(atoms)
        elif self._rules is not None:
            self._rules.add(atoms[0], atoms[2])

    # --- on a GPU

    def _search_on_gpu(self, octets: Array | DeviceOctets) -> Array:
        """Search the front of a part, and give the rest: all of it where the GPU does not search.

        It searches whole groups of characters that hold bits.  What is around them is searched by the CPU, and all from
        the first window on that has other characters.
        """
        least = LEAST_RESIDENT if isinstance(octets, DeviceOctets) else LEAST_ON_GPU
        searches = self._gpu_searches(octets) if len(octets) >= least else []
        if not searches or self._gpu_failed:
            return _in_main_memory(octets, 0, len(octets))
        first, decoder, encoding = 0, self._decoder, self._encoding
        before = max(gpu.before for gpu in searches)
        if self._searched or (decoder is not None and decoder.waiting):
            first = max(SEAM, before)
            if decoder is not None:
                first += -(first + decoder.waiting) % encoding.characters
            self._search_part(_in_main_memory(octets, 0, first))
        if decoder is not None and not decoder.is_between_groups:
            return _in_main_memory(octets, first, len(octets))
        end = first + (len(octets) - TAIL - first) // encoding.characters * encoding.characters
        origin = self._searched
        for number, gpu in enumerate(searches):
            with closing(gpu.windows(octets, first, end)) as windows:
                for window in windows:
                    if window.hits is None:
                        self._gpu_failed = True  # the CPU says what is wrong, or skips blanks
                        end = window.first
                        break
                    place = (
                        origin + encoding.bytes_of(window.first - first) - encoding.bytes_of(window.before)
                    )
                    self._add_hits(number, window.hits, place)
        if end > first:
            part = _DecodedPart(octets, first, end, encoding, self._searched)
            self._searched += encoding.bytes_of(end - first)
            self._pass(part)
            if decoder is not None:
                decoder.skip(end - first)
        return _in_main_memory(octets, end, len(octets))

    # --- matches

    def _matches(self) -> Matches:
        """Matches since the last call."""
        parts, self._columns = self._columns, []
        starts, ends, patterns = parts[0] if len(parts) == 1 else joined_columns(parts)
        if self._tables.expressions:
            order = np.lexsort((patterns, ends))
            starts, ends, patterns = starts[order], ends[order], patterns[order]
        starts, ends = starts.view(np.uint64), ends.view(np.uint64)
        if self._decoder is None:
            return Matches(starts, ends, patterns)
        places, spans = self._decoder.places, None
        if not places.is_regular:
            spans = _spans_in(places, self._encoding, starts, ends)
        done = self._searched - self._reach
        if self._rules is not None:
            done = min(done, self._rules.needs_from)
        places.forget(max(0, done) * self._encoding.characters // self._encoding.octets)
        return Matches(starts, ends, patterns, spans, None if spans else self._encoding)


@dataclass(slots=True)
class _DecodedPart:
    """The bytes that the characters of a part hold from `first` up to `end`, the first one at the place `base`."""

    octets: Array | DeviceOctets
    first: int
    end: int
    encoding: Encoding
    base: int
    _rest: tuple[Array, int] = field(default=(np.zeros(0, np.uint8), UNBOUNDED), init=False)

    def bytes_of(self, first: int, end: int) -> tuple[Array, int]:
        if first >= self._rest[1]:
            return self._rest
        encoding = self.encoding
        if encoding is RAW and not isinstance(self.octets, DeviceOctets):
            return self.octets[self.first : self.end], self.base
        group = max(0, first - self.base) // encoding.octets
        stop = min(self.first + encoding.characters_of(max(0, end - self.base)), self.end)
        text = _in_main_memory(self.octets, self.first + group * encoding.characters, stop)
        decoded = encoding.decode(text), self.base + group * encoding.octets
        if len(text) > LONG:
            self._rest = decoded  # for those that see all that follows
        return decoded


@dataclass(slots=True)
class _History:
    """The last bytes of the data, up to the place `end`, in parts that were copied once each."""

    end: int = 0
    parts: list[Array] = field(default_factory=lambda: [np.zeros(0, np.uint8)])
    size: int = 0

    def joined(self) -> Array:
        if len(self.parts) > 1:
            self.parts = [np.concatenate(self.parts)]
        return self.parts[0]

    def latest(self, count: int) -> Array:
        """The last bytes, as many as there are of `count`."""
        return (self.parts[-1] if len(self.parts[-1]) >= count else self.joined())[-count:]

    def append(self, octets: Array, end: int, first: int) -> None:
        """Add bytes, and forget those before the place `first`."""
        if first >= self.end:
            self.parts, self.size = [], 0
        self.parts.append(octets.copy())
        self.end, self.size = end, self.size + len(octets)
        while len(self.parts[0]) <= self.size - (end - first) and len(self.parts) > 1:
            self.size -= len(self.parts.pop(0))


@dataclass(slots=True)
class _Continued:
    """The bytes of `source`, and those of the history before them."""

    history: _History
    source: WholeData | _DecodedPart
    _joined: Array = field(default_factory=lambda: np.zeros(0, np.uint8), init=False)

    def bytes_of(self, first: int, end: int) -> tuple[Array, int]:
        history = self.history
        if first >= self.source.base or not history.size:
            return self.source.bytes_of(first, end)
        start = history.end - history.size
        if start + len(self._joined) < end:
            newer, base = self.source.bytes_of(history.end, end)
            self._joined = np.concatenate([*history.parts, newer[max(0, history.end - base) :]])
        return self._joined, start


def joined_columns(parts: list[Columns]) -> Columns:
    """The matches of all parts, one after the other."""
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint32)
    starts, ends, patterns = (np.concatenate(column) for column in zip(*parts, strict=True))
    return starts, ends, patterns


def _spans_in(places: Places, encoding: Encoding, starts: Array, ends: Array) -> tuple[Array, Array]:
    """The places of the characters that hold matches; of an empty one that of the character behind it."""
    first, last = encoding.spans(starts, ends)
    begins = places.of(first)
    is_empty = ends == starts
    last = np.where(is_empty, first + np.uint64(1), last)
    return begins, np.where(is_empty, begins, places.of(last - np.uint64(1)) + np.uint64(1))


def _in_main_memory(octets: Array | DeviceOctets, first: int, end: int) -> Array:
    return octets.to_host(first, end) if isinstance(octets, DeviceOctets) else octets[first:end]
