"""A deterministic automaton over classes of bytes, as plain arrays, and the invariants that walkers rely on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

__all__ = ["MAX_CELLS", "Automaton", "concatenated_ranges"]

Array = np.ndarray[Any, Any]

MAX_CELLS = 1 << 29
"""No automaton has more states * classes: 2 GiB of u32, so that an index of a cell is a u32, too."""


@dataclass(frozen=True, eq=False)
class Automaton:
    """The state after a byte is `transitions[state, classes[byte]]`.

    `classes`: u8[256], the class of each byte; bytes that no pattern tells apart share one.
    `transitions`: u32[states, number of classes].  In state 0 nothing is under way.
    `depth`: u32[states]; what is under way in a state began at most so many bytes ago.
    `accept_offsets`: u32[accepting + 1]; `accept_patterns`: u32[n].  Matches that the byte that led to the k-th accepting
        state ends are those from accept_offsets[k] to accept_offsets[k + 1], sorted.
    `num_patterns`: numbers of patterns are below it.

    The accepting states have the highest numbers, so a walker tells them by one comparison.  The others are in
    the order of their depth in tries, and of their distance from state 0 otherwise: most bytes of most data lead to
    states near state 0, whose rows are then neighbours in a cache.
    """

    classes: Array
    transitions: Array
    depth: Array
    accept_offsets: Array
    accept_patterns: Array
    num_patterns: int

    @cached_property
    def num_states(self) -> int:
        return int(self.transitions.shape[0])

    @property
    def num_classes(self) -> int:
        return int(self.transitions.shape[1])

    @cached_property
    def first_accepting(self) -> int:
        """The lowest accepting state; the number of states if there is none."""
        return self.num_states - (len(self.accept_offsets) - 1)

    @cached_property
    def num_shown(self) -> Array:
        """Number of matches that each accepting state shows, i64; at least one."""
        return np.diff(self.accept_offsets.astype(np.int64))

    @cached_property
    def shows_one_each(self) -> bool:
        """Whether no accepting state shows several matches."""
        return len(self.accept_patterns) == len(self.num_shown)

    def accepted(self, states: Array) -> tuple[Array, Array]:
        """Matches that accepting `states` show: index into `states`, and pattern, of each."""
        sets = states.astype(np.int64) - self.first_accepting
        counts = self.num_shown[sets]
        at = concatenated_ranges(self.accept_offsets.astype(np.int64)[sets], counts)
        return np.repeat(np.arange(len(sets)), counts), self.accept_patterns[at]


def concatenated_ranges(starts: Array, counts: Array) -> Array:
    """starts[0], ..., starts[0] + counts[0] - 1, starts[1], ...: the indices of several slices, one after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
