"""Blobs of ordinary files (source code, JSON, mail, logs): runs of base64, or of hexadecimal digits.

A blob is a maximal run of letters, digits and + / - _, of both alphabets, and the padding behind it.  It goes on in the next
line where a line break alone, and blanks, lie between them, and the upper line has at least SHORTEST_LINE characters; so
it does where the break is written as \n or \r\n, as in strings of JSON, and, of which no line is asked, at \\/, and at %2B and
%2F, which URLs have in the place of + and /.

It may begin in the middle of a run: in `path/key=aGVsbG8...` behind the `=`, but in `keyaGVsbG8...` anywhere.  So a run stands
for four texts, which begin at its first four characters: whatever begins at character k is in that of k modulo 4.  What is
joined without need is no loss either, as each of its parts is in one of the four.
"""

from __future__ import annotations

import re
from string import ascii_letters, digits, hexdigits
from typing import Any

import numpy as np

from vyre_opt.records import dataclass

from ..arrays import Array
from .data import octets_of

__all__ = ["BEGUN_QUOTE", "MIN_BLOB", "Blobs", "blobs_of", "find_blobs", "may_go_on", "unquoted"]

MIN_BLOB = 16
"""Characters of the shortest blob: 12 bytes."""
SHORTEST_LINE = 16
MOST_GAP = 80
"""Bytes of a line break and the blanks beside it."""

_IS_DIGIT = {
    name: bytes(chr(byte) in alphabet for byte in range(256))
    for name, alphabet in (("base64", f"{ascii_letters}{digits}+/-_"), ("hex", hexdigits))
}
_QUOTED = re.compile(rb"%2[BbFf]")
BEGUN_QUOTE = re.compile(rb"%2?\Z")
_GAP = re.compile(rb"[ \t]*(?:\r?\n|(?:\\+r)?\\+n)[ \t]*")
_ESCAPED_SLASH = re.compile(rb"\\+")
_BEGUN_GAP = re.compile(rb"[ \t]*(?:\r|\r?\n[ \t]*|\\+|\\+r\\*|(?:\\+r)?\\+n[ \t]*)?")


@dataclass(frozen=True, slots=True, eq=False)
class Blobs:
    """Blobs in their order: the runs `starts`, `ends` of all of them, and which of these is the first of each.

    `firsts` has one number more than there are blobs: how many runs there are.
    """

    starts: Array
    ends: Array
    firsts: Array

    def __len__(self) -> int:
        return len(self.firsts) - 1

    def sizes(self) -> Array:
        """The characters of each blob, without line breaks and padding."""
        return np.add.reduceat(self.ends - self.starts, self.firsts[:-1])

    def chosen(self, which: Array) -> Blobs:
        """Blobs where `which` is true."""
        counts = np.diff(self.firsts)
        is_in = np.repeat(which, counts)
        firsts = np.concatenate([[0], np.cumsum(counts[which])])
        return Blobs(self.starts[is_in], self.ends[is_in], firsts)


def blobs_of(data: Any, min_length: int = MIN_BLOB) -> tuple[Array, Array]:
    """The starts and ends, u64, of the blobs of `data`, with the line breaks inside of them and the padding behind.

    `min_length`: characters of the shortest, without line breaks and padding.  Raises BadInputs.
    """
    octets = octets_of(data)
    octets, quotes = unquoted(octets)
    blobs = find_blobs(octets, "base64", min_length, False, quotes)
    blobs = blobs.chosen(blobs.sizes() >= min_length)
    ends = blobs.ends[blobs.firsts[1:] - 1]
    for _ in range(2):
        ends = ends + (np.append(octets, 0)[np.minimum(ends, len(octets))] == ord("="))
    return blobs.starts[blobs.firsts[:-1]].astype(np.uint64), ends.astype(np.uint64)


def unquoted(octets: Array) -> tuple[Array, Array]:
    """Replace %2B and %2F of URLs by + and /, behind two bytes that are no characters; returns the places of these, too."""
    if b"%2" not in octets.tobytes():
        return octets, np.zeros(0, np.int64)
    places = np.array([match.start() for match in _QUOTED.finditer(octets.data)], np.int64)
    plain = octets.copy()
    plain[places + 2] = np.where(octets[places + 2] & 0x4F == ord("B"), ord("+"), ord("/"))
    plain[places] = plain[places + 1] = 0
    return plain, places


def find_blobs(octets: Array, encoding: str, min_length: int, is_continued: bool, quotes: Array) -> Blobs:
    """The blobs, with some that are shorter than `min_length`, and the last one whatever its length.

    `is_continued`: the first one began earlier, so that its first line is a long one.  `quotes`: see `unquoted`.
    """
    content = octets.tobytes()
    escapes = np.flatnonzero(octets[:-1] == ord("\\")) if b"\\" in content else np.zeros(0, np.int64)
    starts, ends = _runs(octets, content.translate(_IS_DIGIT[encoding]), escapes)
    if not len(starts):
        return Blobs(starts, ends, np.zeros(1, np.int64))
    sizes = ends - starts
    is_long = sizes >= SHORTEST_LINE
    is_long[0] |= is_continued and starts[0] == 0
    matters = is_long | (sizes >= min_length)
    matters[1:] |= is_long[:-1]  # a last line
    matters[-1] = True
    continuations = np.concatenate([
        _behind(escapes[octets[escapes + 1] == ord("/")], 1, starts, ends), _behind(quotes, 2, starts, ends)
    ])  # fmt: skip
    matters[continuations] = matters[continuations - 1] = True
    continuations = np.cumsum(matters)[continuations] - 1
    starts, ends, is_long = starts[matters], ends[matters], is_long[matters]
    is_first = np.ones(len(starts), bool)
    is_first[1:] = ~_joined(octets, starts, ends, is_long)
    is_first[continuations] = False
    return Blobs(starts, ends, np.append(np.flatnonzero(is_first), len(starts)))


def may_go_on(octets: Array, blobs: Blobs) -> bool:
    """Whether the last blob may go on behind the end of `octets`."""
    if not len(blobs):
        return False
    gap = octets[int(blobs.ends[-1]) :][: MOST_GAP + 1].tobytes()
    return len(gap) <= MOST_GAP and _BEGUN_GAP.fullmatch(gap) is not None


def _runs(octets: Array, digits: bytes, escapes: Array) -> tuple[Array, Array]:
    """The starts and ends of all runs.  `digits`: 1 for a byte of the alphabet.  `escapes`: the places of backslashes."""
    is_digit = np.zeros(len(octets) + 2, np.bool_)
    is_digit[1:-1] = np.frombuffer(digits, np.bool_)
    # the letters of \n and \r are none of the text
    letters = octets[escapes + 1]
    is_digit[escapes[(letters == ord("n")) | (letters == ord("r"))] + 2] = False
    edges = np.flatnonzero(is_digit[1:] != is_digit[:-1])
    return edges[::2], edges[1::2]


def _behind(places: Array, size: int, starts: Array, ends: Array) -> Array:
    """The numbers of the runs that begin right behind so many bytes at `places`, as a slash does in `\\/`, which follow a run."""
    runs = np.searchsorted(starts, places + size)
    is_near = (runs > 0) & (runs < len(starts))
    runs, places = runs[is_near], places[is_near]
    return np.asarray(runs[(ends[runs - 1] == places) & (starts[runs] == places + size)])


def _joined(octets: Array, starts: Array, ends: Array, is_long: Array) -> Array:
    """Whether the next run belongs to the same blob, for each run but the last."""
    gaps = starts[1:] - ends[:-1]
    joined = np.zeros(len(gaps), bool)
    maybe = np.flatnonzero(is_long[:-1] & (gaps <= MOST_GAP))
    begins, sizes = ends[maybe], gaps[maybe]
    first, second = octets[begins], octets[begins + 1]
    is_plain = (sizes == 1) & (first == ord("\n")) | (sizes == 2) & (first == ord("\r")) & (
        second == ord("\n")
    )
    joined[maybe[is_plain]] = True
    is_blank = ((first == ord(" ")) | (first == ord("\t"))) & (sizes > 1)
    is_other = ~is_plain & (is_blank | (first == ord("\r")) | (first == ord("\n")) | (first == ord("\\")))
    for run in maybe[is_other].tolist():
        gap = octets[ends[run] : starts[run + 1]].tobytes()
        if _GAP.fullmatch(gap):
            joined[run] = True
        elif octets[starts[run + 1]] == ord("/"):
            joined[run] = _ESCAPED_SLASH.fullmatch(gap) is not None
    return joined
