"""What anchors ask of the two bytes that they stand between, as bits of an int; several hold if each does."""

from __future__ import annotations

from functools import cache

from .automaton import DATA_EDGE, FINAL_NEWLINE, NEWLINE, WORD

__all__ = ["BIT_OF", "LAST_LINE_END", "holds", "weakest"]

_BEGIN, _END, _LINE_BEGIN, _LINE_END, LAST_LINE_END, _WORD_EDGE, _NO_WORD_EDGE = (
    1 << bit for bit in range(7)
)

BIT_OF = {
    "begin": _BEGIN,
    "end": _END,
    "line begin": _LINE_BEGIN,
    "line end": _LINE_END,
    "last line end": LAST_LINE_END,
    "word": _WORD_EDGE,
    "not word": _NO_WORD_EDGE,
}
"""By the kind of an Anchor."""

_NEWLINES = (NEWLINE, FINAL_NEWLINE)


@cache
def holds(conditions: int, left: int, right: int) -> bool:
    """Whether all conditions hold between two contexts (see automaton)."""
    true = {
        _BEGIN: left == DATA_EDGE,
        _END: right == DATA_EDGE,
        _LINE_BEGIN: left == DATA_EDGE or left in _NEWLINES,
        _LINE_END: right == DATA_EDGE or right in _NEWLINES,
        LAST_LINE_END: right in (DATA_EDGE, FINAL_NEWLINE),
        _WORD_EDGE: (left == WORD) != (right == WORD),
        _NO_WORD_EDGE: (left == WORD) == (right == WORD),
    }
    return all(is_true for condition, is_true in true.items() if conditions & condition)


def weakest(alternatives: set[int]) -> set[int]:
    """Those of several conditions, one of which must hold, that no other one is a part of."""
    return {one for one in alternatives if not any(other & one == other != one for other in alternatives)}
