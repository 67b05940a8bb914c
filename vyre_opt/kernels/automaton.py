"""The Aho-Corasick automaton of literal patterns, as the tables that scan.dfa and `decode_scan` walk."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Automaton", "Match", "build_automaton", "matches_of", "matches_of_hits"]

MAX_STATES = 1 << 16  # a table holds u16

Match = tuple[int, int]
"""The index of a match's last byte, and the number of the pattern."""


@dataclass(frozen=True)
class Automaton:
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
        """How many bytes before an index a walk from the root must see, to be in the right state after it."""
        return max(0, self.longest - 1)

    @property
    def accepting(self) -> np.ndarray:
        """The values of `accept` of the accepting states, in their order."""
        return self.accept[self.accept > 0]


def build_automaton(patterns: Sequence[bytes], longest: int | None = None) -> Automaton:
    """The automaton of `patterns`.

    Raises ValueError for an empty pattern, one of more than `longest` bytes, or too many states.
    """
    rows = [np.zeros(256, np.uint16)]  # goto of the trie at first; 0 where it has no edge
    ends: list[tuple[int, ...]] = [()]
    depth = [0]
    for number, pattern in enumerate(patterns):
        if not pattern or (longest is not None and len(pattern) > longest):
            limit = f"; the programs take 1 to {longest}" if longest is not None else ""
            raise ValueError(f"pattern {number + 1} has {len(pattern)} bytes{limit}")
        _insert(rows, ends, depth, pattern, number)
    _close(rows, ends)
    sets = sorted(set(ends) - {()})
    numbers = {ending: number for number, ending in enumerate(sets, start=1)} | {(): 0}
    accept = np.array([numbers[ending] for ending in ends], np.uint32)
    # by acceptance, then by depth: the last key of lexsort counts most
    order = np.lexsort((np.array(depth), accept > 0))
    renumbered = np.empty(len(order), np.uint16)
    renumbered[order] = np.arange(len(order))
    table = renumbered[np.stack(rows)[order]].reshape(-1)
    depths = np.array(depth, np.uint16)[order]
    return Automaton(table, accept[order], depths, sets, max(map(len, patterns), default=0))


def _insert(
    rows: list[np.ndarray], ends: list[tuple[int, ...]], depth: list[int], pattern: bytes, number: int
) -> None:
    """Add a path for `pattern` to the trie."""
    state = 0
    for length, byte in enumerate(pattern, start=1):
        if not rows[state][byte]:
            if len(rows) == MAX_STATES:
                raise ValueError(
                    f"the patterns need more than {MAX_STATES} states; search for fewer at a time"
                )
            rows[state][byte] = len(rows)
            rows.append(np.zeros(256, np.uint16))
            ends.append(())
            depth.append(length)
        state = int(rows[state][byte])
    ends[state] += (number,)


def _close(rows: list[np.ndarray], ends: list[tuple[int, ...]]) -> None:
    """Fold the failure links into the transitions.

    Breadth first: the failure of a state is less deep, so its row is complete before it is used.
    """
    queue = deque((int(child), 0) for child in rows[0][rows[0] > 0])
    while queue:
        state, failure = queue.popleft()
        edges = rows[state] > 0
        queue.extend((int(rows[state][byte]), int(rows[failure][byte])) for byte in np.flatnonzero(edges))
        rows[state] = np.where(edges, rows[state], rows[failure])
        ends[state] += ends[failure]


def matches_of(values: np.ndarray, automaton: Automaton) -> list[Match]:
    """The matches in the buffer @matches of the program `dfa`, sorted."""
    places = np.flatnonzero(values)
    return [
        (int(place), number)
        for place, value in zip(places, values[places], strict=True)
        for number in sorted(automaton.sets[value - 1])
    ]


def matches_of_hits(hits: np.ndarray, automaton: Automaton) -> list[Match]:
    """The matches in the buffer @hits of the program `decode_scan`, sorted, each once."""
    unique = np.unique(hits)
    places, values = (unique >> 32).tolist(), (unique & 0xFFFFFFFF).tolist()
    sets = automaton.sets
    return sorted(
        {(place, number) for place, value in zip(places, values, strict=True) for number in sets[value - 1]}
    )
