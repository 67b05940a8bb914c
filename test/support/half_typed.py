"""Texts as they are while somebody types them: cut off, with pieces left out, written twice, or not yet whole."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

__all__ = ["edits", "half_typed"]

PIECES = (
    *"%@{}()[]<>:,=\"x1\n ", "//", "->", "%x =", " : u32", "add ", "if %c {", "\n}\n", "for %k = ", "yield", "store ",
    "\n  buffer @b : u8[", "\nprogram @p workgroup(1) {", "launch @", "\N{GRINNING FACE}", "\u2028", "\r\n", "\0",
)  # fmt: skip


def edits(text: str, choose: random.Random) -> Iterator[tuple[int, int, str]]:
    """Endless edits of a text that an editor may make, each of the text after the one before: (start, end, new)."""
    while True:
        start = choose.randrange(len(text) + 1)
        kind = choose.randrange(4)
        if kind == 0:
            end, new = min(len(text), start + choose.choice((1, 1, 2, 8, 40))), ""
        elif kind == 1:
            end, new = start, choose.choice(PIECES)
        elif kind == 2:
            other = choose.randrange(len(text) + 1)
            end, new = start, text[other : other + choose.choice((3, 30, 120))]
        else:
            end, new = min(len(text), start + choose.choice((1, 3))), choose.choice(PIECES)
        yield start, end, new
        text = text[:start] + new + text[end:]


def half_typed(texts: Sequence[str], count: int, seed: int) -> Iterator[str]:
    """`count` texts that are not yet what they should be."""
    choose = random.Random(seed)
    for number in range(count):
        text = choose.choice(texts)
        if number % 3 == 0:
            yield text[: choose.randrange(len(text) + 1)]
            continue
        for _, (start, end, new) in zip(range(choose.choice((1, 2, 5))), edits(text, choose), strict=False):
            text = text[:start] + new + text[end:]
        yield text
