"""The Aho-Corasick automaton of literal patterns, as tables with a column for each byte, which scan.dfa walks.

    python examples/automaton.py examples/patterns.txt

writes the tables for the patterns of a file, one a line, as table.npy and accept.npy, which vyre-run takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import click
import numpy as np

from vyre_scan.patterns.literal_automaton import literal_automaton

LONGEST_PATTERN = 65
"""decode_scan.vyre looks at 64 bytes before each place."""


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
    automaton = literal_automaton(patterns)
    if automaton.num_states > MAX_STATES:
        raise ValueError(f"the patterns need more than {MAX_STATES} states; search for fewer at a time")
    offsets, shown = automaton.accept_offsets.tolist(), automaton.accept_patterns.tolist()
    endings = [tuple(shown[begin:end]) for begin, end in pairwise(offsets)]
    sets = sorted(set(endings))
    accept = np.zeros(automaton.num_states, np.uint32)
    accept[automaton.first_accepting :] = [1 + sets.index(ending) for ending in endings]
    table = automaton.transitions.astype(np.uint16)[:, automaton.classes].reshape(-1)
    return DenseAutomaton(table, accept, automaton.depth.astype(np.uint16), sets, automaton.longest)


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


@click.command()
@click.argument("patterns", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=".", help="A folder.")
def main(patterns: Path, into: Path) -> None:
    """Tables for the search of PATTERNS, a file with one on each line."""
    lines = [line for line in patterns.read_bytes().splitlines() if line]
    try:
        automaton = build_automaton(lines, LONGEST_PATTERN)
    except ValueError as wrong:
        raise click.ClickException(str(wrong)) from None
    into.mkdir(parents=True, exist_ok=True)
    np.save(into / "table.npy", automaton.table)
    np.save(into / "accept.npy", automaton.accept)


if __name__ == "__main__":
    main()
