"""What bench/search.py compares Scanner with: pybase64 and Hyperscan, and pyahocorasick as another witness of hits."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

__all__ = ["PIECE", "Hyperscan", "aho_ends", "is_installed"]

PIECE = 384 * 1024
"""Characters that pybase64 decodes and Hyperscan then searches, so that the bytes stay in a cache.  A multiple of 4."""

PIECE_OF_LINES = PIECE // 77 * 77

Hits = list[tuple[int, int]]
"""Of each match the place behind it, and the number of its pattern."""


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


class Hyperscan:
    """A block database of literals."""

    def __init__(self, literals: Sequence[bytes], caseless: bool) -> None:
        import hyperscan

        flag = hyperscan.HS_FLAG_CASELESS if caseless else 0
        self.database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        count = len(literals)
        self.database.compile(
            expressions=list(literals), ids=[*range(count)], flags=[flag] * count, literal=True
        )

    def search(self, data: bytes) -> Hits:
        hits: Hits = []

        def on_match(number: int, start: int, end: int, flags: int, context: Any) -> None:
            hits.append((end, number))

        self.database.scan(data, match_event_handler=on_match)
        return hits

    def decode_and_search(self, text: bytes, in_lines: bool = False) -> int:
        """How many matches there are in the pieces of base64 text; those that span two are not found.

        `in_lines`: the text has a line break behind each 76 characters, and no character is checked.
        """
        import pybase64

        piece = PIECE_OF_LINES if in_lines else PIECE
        return sum(
            len(self.search(pybase64.b64decode(text[at : at + piece], validate=not in_lines)))
            for at in range(0, len(text), piece)
        )


def aho_ends(literals: Sequence[bytes], data: bytes, caseless: bool) -> Hits:
    """By pyahocorasick, which takes text: each byte is a character of Latin-1."""
    import ahocorasick

    numbers: dict[str, list[int]] = {}
    for number, literal in enumerate(literals):
        word = (literal.lower() if caseless else literal).decode("latin-1")
        numbers.setdefault(word, []).append(number)
    automaton = ahocorasick.Automaton()
    for word, own in numbers.items():
        automaton.add_word(word, own)
    automaton.make_automaton()
    searched = (data.lower() if caseless else data).decode("latin-1")
    return sorted((last + 1, number) for last, own in automaton.iter(searched) for number in own)
