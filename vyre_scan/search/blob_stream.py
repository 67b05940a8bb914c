"""A search in what the base64 of ordinary files holds, in bounded memory.

The blobs of a part become one text, each from a multiple of 4 characters on:

    file   ...secret: YWJjZGVm...  token=eyJhbGciOiJIUzI1...
    text   YWJjZGVm...AA eyJhbGciOiJIUzI1...A

which is decoded and searched four times, from its first four characters on (see blobs).  Matches that are not inside of one
blob count for nothing.  A blob that goes on in the next part waits for it; of one that is longer than MOST_WAITING the last
characters do, as many as a match may have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from .blobs import MIN_BLOB, Blobs, find_blobs, may_go_on
from .data import octets_of
from .disjoint import Disjoint
from .encodings import ENCODINGS
from .grep_stream import LONGEST, GrepMatch
from .matches import Matches
from .rule_search import RuleSearch, WholeData
from .scanner import Scanner

__all__ = ["BlobStream", "scan_blobs"]

Array = np.ndarray[Any, Any]

PHASES = 4
BESIDE = 8
"""Characters that hold all bytes that an anchor looks at beside a match."""
MOST_WAITING = 1 << 18


def scan_blobs(
    scanner: Scanner, data: Any, *, min_length: int = MIN_BLOB, overlapping: bool = False
) -> list[GrepMatch]:
    """The matches in what the blobs of `data` hold, by their places in `data`; `content` is what matched.

    The patterns are those of `scanner`, whose encoding does not count.  See BlobStream.
    """
    stream = BlobStream(scanner, min_length=min_length, overlapping=overlapping)
    return [*stream.feed(data), *stream.finish()]


class _Text:
    """The characters of blobs, one after the other, as base64, and a group of zeros, so that the last characters are in
    whole groups wherever these begin.  `base`: the number of the first one, in all texts."""

    def __init__(self, octets: Array, blobs: Blobs, offset: int, base: int) -> None:
        self.base = base
        sizes = blobs.sizes()
        padded = sizes + -sizes % 4
        self.begins = np.cumsum(padded) - padded
        self.ends = self.begins + sizes
        within = np.cumsum(blobs.ends - blobs.starts) - (blobs.ends - blobs.starts)
        counts = np.diff(blobs.firsts)
        self._run_begins = within - np.repeat(within[blobs.firsts[:-1]] - self.begins, counts)
        self._run_places = blobs.starts + offset
        is_character = np.ones(int(padded.sum()) + 4, bool)
        is_character[-4:] = False
        for behind in range(3):
            is_character[(self.ends + behind)[padded - sizes > behind]] = False
        self.characters = np.full(len(is_character), ord("A"), np.uint8)
        self.characters[is_character] = octets[_is_inside(blobs.starts, blobs.ends, len(octets))]
        for other, digit in (b"-+", b"_/"):
            self.characters[self.characters == other] = digit

    def places(self, characters: Array) -> Array:
        """Where the file has characters of the text."""
        runs = np.searchsorted(self._run_begins, characters, side="right") - 1
        return np.asarray(self._run_places[runs] + characters - self._run_begins[runs])


def _is_inside(starts: Array, ends: Array, size: int) -> Array:
    """Which of so many bytes are in one of some runs."""
    edges = np.zeros(size + 1, np.int8)
    edges[starts] = 1
    edges[ends] = -1
    return np.add.accumulate(edges[:-1], dtype=np.int8).view(np.bool_)


class _Phase:
    """The bytes that the texts hold from a multiple of 4 and `number` characters on, and the matches in them."""

    def __init__(self, scanner: Scanner, number: int, overlapping: bool) -> None:
        self.scanner, self.number = scanner, number
        self.longest = _seen(scanner)
        self._disjoint = None if overlapping else Disjoint()
        self._text: _Text | None = None

    def matches(self, text: _Text, reported: int, until: int | None) -> list[GrepMatch]:
        """Those in a text behind the place `reported` of the file, up to the character `until` of its last blob."""
        self._text = text
        starts, ends, patterns = self._inside(text)
        first, last = self._characters(starts, ends)
        spans = text.places(first), text.places(last - 1) + 1
        is_new = (spans[1] > reported) & (ends - starts <= self.longest) & (starts < ends)
        settled = None
        if until is not None:
            is_new &= last <= until
            settled = max(0, until - self.number) * 3 // 4 + text.base // 4 * 3 - self.longest + 1
        bytes_before = np.int64(text.base // 4 * 3)
        columns = [
            column[is_new].astype(np.uint64)
            for column in (starts + bytes_before, ends + bytes_before, *spans)
        ]
        matches = Matches(
            columns[0], columns[1], patterns[is_new].astype(np.uint32), (columns[2], columns[3])
        )
        if self._disjoint is not None:
            matches = self._disjoint.choose(matches, settled)
        return [*self._with_contents(matches)]

    def _characters(self, starts: Array, ends: Array) -> tuple[Array, Array]:
        """Those that hold the bytes from `starts` up to `ends`, as indices of the text."""
        return self.number + starts * 8 // 6, self.number - (-ends * 8 // 6)

    def _blobs_of(self, text: _Text, starts: Array, ends: Array) -> Array:
        """The number of the blob that has all characters of each place, or -1."""
        first, last = self._characters(starts, ends)
        blobs = np.searchsorted(text.begins, last - 1, side="right") - 1
        is_inside = (last <= text.ends[blobs]) & (first >= text.begins[blobs] + self.number)
        return np.where(is_inside, blobs, -1)

    def _inside(self, text: _Text) -> tuple[Array, Array, Array]:
        """The starts, ends and patterns of the matches in blobs, each of which is data of its own."""
        whole = (len(text.characters) - self.number) // 4 * 4
        found, atoms = self.scanner._atoms_in(text.characters[self.number : self.number + max(0, whole)])
        starts, ends = found.starts.astype(np.int64), found.ends.astype(np.int64)
        is_inside = self._blobs_of(text, starts, ends) >= 0
        columns = [(starts[is_inside], ends[is_inside], found.patterns[is_inside])]
        expressions = self.scanner._tables.expressions
        begins, stops, owners = atoms.columns()
        of_blob = self._blobs_of(text, begins, stops)
        is_direct = any(expression.is_direct for expression in expressions)
        chosen = range(len(text.begins)) if is_direct else np.unique(of_blob[of_blob >= 0]).tolist()
        for blob in chosen:
            base = int(text.begins[blob]) // 4 * 3
            size = int(text.ends[blob] - text.begins[blob]) - self.number
            content = np.frombuffer(self._bytes(text, base, base + max(0, size) * 6 // 8), np.uint8)
            search = RuleSearch(expressions, None, raises=False)
            of_this = of_blob == blob
            search.add(begins[of_this] - base, owners[of_this])
            for starts, ends, patterns in search.advance(WholeData(content), len(content), True):
                columns.append((starts + base, ends + base, patterns))
        starts, ends, patterns = (np.concatenate(column) for column in zip(*columns, strict=True))
        return starts, ends, patterns

    # --- contents

    def _with_contents(self, matches: Matches) -> Iterator[GrepMatch]:
        columns = (matches.starts, matches.ends, matches.patterns, *matches.encoded_spans())
        for start, end, pattern, first, last in zip(*(column.tolist() for column in columns), strict=True):
            yield GrepMatch(first, last, pattern, self._content(start, end))

    def _content(self, start: int, end: int) -> bytes:
        assert self._text is not None
        before = self._text.base // 4 * 3
        return self._bytes(self._text, start - before, end - before)

    def _bytes(self, text: _Text, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end` of what a text holds."""
        characters = text.characters[self.number + start * 8 // 6 : self.number - (-end * 8 // 6)]
        return ENCODINGS["base64"].decode_few(characters, start * 8 % 6)[: end - start].tobytes()


def _seen(scanner: Scanner) -> int:
    """Bytes of the longest match that is found, which bounds what waits."""
    longest = scanner._tables.longest
    return LONGEST if longest is None else longest


class BlobStream:
    """`feed` takes the next part of a file, `finish` is called at its end; both give the matches that they find.

    Matches are those of GrepStream in each of the four texts of a blob.  Raises ValueError for a length below 1.
    """

    def __init__(self, scanner: Scanner, *, min_length: int = MIN_BLOB, overlapping: bool = False) -> None:
        if min_length < 1:
            raise ValueError(f"a blob has 1 character at least, not {min_length}")
        inner = scanner._with(encoding="base64", strict=False)
        self._min_length = min_length
        self._phases = [_Phase(inner, number, overlapping) for number in range(PHASES)]
        self._tail_size = 4 * _seen(scanner) + 4 * BESIDE
        self._waiting = np.zeros(0, np.uint8)
        self._offset = 0  # of what waits, in the file
        self._base = 0  # number of the next character
        self._is_continued = False
        self._reported = 0

    def feed(self, data: Any) -> list[GrepMatch]:
        """The matches that are known after the next part."""
        return self._search(np.concatenate([self._waiting, octets_of(data, "data")]), is_last=False)

    def finish(self) -> list[GrepMatch]:
        return self._search(self._waiting, is_last=True)

    def contents(self, matches: Iterable[GrepMatch]) -> Iterator[GrepMatch]:
        """The matches, which have their contents; as of GrepStream."""
        return iter(matches)

    def _search(self, octets: Array, is_last: bool) -> list[GrepMatch]:
        blobs = find_blobs(octets, self._min_length, self._is_continued)
        is_open = not is_last and may_go_on(octets, blobs)
        begin = int(blobs.starts[blobs.firsts[-2]]) if is_open else len(octets)
        waits = is_open and len(octets) - begin <= max(MOST_WAITING, 4 * self._tail_size)
        which = blobs.sizes() >= self._min_length
        if len(which) and self._is_continued:
            which[0] |= blobs.starts[0] == 0
        if waits:
            which[-1] = False
        is_cut = is_open and not waits
        matches = self._matches(octets, blobs.chosen(which), is_cut)
        if is_cut:
            begin = self._tail(blobs)
        elif not is_open and octets[-1:].tobytes() == b"\\":
            begin -= 1
        if begin or not waits:
            self._is_continued = is_cut
        self._waiting = octets[begin:].copy()
        self._offset += begin
        return matches

    def _matches(self, octets: Array, blobs: Blobs, is_cut: bool) -> list[GrepMatch]:
        if not len(blobs):
            return []
        text = _Text(octets, blobs, self._offset, self._base)
        until = int(text.ends[-1]) - BESIDE if is_cut else None
        found = [phase.matches(text, self._reported, until) for phase in self._phases]
        if until is None:
            self._base += len(text.characters)
        else:
            size = int(text.ends[-1] - text.begins[-1])
            self._base += int(text.begins[-1]) + (size - self._tail_size) // 4 * 4
            self._reported = int(text.places(np.array([until - 1]))[0]) + 1
        return sorted(chain.from_iterable(found))

    def _tail(self, blobs: Blobs) -> int:
        """The place of the character of the last blob from which on it is searched again."""
        first = int(blobs.firsts[-2])
        sizes = blobs.ends[first:] - blobs.starts[first:]
        number = (int(sizes.sum()) - self._tail_size) // 4 * 4
        behind = np.cumsum(sizes)
        run = int(np.searchsorted(behind, number, side="right"))
        return int(blobs.starts[first + run] + number - (behind[run] - sizes[run]))
