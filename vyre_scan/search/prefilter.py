"""Filter for the places where literals may begin: a table of pattern_filter for eight groups of literals that
begin alike, or for many literals a bitmap of pattern_grams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from vyre_opt.records import dataclass

from ..arrays import Array
from ..patterns.byte_weights import WEIGHTS
from ..programs.pattern_filter import ENTRIES, POSITIONS
from ..programs.pattern_grams import GRAM, MULTIPLIER, PREFIX, PREFIX_MULTIPLIER

__all__ = ["FOLD", "Prefilter", "gram_bitmap", "prefilter_of", "prefixes_of"]

GROUPS = 8
UNITS = 24
"""Literals are put into groups by so many at most, of neighbours in the order of their bytes."""

MOST_CANDIDATES = 0.004
"""The share of places where a literal may begin, from which on a look at grams, or a walk through all bytes, is faster than
a filter."""

LEAST_FOR_GRAMS = 6
"""Bytes of the shortest literal from which on a look at grams is the fastest, measured with 10 to 100 literals."""
MOST_STRIDE = 8
LEAST_WORDS, MOST_WORDS = 1 << 8, 1 << 17
"""Words of a bitmap; the most of them fill a third of a usual cache of the second level."""
FOLD = 0x20202020
"""Or-ed to four letters, these are small ones."""


@dataclass(frozen=True, eq=False)
class Prefilter:
    """Table of pattern_filter, u8[POSITIONS * ENTRIES], where `stride` is 0, or else the bitmaps of pattern_grams, u32[...]."""

    table: Array
    stride: int = 0
    params: dict[str, int] = field(default_factory=dict)


def prefilter_of(literals: Sequence[bytes], caseless: bool) -> Prefilter | None:
    """The fastest, or None where a walk through all bytes is as fast."""
    shortest = min(map(len, literals))
    if shortest < LEAST_FOR_GRAMS:
        table, share = filter_table(literals, caseless)
        if share < MOST_CANDIDATES:
            return Prefilter(table)
    return _grams(literals, shortest, caseless) if shortest >= GRAM else None


def _grams(literals: Sequence[bytes], shortest: int, caseless: bool) -> Prefilter:
    stride, fold = min(shortest - GRAM + 1, MOST_STRIDE), FOLD if caseless else 0
    prefixes = prefixes_of(literals, max(stride + GRAM - 1, PREFIX))
    words = min(max(1 << (2 * stride * len(literals) - 1).bit_length(), LEAST_WORDS), MOST_WORDS)
    mask = (1 << 8 * min(shortest, PREFIX)) - 1
    octets = np.ascontiguousarray(prefixes[:, :PREFIX]).view("<u8").reshape(-1)
    product = ((octets | np.uint64(fold << 32 | fold)) & np.uint64(mask)) * np.uint64(PREFIX_MULTIPLIER)
    bitmap = np.zeros((2, words), np.uint32)
    bitmap[0] = gram_bitmap(prefixes, stride, words, fold, 1)
    _set_bits(bitmap[1], (product >> np.uint64(32)).astype(np.uint32), 1)
    params = {"fold": fold, "mask": mask, "shift": 28 - words.bit_length()}
    return Prefilter(bitmap.reshape(-1), stride, params)


def prefixes_of(literals: Sequence[bytes], size: int) -> Array:
    """u8[literals, size]: the first bytes of each literal, with zeros behind shorter ones."""
    padded = b"".join(literal[:size].ljust(size, b"\0") for literal in literals)
    return np.frombuffer(padded, np.uint8).reshape(-1, size)


def gram_bitmap(prefixes: Array, stride: int, words: int, fold: int, num_bits: int) -> Array:
    """u32[words], with `num_bits` bits for each gram of what literals begin with: u8[literals, stride + GRAM - 1 or more]."""
    bitmap = np.zeros(words, np.uint32)
    for first in range(stride):
        gram = np.ascontiguousarray(prefixes[:, first : first + GRAM]).view("<u4").reshape(-1)
        _set_bits(bitmap, (gram | np.uint32(fold)) * np.uint32(MULTIPLIER), num_bits)
    return bitmap


def _set_bits(bitmap: Array, hashes: Array, num_bits: int) -> None:
    """Set the bits of some hashes: the highest of their bits are the number of the word, five behind them those of each bit."""
    shift = np.uint32(33 - len(bitmap).bit_length())
    for back in range(5, 5 * num_bits + 1, 5):
        bit = np.uint32(1) << (hashes >> (shift - np.uint32(back)) & np.uint32(31))
        np.bitwise_or.at(bitmap, hashes >> shift, bit)


_WEIGHT_OF_ENTRY = WEIGHTS.reshape(-1, ENTRIES).sum(0)


def filter_table(literals: Sequence[bytes], caseless: bool) -> tuple[Array, float]:
    """u8[POSITIONS * ENTRIES], and the share of places that it is expected to leave."""
    sets = _entry_sets(literals, caseless)
    while len(sets) > GROUPS:  # join the neighbours that are alike
        unions, shares = sets[:-1] | sets[1:], _shares(sets)
        at = int((_shares(unions) - shares[:-1] - shares[1:]).argmin())
        sets = np.concatenate([sets[:at], unions[at : at + 1], sets[at + 2 :]])
    return np.packbits(sets, axis=0, bitorder="little").reshape(-1), float(_shares(sets).sum())


def _entry_sets(literals: Sequence[bytes], caseless: bool) -> Array:
    """bool[units, POSITIONS, ENTRIES]: the entries that literals of a unit have at each position, all where one is shorter."""
    ordered = sorted(literal[:POSITIONS].lower() if caseless else literal[:POSITIONS] for literal in literals)
    lengths = np.fromiter(map(len, ordered), np.int64, len(ordered))
    octets = prefixes_of(ordered, POSITIONS)
    sets = np.uint64(1) << (octets % ENTRIES).astype(np.uint64)
    if caseless:
        is_letter = (octets >= ord("a")) & (octets <= ord("z"))
        sets |= np.where(is_letter, np.uint64(1) << ((octets ^ 32) % ENTRIES).astype(np.uint64), np.uint64(0))
    sets[np.arange(POSITIONS) >= lengths[:, None]] = np.uint64(0xFFFFFFFFFFFFFFFF)
    per_unit = -(-len(ordered) // UNITS)
    units = np.bitwise_or.reduceat(sets, np.arange(0, len(ordered), per_unit), axis=0)
    bits = np.unpackbits(units.astype("<u8").view(np.uint8), bitorder="little")
    return bits.reshape(-1, POSITIONS, ENTRIES).view(np.bool_)


def _shares(sets: Array) -> Array:
    """f64[n], the share of places that each group leaves."""
    return np.asarray((sets @ _WEIGHT_OF_ENTRY).prod(-1))
