"""The IR before and after the passes, side by side.

program @a, program @b        program @a_then_b         a program that launches became, beside those of the launches
  store %v, @mid[%g]            store %v, @mid[%l]
... 12 equal lines
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from ..records import dataclass
from .decisions import FusedLaunches

__all__ = ["Listing", "Row", "listings"]

CONTEXT = 3
"""Equal lines that are shown before and after others."""
MOST_LINES = 2000
"""Longer texts are not compared, which may take the square of their length."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of each side, or None.  `equal`: number of equal lines that a folded line stands for, 0 for any other.

    Of more than one line there is no text.
    """

    before: str | None
    after: str | None
    equal: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """Texts of an item before and after the passes; `rows` is empty if its texts are too long to compare."""

    before: str
    after: str
    rows: list[Row]


def listings(
    before: Mapping[str, str], after: Mapping[str, str], fused: Sequence[FusedLaunches]
) -> list[Listing]:
    """Items that changed, in the order of the text after the passes, and items that were removed.

    `before`, `after`: texts by kind and name, see `item_texts`.
    """
    origins = {
        f"program @{f.program}": [f"program @{name}" for name in f.launches] for f in fused if f.program
    }
    found, parts_of_others = [], set()
    for name, text in after.items():
        sources = [name] if name in before else [o for o in origins.get(name, ()) if o in before]
        if name not in before:
            parts_of_others |= set(sources)
        old = "".join(before[source] for source in dict.fromkeys(sources))
        if old != text:
            found.append(Listing(", ".join(dict.fromkeys(sources)), name, _rows(old, text)))
    gone = [name for name in before if name not in after and name not in parts_of_others]
    return found + [Listing(name, "", _rows(before[name], "")) for name in gone]


def _rows(before: str, after: str) -> list[Row]:
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MOST_LINES:
        return []
    rows: list[Row] = []
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for kind, start, end, new_start, new_end in opcodes:
        if kind == "equal":
            rows += _equal(old[start:end], is_first=start == 0, is_last=end == len(old))
        else:
            pairs = zip_longest(old[start:end], new[new_start:new_end])
            rows += [Row(left, right) for left, right in pairs]
    return rows


def _equal(lines: Sequence[str], *, is_first: bool, is_last: bool) -> Iterator[Row]:
    """Equal lines, those far from others in one row."""
    head, tail = (0 if is_first else CONTEXT), (0 if is_last else CONTEXT)
    head = max(head, 1) if is_first else head  # the line that names the item
    hidden = len(lines) - head - tail
    if hidden < 2:
        yield from (Row(line, line, 1) for line in lines)
        return
    yield from (Row(line, line, 1) for line in lines[:head])
    yield Row(None, None, hidden)
    yield from (Row(line, line, 1) for line in lines[len(lines) - tail :])
