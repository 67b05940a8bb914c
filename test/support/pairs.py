"""All pairs of two lists as cases, of which the plain run has a few that touch each of the first list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .quick import quick

__all__ = ["pairs"]


def pairs(firsts: Iterable[Any], seconds: Iterable[Any], keep: int = 1) -> list[Any]:
    """The pairs as pytest parameters.  The plain run has `keep` of each first, with the seconds in turn."""
    turn = [*seconds]
    cases = [
        (first, turn[(number * keep + place) % len(turn)])
        for number, first in enumerate(firsts)
        for place in range(len(turn))
    ]
    ids = [f"{first}-{second}" for first, second in cases]
    return quick(cases, lambda case: case[0], keep, ids=ids)
