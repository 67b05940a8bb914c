"""What a search must find, by Python's own modules: `re`, base64 and binascii, and counting."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vyre_scan import Match

__all__ = ["encoded_place", "literal_matches", "regex_matches"]


def literal_matches(patterns: Sequence[bytes], data: bytes, caseless: bool = False) -> list[Match]:
    """All places of all patterns, sorted by end, then pattern."""
    searched = data.lower() if caseless else data
    found = [
        Match(start, start + len(pattern), number)
        for number, pattern in enumerate(patterns)
        for start in _places(searched, pattern.lower() if caseless else pattern)
    ]
    return sorted(found, key=lambda match: (match.end, match.pattern))


def _places(data: bytes, pattern: bytes) -> Iterator[int]:
    start = data.find(pattern)
    while start >= 0:
        yield start
        start = data.find(pattern, start + 1)


def regex_matches(patterns: Sequence[bytes], data: bytes, flags: int = 0) -> list[Match]:
    """What `re.finditer` gives for each pattern, sorted by end, then pattern."""
    found = [
        Match(*match.span(), number)
        for number, pattern in enumerate(patterns)
        for match in re.finditer(pattern, data, flags)
    ]
    return sorted(found, key=lambda match: (match.end, match.pattern, match.start))


def encoded_place(text: bytes, number: int, blanks: bytes = b" \t\r\n\v\f") -> int:
    """The place in a text of the character with that number, not counting blanks."""
    seen = -1
    for place, character in enumerate(text):
        seen += character not in blanks
        if seen == number:
            return place
    return len(text)
