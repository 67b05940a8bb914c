"""A walk of an automaton in Python, to compare programs with."""

from __future__ import annotations

import numpy as np

from vyre_scan import Match
from vyre_scan.patterns.automaton import Automaton

__all__ = ["find"]


def find(automaton: Automaton, data: bytes) -> list[Match]:
    """All matches of all patterns, sorted by end, then pattern."""
    state, hits = 0, []
    for position, column in enumerate(automaton.classes[np.frombuffer(data, np.uint8)].tolist()):
        state = int(automaton.transitions[state, column])
        if state >= automaton.first_accepting:
            hits.append(position << 32 | state - automaton.first_accepting)
    columns = automaton.matches(np.array(hits, np.uint64))
    return [Match(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
