"""All matches in data, found by walking the automata in Python: for small data, and to compare other walkers with."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from .automaton import CONTEXT_OF, DATA_EDGE, FINAL_NEWLINE, NEWLINE
from .compiled import CompiledPatterns

__all__ = ["Match", "find", "leftmost_start", "matches_of"]

Array = np.ndarray[Any, Any]


class Match(NamedTuple):
    """`data[start:end]` matches; `pattern` is its number."""

    start: int
    end: int
    pattern: int


def find(compiled: CompiledPatterns, data: bytes) -> list[Match]:
    """All matches of all patterns, sorted by end, then pattern; for each end and pattern the leftmost start."""
    search = compiled.search
    classes = search.classes[np.frombuffer(data, np.uint8)].tolist()
    state = int(search.entries[0, DATA_EDGE])
    positions, states = [], []
    for position, column in enumerate(classes):
        state = int(search.transitions[state, column])
        if state >= search.first_accepting:
            positions.append(position)
            states.append(state)
    return matches_of(compiled, data, np.array(positions, np.int64), np.array(states, np.int64), state)


def matches_of(
    compiled: CompiledPatterns, data: bytes, positions: Array, states: Array, final_state: int
) -> list[Match]:
    """The matches, sorted, that a walk shows.

    `positions`: indices of the bytes after which it was in accepting `states`.  `final_state`: after the last byte.
    """
    index, patterns, lags = compiled.search.accepted(states)
    end_patterns, end_lags = compiled.search.accepted_at_end(final_state)
    ends = np.concatenate([positions[index] + 1 - lags, len(data) - end_lags.astype(np.int64)])
    ends = np.maximum(ends, 0)  # of tables that are valid and wrong
    numbers = np.concatenate([patterns, end_patterns])
    is_prefix = compiled.prefixes[numbers] > 0
    matches = _confirmed(compiled, data, ends[is_prefix], numbers[is_prefix])
    ends, numbers = ends[~is_prefix], numbers[~is_prefix]
    lengths = compiled.lengths[numbers]
    starts = np.maximum(ends - lengths, 0)
    rows = np.cumsum(compiled.is_reversed) - 1
    for at in np.flatnonzero(lengths == 0):
        starts[at] = leftmost_start(compiled, data, int(ends[at]), int(rows[numbers[at]]))
    spans = zip(starts.tolist(), ends.tolist(), numbers.tolist(), strict=True)
    return sorted((*matches, *itertools.starmap(Match, spans)), key=lambda match: (match.end, match.pattern))


def _confirmed(compiled: CompiledPatterns, data: bytes, ends: Array, numbers: Array) -> list[Match]:
    """The matches that begin with prefixes, which end at `ends`."""
    rows = np.cumsum(compiled.prefixes > 0) - 1
    starts = np.maximum(ends - compiled.prefixes[numbers], 0)
    leftmost: dict[tuple[int, int], int] = {}
    for at in np.argsort(starts, kind="stable").tolist():
        start, number = int(starts[at]), int(numbers[at])
        for end in _ends_from(compiled, data, start, int(rows[number])):
            leftmost.setdefault((end, number), start)
    return [Match(start, end, number) for (end, number), start in leftmost.items()]


def _ends_from(compiled: CompiledPatterns, data: bytes, start: int, row: int) -> list[int]:
    """The ends of all matches that begin at `start`.  `row`: of the pattern in `confirm.entries`."""
    confirm = compiled.confirm
    assert confirm is not None
    before = int(CONTEXT_OF[data[start - 1]]) if start else DATA_EDGE
    state, position, ends = int(confirm.entries[row, before]), start, []
    while position < len(data) and state:
        state = int(confirm.transitions[state, confirm.classes[data[position]]])
        position += 1
        if state >= confirm.first_accepting:
            ends += [position - int(lag) for lag in confirm.accepted(np.array([state]))[2]]
    if position == len(data):
        ends += [max(position - int(lag), 0) for lag in confirm.accepted_at_end(state)[1]]
    return ends


def leftmost_start(compiled: CompiledPatterns, data: bytes, end: int, row: int) -> int:
    """The lowest start of a match that ends at `end`.  `row`: of the pattern in `reverse.entries`.

    Takes as many steps as bytes between the two, and as the pattern can go on to the left.
    """
    reverse = compiled.reverse
    assert reverse is not None
    state, start, position = int(reverse.entries[row, _context_at(data, end)]), end, end
    while position > 0 and state:
        position -= 1
        state = int(reverse.transitions[state, reverse.classes[data[position]]])
        if state >= reverse.first_accepting:
            _, _, lags = reverse.accepted(np.array([state]))
            start = position + int(lags.min())
    if position == 0:
        _, lags = reverse.accepted_at_end(state)
        if len(lags):
            start = 0
    return start


def _context_at(data: bytes, index: int) -> int:
    """The context that the byte at `index` is for the one before it."""
    if index == len(data):
        return DATA_EDGE
    context = int(CONTEXT_OF[data[index]])
    return FINAL_NEWLINE if context == NEWLINE and index == len(data) - 1 else context
