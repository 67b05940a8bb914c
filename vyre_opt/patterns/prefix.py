"""The bytes that each match of a pattern begins with: what to search for where the whole pattern needs too many states.

AIza[0-9A-Za-z_-]{35} may begin again within itself, so an automaton that finds all its matches at once counts up to 35
from each place where it did: 131,072 states are not enough.  One that begins at a known place needs 40.  So `AIza` is
searched for, and the pattern walked from each place where that is: rarely, as `AIza` is rare.
"""

from __future__ import annotations

from math import prod

from .regex_syntax import Anchor, ByteSet, Concatenation, Node, Repetition

__all__ = ["rare_prefix"]

MAX_BYTES = 16
MAX_MEMBERS = 8
"""A set of more bytes tells little, so a prefix does not end in one."""
RARE = 1 << 12
"""Of random bytes one in so many, or fewer, begins a prefix."""


def rare_prefix(node: Node) -> list[ByteSet]:
    """The first bytes of all matches; none of them, if they are as common as in one of 4096 places."""
    prefix, _ = _leading(node)
    prefix = prefix[:MAX_BYTES]
    while prefix and prefix[-1].members.bit_count() > MAX_MEMBERS:
        prefix.pop()
    return prefix if prod(256 / max(1, one.members.bit_count()) for one in prefix) >= RARE else []


def _leading(node: Node) -> tuple[list[ByteSet], bool]:
    """The sets of bytes that a node begins with, one after the other, and whether it has no others."""
    match node:
        case ByteSet():
            return [node], True
        case Anchor():
            return [], True
        case Concatenation(items):
            sets: list[ByteSet] = []
            for item in items:
                more, is_whole = _leading(item)
                sets += more
                if not is_whole or len(sets) > MAX_BYTES:
                    return sets, False
            return sets, True
        case Repetition(item, low, high) if low:
            sets, is_whole = _leading(item)
            return (sets * min(low, MAX_BYTES), low == high) if is_whole else (sets, False)
    return [], False
