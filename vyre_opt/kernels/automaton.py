"""The Aho-Corasick automaton of literal patterns, as the table that scan.dfa walks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Automaton", "Match", "build_automaton", "matches_of", "matches_of_hits"]

MAX_STATES = 1 << 16  # a table holds u16

Match = tuple[int, int]
"""Where a pattern ends (the place of its last byte) and its number."""


@dataclass(frozen=True)
class Automaton:
    """An Aho-Corasick automaton with its failure links folded into the transitions.

    `table`: u16, next state at state * 256 + byte; state 0 is the root.  `accept`: u32,
    for each state 0, or 1 + the place in `sets` of the patterns that end there; the states
    where one ends are the last, and before them those come first that are nearer to the root,
    which is where most bytes of most texts lead.  `depth`: u16, for each state how many of the last bytes it
    knows, which are the longest beginning of a pattern.  `longest`: bytes of the longest
    pattern; the state depends on so many bytes at most.
    """

    table: np.ndarray
    accept: np.ndarray
    depth: np.ndarray
    sets: list[tuple[int, ...]]
    longest: int

    @property
    def warmup(self) -> int:
        """Bytes before a place that a walk must see to be in the right state after it."""
        return max(0, self.longest - 1)

    @property
    def accepting(self) -> np.ndarray:
        """The numbers of the states where a pattern ends."""
        return self.accept[self.accept > 0]


def build_automaton(patterns: Sequence[bytes], longest: int | None = None) -> Automaton:
    """Raises ValueError for an empty pattern, one of more than `longest` bytes, or too many states."""
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
    order = np.lexsort((np.array(depth), accept > 0))
    renumbered = np.empty(len(order), np.uint16)
    renumbered[order] = np.arange(len(order))
    table = renumbered[np.stack(rows)[order]].reshape(-1)
    depths = np.array(depth, np.uint16)[order]
    return Automaton(table, accept[order], depths, sets, max(map(len, patterns), default=0))


def _insert(
    rows: list[np.ndarray], ends: list[tuple[int, ...]], depth: list[int], pattern: bytes, number: int
) -> None:
    """Add the path of a pattern to the trie."""
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
    """Fold failures into the transitions.

    Breadth first, so that the row of a state's failure, which is shorter, is complete before it
    is used.
    """
    queue = deque((int(child), 0) for child in rows[0][rows[0] > 0])
    while queue:
        state, failure = queue.popleft()
        edges = rows[state] > 0
        queue.extend((int(rows[state][byte]), int(rows[failure][byte])) for byte in np.flatnonzero(edges))
        rows[state] = np.where(edges, rows[state], rows[failure])
        ends[state] += ends[failure]


def matches_of(values: np.ndarray, automaton: Automaton) -> list[Match]:
    """What a program wrote to @matches, as sorted matches."""
    places = np.flatnonzero(values)
    return [
        (int(place), number)
        for place, value in zip(places, values[places], strict=True)
        for number in sorted(automaton.sets[value - 1])
    ]


def matches_of_hits(hits: np.ndarray, automaton: Automaton) -> list[Match]:
    """What the program `decode_scan` wrote to @hits, as sorted matches, each once."""
    unique = np.unique(hits)
    places, values = (unique >> 32).tolist(), (unique & 0xFFFFFFFF).tolist()
    sets = automaton.sets
    return sorted(
        {(place, number) for place, value in zip(places, values, strict=True) for number in sets[value - 1]}
    )
