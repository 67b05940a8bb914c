"""A walk of an automaton in Python, to compare programs with."""

from __future__ import annotations

import numpy as np

from vyre_scan import Match
from vyre_scan.patterns.compiled import CompiledPatterns

__all__ = ["find"]


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
