"""The programs by which a GPU searches: tiles that are decoded, checked and walked, or looked up by grams."""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from vyre_scan.patterns.automaton import Automaton
from vyre_scan.patterns.literal_automaton import literal_automaton
from vyre_scan.programs.tiled_search import STRIDES, GramSchedule, WalkSchedule, tiled_grams, tiled_walk

from .case import Array, KernelCase, Use
from .decode_and_search import letters, occurrences
from .pattern_search import bitmap_of_grams

__all__ = ["tiled_search_cases"]

SHORT = (b"ab", b"bca", b"c" * 9, b"abcabcab", b"b")
LONG = (b"abcabcabcabca", b"ccccccccccaab", b"acacacacacabc", b"abcabcabcabcb" * 3)
ENCODINGS = ("raw", "hex", "base64")
WIDTH = 8
WARMUP = 63
BASE64 = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"


def tiled_search_cases() -> Iterator[KernelCase]:
    for encoding in ENCODINGS:
        for size in (1, 30, 100, 2999):
            for start in (0, 17):
                what = f"{encoding}, {size} bytes from {start} on"
                yield KernelCase("tiled_walk", what, _search(encoding, size, start, 0, None))
                for stride in STRIDES:
                    own = f"{what}, stride {stride}"
                    yield KernelCase("tiled_grams", own, _search(encoding, size, start, stride, None))
        if encoding != "raw":
            for wrong in (0, 15, 16, 1999):
                what = f"{encoding}, wrong at {wrong}"
                yield KernelCase("tiled_walk", what, _search(encoding, 3000, 0, 0, wrong))
                yield KernelCase("tiled_grams", what, _search(encoding, 3000, 0, 4, wrong))


def _encoded(data: bytes, encoding: str) -> bytes:
    """In whole groups: with zeros behind the data, in base64."""
    if encoding == "raw":
        return data
    return data.hex().encode() if encoding == "hex" else base64.b64encode(data + bytes(-len(data) % 3))


def _values(encoding: str) -> Array:
    values = np.full(256, 0xFF, np.uint8)
    for value, character in enumerate(BASE64 if encoding == "base64" else "0123456789abcdef"):
        values[ord(character)] = value
    return values


def _search(encoding: str, size: int, start: int, stride: int, wrong: int | None) -> Callable[[], Use]:
    """place << 32 | pattern of all matches with an end at `start` or behind it, or else the first wrong character."""

    def make() -> Use:
        literals = LONG if stride else SHORT
        data = bytearray(letters(size))
        draw = random.Random(size)
        for literal in literals if size > 100 else ():
            at = draw.randrange(size - len(literal))
            data[at : at + len(literal)] = literal
        text = bytearray(_encoded(bytes(data), encoding))
        if wrong is not None:
            text[wrong] = text[-1] = ord("!")
        automaton = literal_automaton(literals)
        inputs = [bytes(text), np.zeros(8 * size, np.uint64), np.zeros(2, np.uint32)]
        inputs += [] if encoding == "raw" else [_values(encoding)]
        params = {"start": start, "count": size}
        if stride:
            cells = automaton.num_classes + 1
            rows = np.column_stack([automaton.transitions * np.uint32(cells), automaton.depth])
            inputs += [
                bitmap_of_grams(literals, stride, WIDTH),
                automaton.classes.astype(np.uint32),
                rows.astype(np.uint32).reshape(-1),
            ]
            params |= {"first_accepting": automaton.first_accepting * cells}
            params |= {"classes": automaton.num_classes, "fold": 0}
            program = tiled_grams(encoding, WARMUP, stride, GramSchedule(32, 12, 2**WIDTH, 3))
        else:
            table = automaton.transitions[:, automaton.classes].astype(np.uint16).reshape(-1)
            inputs += [table, automaton.depth.astype(np.uint16)]
            params |= {"first_accepting": automaton.first_accepting}
            program = tiled_walk(encoding, WARMUP, WalkSchedule(32, 12))
        if wrong is not None:
            expected = np.array([0xFFFFFFFF - wrong], np.uint32)
            return Use(program, inputs, 3, expected, read=lambda o: o[1][1:], params=params)
        matches = [
            place << 32 | number for place, number in occurrences(bytes(data), literals) if place >= start
        ]

        def read(outputs: Sequence[Array]) -> Array:
            hits, counters = outputs
            return _matches(hits[: int(counters[0])], automaton, literals)

        return Use(program, inputs, 3, np.array(sorted(matches), np.uint64), read=read, params=params)

    return make


def _matches(hits: Array, automaton: Automaton, literals: Sequence[bytes]) -> Array:
    """What hits show together: a place may have several."""
    _, ends, patterns = automaton.matches(np.unique(hits))
    return np.unique(ends - np.uint64(1) << np.uint64(32) | patterns)
