"""A text in parts that can be parsed each alone: its items.

The parts are found by a glance at the starts of lines, so a text that is being typed has parts too.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Span", "items_of"]

_ITEM = re.compile(r"^[ \t]*(program|func|pipeline)\b", re.ASCII | re.MULTILINE)


class Span(NamedTuple):
    """A part of a text by the offsets of its start and its end."""

    start: int
    end: int


def items_of(text: str) -> tuple[Span, list[Span]]:
    """Text before the first item, and the items.

    An item begins with its keyword at the start of a line, and goes on to the next one.
    """
    starts = [match.start() for match in _ITEM.finditer(text)]
    bounds = [*starts, len(text)]
    return Span(0, bounds[0]), [Span(*pair) for pair in pairwise(bounds)]
