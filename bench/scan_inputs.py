"""What decode_scan_gpu searches: source text with planted secrets, and where an independent search finds them."""

from __future__ import annotations

import base64
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test"))  # so that a benchmark runs as it is, without PYTHONPATH

from support.kernel_cases.decode_and_search import occurrences  # noqa: E402

Match = tuple[int, int]


@dataclass(frozen=True)
class Corpus:
    """`encoded`: base64 of `size` bytes, as u8; `expected`: place of the last byte, number of the pattern."""

    patterns: list[bytes]
    size: int
    encoded: np.ndarray
    expected: list[Match]
    checked_by: str

    def first(self, size: int) -> Corpus:
        """Of the first `size` bytes, a multiple of 3."""
        matches = [match for match in self.expected if match[0] < size]
        return Corpus(self.patterns, size, self.encoded[: size // 3 * 4], matches, self.checked_by)


def corpus(size: int) -> Corpus:
    """Python's own sources, the patterns of examples/ planted about every 16 KiB.  `size`: a multiple of 3."""
    own = example()
    patterns = own.read_patterns(ROOT / "examples" / "patterns.txt")
    text = bytearray(own.library_text(size))
    draw = random.Random(7)
    for _ in range(size >> 14):
        pattern = draw.choice(patterns)
        at = draw.randrange(size - len(pattern))
        text[at : at + len(pattern)] = pattern
    expected, by = searched(bytes(text), patterns)
    encoded = np.frombuffer(base64.b64encode(text), np.uint8)
    return Corpus(patterns, size, encoded, expected, by)


def searched(text: bytes, patterns: list[bytes]) -> tuple[list[Match], str]:
    """By pyahocorasick where it is installed, else by bytes.find, pattern by pattern."""
    try:
        import ahocorasick
    except ImportError:
        return occurrences(text, patterns), "bytes.find"
    automaton = ahocorasick.Automaton()
    for number, pattern in enumerate(patterns):
        automaton.add_word(pattern.decode("latin-1"), number)
    automaton.make_automaton()
    return sorted(automaton.iter(text.decode("latin-1"))), "pyahocorasick"


def example() -> Any:
    sys.path.insert(0, str(ROOT / "examples"))
    import decode_scan

    return decode_scan
