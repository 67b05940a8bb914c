"""Decoding with checks, and the search for patterns: by a filter and by walks."""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vyre_opt.ir import Program
from vyre_opt.kernels import checked_decode
from vyre_scan.patterns.automaton import Automaton
from vyre_scan.patterns.literal_automaton import literal_automaton
from vyre_scan.programs.pattern_filter import ENTRIES, POSITIONS, pattern_filter
from vyre_scan.programs.pattern_grams import MULTIPLIER, PREFIX_MULTIPLIER, pattern_grams
from vyre_scan.programs.pattern_walk import CHAINS, pattern_walk
from vyre_scan.programs.start_walk import start_walk

from .case import Array, KernelCase, Use
from .decode_and_search import letters, occurrences

__all__ = ["bitmap_of_grams", "pattern_search_cases"]

PATTERNS = (b"ab", b"bca", b"c" * 9, b"abcabcab", b"b")
RARE = (b"abcabcabca", b"ccccccccca", b"acacacacac")
NONE_BAD = 0xFFFFFFFF


def pattern_search_cases() -> Iterator[KernelCase]:
    for name, program, alphabet in (
        ("checked_base64", checked_decode.checked_base64(b"+/"), b"+/"),
        ("checked_base64", checked_decode.checked_base64(b"-_"), b"-_"),
        ("checked_hex", checked_decode.checked_hex(), b""),
    ):
        for blocks in (1, 7, 40):
            for bad in (None, 0, 32 * blocks - 1, 19):
                what = f"{alphabet.decode()} {blocks} blocks, wrong at {bad}"
                yield KernelCase(name, what, _checked(program, alphabet, blocks, bad))
        yield KernelCase(name, f"{alphabet.decode()} every byte", _each_byte(program, alphabet))
    for size in (1, 70, 71, 72, 140, 3000):
        for piece in (100, 1 << 15):
            yield KernelCase("pattern_filter", f"{size} bytes in pieces of {piece}", _filter(size, piece))
            yield KernelCase("start_walk", f"{size} bytes in pieces of {piece}", _start_walks(size, piece))
    for size in (1, 8, 39, 140, 300, 3000):
        for piece in (100, 1 << 15):
            for literals in (RARE, (b"cacc", *RARE)):
                what = f"{size} bytes in pieces of {piece}, the shortest literal of {min(map(len, literals))}"
                yield KernelCase("pattern_grams", what, _grams(size, piece, literals))
    for words in (1, 5, 200):
        yield KernelCase("pattern_walk", f"{words} words", _walk(words))


# --- decoding


def _text(alphabet: bytes, characters: int) -> bytes:
    data = random.Random(characters).randbytes(characters)
    if not alphabet:
        return (data[: characters // 4].hex() + data[: characters // 4].hex().upper()).encode()
    return base64.b64encode(data[: characters * 3 // 4], alphabet)


def _decoded(text: bytes, alphabet: bytes) -> Array:
    data = base64.b64decode(text, alphabet) if alphabet else bytes.fromhex(text.decode())
    return np.frombuffer(data, np.uint8)


def _checked(program: Program, alphabet: bytes, blocks: int, bad: int | None) -> Callable[[], Use]:
    """The bytes of a text that is right, or else the place of what is wrong."""

    def make() -> Use:
        text = bytearray(_text(alphabet, 32 * blocks))
        expected = _decoded(bytes(text), alphabet)
        if bad is not None:
            text[bad] = text[-1] = ord("=")
        inputs = [bytes(text) + b"!!", np.zeros(len(expected), np.uint8), np.array([NONE_BAD], np.uint32)]
        first = np.array([NONE_BAD if bad is None else bad], np.uint64)

        def read(outputs: Sequence[Array]) -> Array:
            return (
                outputs[1].astype(np.uint64)
                if bad is not None
                else np.append(outputs[0].astype(np.uint64), outputs[1])
            )

        wanted = first if bad is not None else np.append(expected.astype(np.uint64), first)
        return Use(program, inputs, 2, wanted, read=read)

    return make


def _each_byte(program: Program, alphabet: bytes) -> Callable[[], Use]:
    """A block for each byte, which has it at one place: which of them are wrong, by how often the first is found."""

    def make() -> Use:
        valid = re.compile(rb"[0-9A-Za-z%s]" % re.escape(alphabet) if alphabet else rb"[0-9A-Fa-f]")
        lowest = min(c for c in range(256) if not valid.match(bytes([c])))
        text = b"".join(bytes([c]).rjust(32, b"A") for c in range(lowest, 256))
        out = len(_decoded(b"A" * 32, alphabet)) * (256 - lowest)
        inputs = [text, np.zeros(out, np.uint8), np.array([NONE_BAD], np.uint32)]
        return Use(program, inputs, 1, np.array([31], np.uint32), read=lambda outputs: outputs[1])

    return make


# --- searching


def _reports(shown: Sequence[int], until: Sequence[int]) -> Array:
    return np.stack([np.array(shown), np.array(until)], axis=1).astype(np.uint32).reshape(-1)


def _found(counts: Array, hits: Array, shown: Sequence[int], automaton: Automaton) -> Array:
    """place << 32 | pattern, of all matches, sorted."""
    own = [hits[first : first + count] for first, count in zip(shown, counts.tolist(), strict=True)]
    _, ends, patterns = automaton.matches(np.concatenate(own))
    return np.sort(ends - np.uint64(1) << np.uint64(32) | patterns)


def _filter(size: int, piece: int) -> Callable[[], Use]:
    """A filter that leaves nothing out is as good as a search by walks; each piece reports its own bytes."""

    def make() -> Use:
        table = np.zeros((POSITIONS, ENTRIES), np.uint8)
        for number, literal in enumerate(RARE):
            for place, byte in enumerate(literal[:POSITIONS]):
                table[place, byte % ENTRIES] |= 1 << number
        return _by_candidates(pattern_filter(), letters(size), table.reshape(-1), _Bounds(size, piece))

    return make


def bitmap_of_grams(literals: Sequence[bytes], stride: int, width: int) -> Array:
    """@bitmap of tiled_grams, of 2 to the power of `width` words: two bits for each gram."""
    bitmap = [0] * 2**width
    for literal in literals:
        for first in range(stride):
            bits = _bits_of(literal[first : first + 4], MULTIPLIER, 32)
            one, other = bits[width : width + 5], bits[width + 5 : width + 10]
            bitmap[int(bits[:width], 2)] |= 1 << int(one, 2) | 1 << int(other, 2)
    return np.array(bitmap, np.uint32)


def _bits_of(content: bytes, multiplier: int, width: int) -> str:
    return f"{int.from_bytes(content, 'little') * multiplier % 2**width:0{width}b}"


def bitmaps_of_grams(literals: Sequence[bytes], stride: int, width: int) -> Array:
    """@bitmap of pattern_grams, of twice 2 to the power of `width` words: a bit for each gram, and for each prefix."""
    bitmap = [0] * 2 ** (width + 1)
    for literal in literals:
        prefix = literal[: min(8, stride + 3)]
        hashes = [_bits_of(literal[first : first + 4], MULTIPLIER, 32) for first in range(stride)]
        for first_word, bits in [(0, bits) for bits in hashes] + [
            (2**width, _bits_of(prefix, PREFIX_MULTIPLIER, 64))
        ]:
            bitmap[first_word + int(bits[:width], 2)] |= 1 << int(bits[width : width + 5], 2)
    return np.array(bitmap, np.uint32)


def _grams(size: int, piece: int, literals: Sequence[bytes]) -> Callable[[], Use]:
    """The starts of each piece, one by one as the bitmaps say, their number, and where the looks end."""

    def make() -> Use:
        shortest = min(map(len, literals))
        stride, text, bounds = shortest - 3, letters(size), _Bounds(size, piece)
        table = bitmaps_of_grams(literals, stride, 9)
        starts, rests = [], []
        for begin, end in zip(bounds.begins, bounds.until, strict=True):
            looks = range(begin + stride - 1, end, stride)
            blocks = len([at for at in looks[::32] if at + 31 * stride + 8 <= end])
            rests.append(begin + 32 * stride * blocks)
            places = [
                at for at in looks[: 32 * blocks] if _is_set(text[at : at + 4], MULTIPLIER, table[:512])
            ]
            prefixes = [at - back for at in places for back in range(stride - 1, -1, -1)]
            prefix = [text[at : at + min(8, shortest)] for at in prefixes]
            keys = [_is_set(each, PREFIX_MULTIPLIER, table[512:], 64) for each in prefix]
            starts.append([at for at, is_start in zip(prefixes, keys, strict=True) if is_start])
        counts = [*map(len, starts)]
        capacity, count = bounds.capacity, len(bounds.shown)
        room = count * capacity
        words = [np.zeros(length, np.uint32) for length in (room, room, count, count)]
        inputs = [text, bounds.begins, bounds.reports, table, np.zeros(room // 32, np.uint64), *words]
        expected = np.concatenate([*starts, counts, rests]).astype(np.uint32)

        def read(outputs: Sequence[Array]) -> Array:
            own = outputs[0].reshape(count, capacity)
            return np.concatenate(
                [*(row[:n] for row, n in zip(own, outputs[1].tolist(), strict=True)), *outputs[1:]]
            )

        params = {"capacity": capacity, "shift": 32 - 14, "mask": 256 ** min(8, shortest) - 1, "fold": 0}
        return Use(pattern_grams(stride), inputs, count, expected, read=read, params=params)

    return make


def _is_set(content: bytes, multiplier: int, bitmap: Array, width: int = 32) -> bool:
    """The bit of a gram or a prefix, in a bitmap of 2^9 words."""
    bits = _bits_of(content, multiplier, width)
    return bool(bitmap[int(bits[:9], 2)] >> int(bits[9:14], 2) & 1)


def _start_walks(size: int, piece: int) -> Callable[[], Use]:
    """Starts up to the middle of each piece, some of which no literal follows: all matches are found."""

    def make() -> Use:
        text, bounds = letters(size), _Bounds(size, piece)
        rests = [(begin + end) // 2 for begin, end in zip(bounds.begins, bounds.until, strict=True)]
        fronts = {literal[:3] for literal in RARE}
        starts = np.zeros((len(rests), bounds.capacity), np.uint32)
        founds = []
        for row, begin, rest in zip(starts, bounds.begins, rests, strict=True):
            own = [at for at in range(begin, rest) if text[at : at + 3] in fronts]
            row[: len(own)] = own
            founds.append(len(own))
        words = [np.array(each, np.uint32) for each in (founds, rests)]
        params = {"capacity": bounds.capacity}
        return _by_candidates(start_walk(), text, starts.reshape(-1), bounds, params, words)

    return make


@dataclass
class _Bounds:
    """Pieces of `piece` bytes, each with what the automaton must see before it.  `reports`: as the programs take them."""

    size: int
    piece: int

    def __post_init__(self) -> None:
        self.shown = [*range(0, self.size, self.piece)]
        self.until = [min(first + self.piece, self.size) for first in self.shown]
        self.begins = np.maximum(np.array(self.shown) - 9, 0).astype(np.uint32)
        self.reports = _reports(self.shown, self.until)
        self.capacity = -(-int((np.array(self.until) - self.begins).max()) // 32) * 32


def _by_candidates(
    program: Program,
    text: bytes,
    table: Array,
    bounds: _Bounds,
    params: dict[str, int] | None = None,
    words: Sequence[Array] = (),
) -> Use:
    """A search for RARE by a table, and more of its arrays."""
    automaton, count = literal_automaton(RARE), len(bounds.shown)
    outputs = [np.zeros(count, np.uint32), np.zeros(len(text), np.uint64)]
    tables = [text, automaton.columns, automaton.cells, bounds.begins, bounds.reports]
    inputs = [*tables, *outputs, table, np.zeros(count, np.uint32), *words]
    expected = np.array([place << 32 | number for place, number in occurrences(text, RARE)], np.uint64)

    def read(found: Sequence[Array]) -> Array:
        return _found(found[0], found[1], bounds.shown, automaton)

    return Use(program, inputs, count, np.sort(expected), read=read, params=automaton.params | (params or {}))


def _walk(words: int) -> Callable[[], Use]:
    """Pieces one after the other, each from state 0 on, and one that reports nothing: counts, and hits."""

    def make() -> Use:
        size = 4 * words
        pieces = 2 * CHAINS - 1
        text = letters(size * pieces)
        automaton = literal_automaton(PATTERNS)
        begins = np.array([*range(0, len(text), size), 0], np.uint32)
        inside = [*range(0, len(text), size)]
        reports = _reports([*inside, 0], [*(at + size for at in inside), 0])
        inputs = [
            text,
            automaton.columns,
            automaton.cells,
            begins,
            reports,
            np.zeros(pieces + 1, np.uint32),
            np.zeros(len(text), np.uint64),
        ]
        matches, counts = [], []
        for first in inside:
            own = occurrences(text[first : first + size], PATTERNS)
            counts.append(len({place for place, _ in own}))
            matches += [(first + place) << 32 | number for place, number in own]

        def read(outputs: Sequence[Array]) -> Array:
            own_counts, hits = outputs
            return np.concatenate([own_counts, _found(own_counts, hits, [*inside, 0], automaton)]).astype(
                np.uint64
            )

        expected = np.concatenate([[*counts, 0], np.sort(np.array(matches, np.uint64))]).astype(np.uint64)
        return Use(pattern_walk(), inputs, 2, expected, read=read, params=automaton.params | {"words": words})

    return make
