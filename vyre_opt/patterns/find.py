"""All matches in data, found by walking the automaton in Python: for small data, and to compare other walkers with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiled import CompiledPatterns

__all__ = ["Match", "find"]


class Match(NamedTuple):
    """`data[start:end]` matches; `pattern` is its number."""

    start: int
    end: int
    pattern: int


def find(compiled: CompiledPatterns, data: bytes) -> list[Match]:
    """All matches of all patterns, sorted by end, then pattern."""
    search = compiled.search
    state, matches = 0, []
    for position, column in enumerate(search.classes[np.frombuffer(data, np.uint8)].tolist()):
        state = int(search.transitions[state, column])
        if state >= search.first_accepting:
            _, patterns = search.accepted(np.array([state]))
            end = position + 1
            matches += [Match(max(end - int(compiled.lengths[p]), 0), end, int(p)) for p in patterns]
    return matches
