"""A search in what the base64 and the hexadecimal digits of ordinary files hold, in bounded memory.

The blobs of a part become one text, each from a multiple of 4 characters on, or of 2 for digits:

    file   ...secret: YWJjZGVm...  token=eyJhbGciOiJIUzI1...
    text   YWJjZGVm...AA eyJhbGciOiJIUzI1...A

which is decoded and searched four times, from its first four characters on (see blobs).  Matches that are not inside of one
blob count for nothing.  A blob that goes on in the next part waits for it; of one that is longer than MOST_WAITING the last
characters do, as many as a match may have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..arrays import Array
from .blobs import BEGUN_QUOTE, MIN_BLOB, Blobs, find_blobs, may_go_on, unquoted
from .data import octets_of
from .disjoint import Disjoint
from .encodings import ENCODINGS, Encoding
from .grep_stream import GrepMatch, longest_match
from .matches import Matches
from .rule_search import Columns
from .scanner import Scanner
from .segments import matches_in_segments

__all__ = ["BlobStream", "scan_blobs"]

BESIDE = 8
"""Characters that hold all bytes that an anchor looks at beside a match."""
MOST_WAITING = 1 << 18


def scan_blobs(
    scanner: Scanner,
    data: Any,
    *,
    min_length: int = MIN_BLOB,
    overlapping: bool = False,
    encodings: Sequence[str] = ("base64", "hex"),
) -> list[GrepMatch]:
    """The matches in what the blobs of `data` hold, by their places in `data`; `content` is what matched.

    The patterns are those of `scanner`, whose encoding does not count.  See BlobStream.
    """
    stream = BlobStream(scanner, min_length=min_length, overlapping=overlapping, encodings=encodings)
    return [*stream.feed(data), *stream.finish()]


class _Text:
    """The characters of blobs, one after the other, as base64, and a group of zeros, so that the last characters are in
    whole groups wherever these begin.  `base`: the number of the first one, in all texts."""

    def __init__(self, octets: Array, blobs: Blobs, offset: int, base: int, unit: int) -> None:
        self.base = base
        sizes = blobs.sizes()
        rooms = sizes + -sizes % unit
        self.begins = np.cumsum(rooms) - rooms
        self.ends = self.begins + sizes
        within = np.cumsum(blobs.ends - blobs.starts) - (blobs.ends - blobs.starts)
        counts = np.diff(blobs.firsts)
        self._run_begins = within - np.repeat(within[blobs.firsts[:-1]] - self.begins, counts)
        self._run_places = blobs.starts + offset
        is_character = np.ones(int(rooms.sum()) + unit, bool)
        is_character[-unit:] = False
        for behind in range(unit - 1):
            is_character[(self.ends + behind)[rooms - sizes > behind]] = False
        self.characters = np.full(len(is_character), ord("A"), np.uint8)
        self.characters[is_character] = octets[_is_inside(blobs.starts, blobs.ends, len(octets))]
        for other, digit in (b"-+", b"_/"):
            self.characters[self.characters == other] = digit

    def places(self, characters: Array) -> Array:
        """Places in the file of characters of the text."""
        runs = np.searchsorted(self._run_begins, characters, side="right") - 1
        return np.asarray(self._run_places[runs] + characters - self._run_begins[runs])


def _is_inside(starts: Array, ends: Array, size: int) -> Array:
    """Mask of so many bytes that are in one of some runs."""
    edges = np.zeros(size + 1, np.int8)
    edges[starts] = 1
    edges[ends] = -1
    return np.add.accumulate(edges[:-1], dtype=np.int8).view(np.bool_)


class _Phase:
    """The bytes that the texts hold from a multiple of 4 and `number` characters on, and the matches in them."""

    def __init__(self, scanner: Scanner, encoding: Encoding, number: int, overlapping: bool) -> None:
        self.scanner = scanner._with(encoding=encoding.name, strict=False)
        self.encoding, self.number = encoding, number
        self.longest = longest_match(scanner)
        self._disjoint = None if overlapping else Disjoint()

    def matches(self, text: _Text, reported: int, until: int | None) -> list[GrepMatch]:
        """Matches in a text behind the place `reported` of the file, up to the character `until` of its last blob."""
        starts, ends, patterns = self._inside(text)
        first, last = self._characters(starts, ends)
        spans = text.places(first), text.places(last - 1) + 1
        is_new = (spans[1] > reported) & (ends - starts <= self.longest) & (starts < ends)
        settled = None
        if until is not None:
            is_new &= last <= until
            settled = self.encoding.bytes_of(max(0, until - self.number) + text.base) - self.longest + 1
        base = self.encoding.bytes_of(text.base)
        matches = Matches(starts + base, ends + base, patterns, spans)[is_new]
        if self._disjoint is not None:
            matches = self._disjoint.choose(matches, settled)
        columns = (matches.starts - base, matches.ends - base, matches.patterns, *matches.encoded_spans())
        return [
            GrepMatch(first, last, pattern, self._bytes(text, start, end), self.encoding.name)
            for start, end, pattern, first, last in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def _characters(self, starts: Array, ends: Array) -> tuple[Array, Array]:
        """Characters that hold the bytes from `starts` up to `ends`, as indices of the text."""
        first, last = self.encoding.spans(starts, ends)
        return self.number + first, self.number + last

    def _blobs_of(self, text: _Text, starts: Array, ends: Array) -> Array:
        """The number of the blob that has all characters of each place, or -1."""
        first, last = self._characters(starts, ends)
        blobs = np.searchsorted(text.begins, last - 1, side="right") - 1
        is_inside = (last <= text.ends[blobs]) & (first >= text.begins[blobs] + self.number)
        return np.where(is_inside, blobs, -1)

    def _inside(self, text: _Text) -> Columns:
        """The starts, ends and patterns of the matches in blobs, each of which is data of its own."""
        unit = self.encoding.characters
        whole = max(0, len(text.characters) - self.number) // unit * unit

        def content_of(blob: int) -> tuple[int, Array]:
            base = self.encoding.bytes_of(int(text.begins[blob]))
            size = max(0, int(text.ends[blob] - text.begins[blob]) - self.number)
            octets = self._bytes(text, base, base + size * self.encoding.bits // 8)
            return base, np.frombuffer(octets, np.uint8)

        characters = text.characters[self.number : self.number + whole]
        segments_of = partial(self._blobs_of, text)
        return matches_in_segments(self.scanner, characters, len(text.begins), segments_of, content_of)

    def _bytes(self, text: _Text, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end` of what a text holds."""
        bits = self.encoding.bits
        characters = text.characters[self.number + start * 8 // bits : self.number - (-end * 8 // bits)]
        return self.encoding.decode(characters, start * 8 % bits)[: end - start].tobytes()


class BlobStream:
    """Search in the blobs of a file: `feed` takes its next part, `finish` is called at its end; both give matches.

    Matches are those of GrepStream in each text of a blob; it has as many texts as a group has characters.
    `encodings`: "base64", which stands for both of its alphabets, and "hex".  Raises ValueError for a length below 1.
    """

    def __init__(
        self,
        scanner: Scanner,
        *,
        min_length: int = MIN_BLOB,
        overlapping: bool = False,
        encodings: Sequence[str] = ("base64", "hex"),
    ) -> None:
        if min_length < 1:
            raise ValueError(f"a blob has 1 character at least, not {min_length}")
        self._searches = [
            _EncodedBlobs(scanner, ENCODINGS[name], min_length, overlapping) for name in encodings
        ]

    def feed(self, data: Any) -> list[GrepMatch]:
        """The matches that are known after the next part."""
        octets = octets_of(data)
        return sorted(match for search in self._searches for match in search.feed(octets))

    def finish(self) -> list[GrepMatch]:
        return sorted(match for search in self._searches for match in search.finish())

    def contents(self, matches: Iterable[GrepMatch]) -> Iterator[GrepMatch]:
        """The matches, which have their contents; as of GrepStream."""
        return iter(matches)


class _EncodedBlobs:
    """The search in blobs of one encoding.  `min_length`: as of base64; others have as many bytes."""

    def __init__(self, scanner: Scanner, encoding: Encoding, min_length: int, overlapping: bool) -> None:
        self._encoding, self._unit = encoding, encoding.characters
        self._min_length = -(-min_length * 6 // encoding.bits)
        self._phases = [_Phase(scanner, encoding, number, overlapping) for number in range(self._unit)]
        self._tail_size = 4 * (longest_match(scanner) + BESIDE)
        self._waiting = np.zeros(0, np.uint8)
        self._offset = 0  # of what waits, in the file
        self._base = 0  # number of the next character
        self._is_continued = False
        self._reported = 0

    def feed(self, octets: Array) -> list[GrepMatch]:
        """A quoted character that the part ends within waits for its rest."""
        octets = np.concatenate([self._waiting, octets])
        quote = BEGUN_QUOTE.search(octets[-2:].tobytes())
        end = len(octets) - (len(quote[0]) if quote else 0)
        matches = self._search(octets[:end], is_last=False)
        self._waiting = np.append(self._waiting, octets[end:])
        return matches

    def finish(self) -> list[GrepMatch]:
        return self._search(self._waiting, is_last=True)

    def _search(self, data: Array, is_last: bool) -> list[GrepMatch]:
        octets, quotes = unquoted(data)
        blobs = find_blobs(octets, self._encoding.name, self._min_length, self._is_continued, quotes)
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
        self._waiting = data[begin:].copy()
        self._offset += begin
        return matches

    def _matches(self, octets: Array, blobs: Blobs, is_cut: bool) -> list[GrepMatch]:
        if not len(blobs):
            return []
        text = _Text(octets, blobs, self._offset, self._base, self._unit)
        until = int(text.ends[-1]) - BESIDE if is_cut else None
        matches = [m for phase in self._phases for m in phase.matches(text, self._reported, until)]
        if until is None:
            self._base += len(text.characters)
        else:
            size = int(text.ends[-1] - text.begins[-1])
            self._base += int(text.begins[-1]) + (size - self._tail_size) // self._unit * self._unit
            self._reported = int(text.places(np.array([until - 1]))[0]) + 1
        return matches

    def _tail(self, blobs: Blobs) -> int:
        """The place of the character of the last blob from which on it is searched again."""
        first = int(blobs.firsts[-2])
        sizes = blobs.ends[first:] - blobs.starts[first:]
        number = (int(sizes.sum()) - self._tail_size) // self._unit * self._unit
        behind = np.cumsum(sizes)
        run = int(np.searchsorted(behind, number, side="right"))
        return int(blobs.starts[first + run] + number - (behind[run] - sizes[run]))
