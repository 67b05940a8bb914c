"""The Aho-Corasick automaton of literal patterns, as tables with a column for each byte, which scan.dfa and
`decode_scan` walk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["DenseAutomaton", "Match", "build_automaton", "matches_of", "matches_of_hits"]

MAX_STATES = 1 << 16  # a table holds u16

Match = tuple[int, int]
"""The index of a match's last byte, and the number of the pattern."""


@dataclass(frozen=True)
class DenseAutomaton:
    """An Aho-Corasick automaton with its failure links folded into the transitions.

    `table`: u16, next state at state * 256 + byte; state 0 is the root.
    `accept`: u32, for each state 1 + the index in `sets` of the patterns that end there, or 0.
    `depth`: u16, for each state the length of the longest pattern prefix that the last bytes are.
    `longest`: bytes of the longest pattern; a state depends on at most that many bytes.

    The accepting states have the highest numbers, so a program tests for them with one comparison.  The
    others are in the order of their depth: most bytes of most texts lead to states near the root, whose rows
    are then neighbours in a cache.
    """

    table: np.ndarray
    accept: np.ndarray
    depth: np.ndarray
    sets: list[tuple[int, ...]]
    longest: int

    @property
    def warmup(self) -> int:
        """Number of bytes before an index that a walk from the root must see, to be in the right state after it."""
        return max(0, self.longest - 1)

    @property
    def accepting(self) -> np.ndarray:
        """The values of `accept` of the accepting states, in their order."""
        return self.accept[self.accept > 0]


def build_automaton(patterns: Sequence[bytes], longest: int | None = None) -> DenseAutomaton:
    """The automaton of `patterns`.

    Raises ValueError for an empty pattern, one of more than `longest` bytes, or too many states.
    """
    for number, pattern in enumerate(patterns, start=1):
        if not pattern or (longest is not None and len(pattern) > longest):
            limit = f"; the programs take 1 to {longest}" if longest is not None else ""
            raise ValueError(f"pattern {number} has {len(pattern)} bytes{limit}")
    rows: list[dict[int, int]] = [{}]  # the trie
    shown: list[list[int]] = [[]]
    for number, pattern in enumerate(patterns):
        state = 0
        for byte in pattern:
            state = rows[state].setdefault(byte, len(rows))
            if state == len(rows):
                rows.append({})
                shown.append([])
        shown[state].append(number)
    if len(rows) > MAX_STATES:
        raise ValueError(f"the patterns need more than {MAX_STATES} states; search for fewer at a time")
    table = np.zeros((len(rows), 256), np.uint16)
    depth, order = np.zeros(len(rows), np.uint16), [0]
    fail = [0] * len(rows)
    for state in order:  # which grows, by depth
        table[state] = table[fail[state]]
        for byte, child in rows[state].items():
            fail[child] = int(table[state, byte]) if state else 0
            shown[child] = sorted(shown[child] + shown[fail[child]])
            table[state, byte], depth[child] = child, depth[state] + 1
            order.append(child)
    order.sort(key=lambda state: bool(shown[state]))  # those that accept are the last
    renumbered = np.empty(len(order), np.uint16)
    renumbered[order] = np.arange(len(order))
    sets = sorted({tuple(shown[state]) for state in order if shown[state]})
    numbers = {(): 0} | {ending: number for number, ending in enumerate(sets, start=1)}
    accept = np.array([numbers[tuple(shown[state])] for state in order], np.uint32)
    longest_of_all = max(map(len, patterns), default=0)
    return DenseAutomaton(renumbered[table[order]].reshape(-1), accept, depth[order], sets, longest_of_all)


def matches_of(values: np.ndarray, automaton: DenseAutomaton) -> list[Match]:
    """The matches in the buffer @matches of the program `dfa`, sorted."""
    positions = np.flatnonzero(values)
    return [
        (int(position), number)
        for position, value in zip(positions, values[positions], strict=True)
        for number in sorted(automaton.sets[value - 1])
    ]


def matches_of_hits(hits: np.ndarray, automaton: DenseAutomaton) -> list[Match]:
    """The matches in the buffer @hits of the program `decode_scan`, sorted, each once."""
    unique = np.unique(hits)
    positions, values = (unique >> 32).tolist(), (unique & 0xFFFFFFFF).tolist()
    sets = automaton.sets
    return sorted(
        {
            (position, number)
            for position, value in zip(positions, values, strict=True)
            for number in sets[value - 1]
        }
    )
