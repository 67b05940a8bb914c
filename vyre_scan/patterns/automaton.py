"""A deterministic automaton over classes of bytes, as plain arrays, and the invariants that walkers rely on."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from vyre_opt.records import dataclass

from ..arrays import Array

__all__ = ["MAX_CELLS", "Automaton", "concatenated_ranges"]

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
    `lengths`: u32[patterns], the bytes of a match of each.

    The accepting states have the highest numbers, so a walker tells them by one comparison.  The others are in
    the order of their depth in tries, and of their distance from state 0 otherwise: most bytes of most data lead to
    states near state 0, whose rows are then neighbours in a cache.
    """

    classes: Array
    transitions: Array
    depth: Array
    accept_offsets: Array
    accept_patterns: Array
    lengths: Array

    @property
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
    def longest(self) -> int:
        """Bytes of the longest match."""
        return int(self.lengths.max())

    @property
    def warmup(self) -> int:
        """Number of bytes before an index that a walk must see to be in the right state after it."""
        return self.longest - 1

    @cached_property
    def num_patterns(self) -> Array:
        """Number of matches that each accepting state shows, i64; at least one."""
        return np.diff(self.accept_offsets.astype(np.int64))

    @cached_property
    def has_shared_ends(self) -> bool:
        """Whether an accepting state shows several matches."""
        return len(self.accept_patterns) > len(self.num_patterns)

    @cached_property
    def first_patterns(self) -> Array:
        """First pattern that each accepting state shows."""
        return self.accept_patterns[self.accept_offsets[:-1]]

    # --- as programs walk it

    @cached_property
    def columns(self) -> Array:
        """@columns of pattern_walk."""
        return self.classes.astype(np.uint32)

    @cached_property
    def cells(self) -> Array:
        """@transitions of pattern_walk: for each state the cells at which the rows of the next states begin, and its depth."""
        cells = self.transitions * np.uint32(self.num_classes + 1)
        return np.column_stack([cells, self.depth]).astype(np.uint32, copy=False).reshape(-1)

    @cached_property
    def params(self) -> dict[str, int]:
        """Parameters of each program that walks the cells."""
        return {"classes": self.num_classes, "first_accepting": self.first_accepting * (self.num_classes + 1)}

    def matches(self, hits: Array, base: int = 0) -> tuple[Array, Array, Array]:
        """The starts and ends, u64, and the patterns of the matches that hits show, sorted by end, then pattern.

        `hits`: u64 in ascending order, the index of a byte << 32 | the number of the accepting state after it, from 0.
        `base`: the place of the byte with index 0.
        """
        states = hits.astype(np.uint32)
        ends = hits >> np.uint64(32)
        ends += np.uint64(base + 1)
        if self.has_shared_ends:
            counts = self.num_patterns.take(states)
            firsts = self.accept_offsets.take(states).astype(np.int64)
            patterns = self.accept_patterns[concatenated_ranges(firsts, counts)]
            ends = np.repeat(ends, counts)
        else:
            patterns = self.first_patterns.take(states)
        return ends - self.lengths.take(patterns), ends, patterns


def concatenated_ranges(starts: Array, counts: Array) -> Array:
    """starts[0], ..., starts[0] + counts[0] - 1, starts[1], ...: the indices of several slices, one after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
