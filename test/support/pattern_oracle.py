"""What patterns match, by Python's `re` and by looking at each place: slow, and nothing in common with automata."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

__all__ = ["all_matches", "random_regex", "random_text"]

Spans = list[tuple[int, int, int]]


def all_matches(patterns: Sequence[bytes | re.Pattern[bytes]], text: bytes) -> Spans:
    """(start, end, pattern) for each end with its leftmost start, sorted by end, then pattern."""
    matches: Spans = []
    for number, pattern in enumerate(patterns):
        source, flags = (
            (re.escape(pattern), 0) if isinstance(pattern, bytes) else (pattern.pattern, pattern.flags)
        )
        for end in range(1, len(text) + 1):
            # `endpos` would hide what follows from anchors, so the rest of the text is counted
            exact = re.compile(b"(?:" + source + rb")(?=(?s:.{%d})\Z)" % (len(text) - end), flags)
            start = next((start for start in range(end) if exact.match(text, start)), None)
            if start is not None:
                matches.append((start, end, number))
    return sorted(matches, key=lambda match: (match[1], match[2]))


def random_text(draw: random.Random, size: int, letters: bytes = b"ab_ \nA") -> bytes:
    return bytes(draw.choices(letters, k=size))


def random_regex(draw: random.Random, depth: int = 3) -> bytes:
    """A regular expression over the letters of `random_text`, which may match the empty string."""
    if depth == 0 or draw.random() < 0.25:
        return draw.choice(_ATOMS)
    match draw.randrange(5):
        case 0:
            return random_regex(draw, depth - 1) + b"|" + random_regex(draw, depth - 1)
        case 1:
            opened = draw.choice([b"(", b"(?:", b"(?i:", b"(?s:", b"(?m:"])
            return opened + random_regex(draw, depth - 1) + b")" + draw.choice(_REPETITIONS)
        case _:
            return b"".join(random_regex(draw, depth - 1) for _ in range(draw.randrange(1, 4)))


_REPETITIONS = [b"*", b"+", b"?", b"*?", b"{2}", b"{1,2}", b"{,2}", b"{2,}", b"??", b""]
_ATOMS = (
    rb"a b a b _ \n A . [ab] [^a] \w \W \s \d|a \b \B ^ $ \A \Z [^\n_] a+ b* .? a{2} (?m:^) (?m:$)".split()
)
