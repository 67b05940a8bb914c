"""The Aho-Corasick automaton of many literals, built a level of their trie at a time.

Sorted, the patterns that share a prefix are neighbours, so the states of depth d are the runs of equal prefixes of d
bytes: a few operations of NumPy find all of them.  So do they for failure links, which lead to shallower states:

    fail(child)  = next(fail(parent), byte)
    next(state)  = the row of fail(state), with the edges of the trie put over it

A state's number is final as soon as its failure link is known, without a second pass over the table: states where no
pattern ends count up from 0, accepting ones down from the last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vyre_opt.records import dataclass

from ..arrays import Array
from .automaton import MAX_CELLS, Automaton, concatenated_ranges

__all__ = ["MAX_SHOWN_MATCHES", "LimitExceeded", "literal_automaton"]

MAX_SHOWN_MATCHES = 1 << 26
"""Most matches of all accepting states together: a, aa, aaa, ... all end where the longest does, which makes n * n / 2."""


class LimitExceeded(ValueError):
    """Patterns whose automaton is larger than a limit; the message names the limit, and the patterns that exceed it."""


def literal_automaton(patterns: Sequence[bytes], caseless: bool = False) -> Automaton:
    """The automaton that shows each place where one of `patterns` ends.

    `patterns`: none of them empty; one that is there twice is shown twice.  `caseless`: ASCII letters match in either
    case.  Takes `4 * states * classes` bytes; there are as many classes as different bytes in the patterns, and one.
    Raises LimitExceeded for a table of more than MAX_CELLS, or too many patterns that end in each other.
    """
    contents = [pattern.lower() for pattern in patterns] if caseless else patterns
    order = np.array(sorted(range(len(contents)), key=contents.__getitem__), np.int64)
    text = np.frombuffer(b"".join([contents[number] for number in order]), np.uint8)
    lengths = np.fromiter(map(len, contents), np.int64, len(contents))[order]
    classes, num_classes = _byte_classes(text, caseless)
    levels = _trie_levels(classes[text], lengths)
    num_states = 1 + sum(len(level.symbols) for level in levels)
    if num_states * num_classes > MAX_CELLS:
        raise LimitExceeded(
            f"the patterns need {num_states} states of {num_classes} classes of bytes, more than {MAX_CELLS} cells of a "
            "table; search for fewer patterns at a time"
        )
    numbering = _Numbering(num_states, num_classes)
    for level in levels:
        numbering.add(level)
    numbering.complete_rows()
    offsets, numbers = numbering.pattern_numbers(order)
    return Automaton(
        classes=classes,
        transitions=numbering.rows,
        depth=numbering.depth,
        accept_offsets=offsets,
        accept_patterns=numbers,
        lengths=np.fromiter(map(len, patterns), np.uint32, len(patterns)),
    )


def _byte_classes(text: Array, caseless: bool) -> tuple[Array, int]:
    """Each byte of the patterns has a class of its own, all others share class 0; and the number of classes."""
    is_used = np.zeros(256, bool)
    is_used[text] = True
    classes = np.cumsum(is_used) - bool(is_used.all())
    classes[~is_used] = 0
    num_classes = int(classes.max()) + 1
    if caseless:
        upper = np.arange(ord("A"), ord("Z") + 1)
        classes[upper] = classes[upper + 32]
    return classes.astype(np.uint8), num_classes


def _begins_run(*columns: Array) -> Array:
    """Whether each row differs from the one before it."""
    begins = np.empty(len(columns[0]), bool)
    begins[:1] = True
    np.not_equal(columns[0][1:], columns[0][:-1], out=begins[1:])
    for values in columns[1:]:
        begins[1:] |= values[1:] != values[:-1]
    return begins


@dataclass(frozen=True)
class _Level:
    """The states of one depth, in the order of their prefixes.

    `parents`: indices into the level above.  `symbols`: classes of the bytes that lead here.  `ending`: those states
    where patterns end; which they are, by their place among the sorted patterns: `first`, and `count` of them.
    """

    parents: Array
    symbols: Array
    ending: Array
    first: Array
    count: Array


def _trie_levels(symbols: Array, lengths: Array) -> list[_Level]:
    """The levels of the trie of sorted patterns, whose `symbols` lie one after the other."""
    at = np.cumsum(lengths) - lengths  # of each active pattern: the place of its next symbol,
    last = at + lengths - 1
    active = np.arange(len(lengths))
    prefix = np.zeros(len(lengths), np.int64)  # and its state in the level above
    levels: list[_Level] = []
    none = np.zeros(0, np.int64)
    while len(active):
        symbol = symbols[at]
        is_new = _begins_run(symbol, prefix)
        parents, edges = prefix[is_new], symbol[is_new]
        prefix = is_new.cumsum() - 1
        goes_on = at < last
        if goes_on.all():
            levels.append(_Level(parents, edges, none, none, none))
        else:
            ending, states = (
                active[~goes_on],
                prefix[~goes_on],
            )  # equal patterns are neighbours, as all are sorted
            first = _begins_run(states).nonzero()[0]
            count = np.diff(first, append=len(states))
            levels.append(_Level(parents, edges, states[first], ending[first], count))
            active, prefix, at, last = active[goes_on], prefix[goes_on], at[goes_on], last[goes_on]
        at = at + 1
    return levels


class _Numbering:
    """Gives the states of one level after the other their numbers, failure links and rows.

    When a level is added, the rows of the levels above its parents' are complete.
    """

    def __init__(self, num_states: int, num_classes: int) -> None:
        self.rows = np.empty((num_states, num_classes), np.uint32)
        self.rows[0] = 0
        self.cells = self.rows.reshape(-1)
        self.depth = np.zeros(num_states, np.uint32)
        self.fail = np.zeros(num_states, np.int64)
        self.first = np.zeros(num_states, np.int64)  # patterns that end in a state, among the sorted ones
        self.count = np.zeros(num_states, np.int64)
        self.low, self.high = 1, num_states  # the numbers that are free
        self.latest = np.zeros(1, np.int64)  # the states of the level above,
        self.ranges: list[tuple[int, int]] = []  # the accepting ones apart from the others
        self.levels = 0

    def add(self, level: _Level) -> None:
        self.levels += 1
        parents = self.latest[level.parents]
        failures = self.cells[self.fail[parents] * self.rows.shape[1] + level.symbols].astype(np.int64)
        accepts = failures >= self.high  # where a shorter pattern ends, which is a suffix
        accepts[level.ending] = True
        self.complete_rows()
        states = self._numbers(accepts)
        self.fail[states] = failures
        self.depth[states] = self.levels
        if len(level.ending):
            ending = states[level.ending]
            self.first[ending], self.count[ending] = level.first, level.count
        self.cells[parents * self.rows.shape[1] + level.symbols] = states
        self.latest = states

    def _numbers(self, accepts: Array) -> Array:
        num_accepting = int(np.count_nonzero(accepts))
        num_others = len(accepts) - num_accepting
        low, high = self.low + num_others, self.high - num_accepting
        states = np.arange(self.low, self.low + len(accepts))
        if num_accepting:
            states[~accepts] = np.arange(self.low, low)
            states[accepts] = np.arange(high, self.high)
        self.ranges = [(self.low, low), (high, self.high)]
        self.low, self.high = low, high
        return states

    def complete_rows(self) -> None:
        """Copy to the states of the latest level the rows of their failure links, before their own edges are put over."""
        for first, end in self.ranges:
            sources = self.fail[first:end]
            if int(sources.max(initial=0)) < first:  # apart, so no buffer is needed between
                np.take(self.rows[:first], sources, axis=0, out=self.rows[first:end], mode="clip")
            else:
                self.rows[first:end] = self.rows[sources]

    def pattern_numbers(self, order: Array) -> tuple[Array, Array]:
        """Offsets by accepting state, and the patterns that end there: its own and those of its failure links."""
        accepting = np.arange(self.high, len(self.fail))
        states, links, keys, total = accepting, accepting, [], 0
        while len(links):
            counts = self.count[links]
            total += int(counts.sum())
            if total > MAX_SHOWN_MATCHES:
                raise LimitExceeded(
                    f"more than {MAX_SHOWN_MATCHES} pairs of a pattern and one that it ends in; search for fewer "
                    "patterns at a time"
                )
            patterns = order[concatenated_ranges(self.first[links], counts)]
            keys.append(np.repeat(states, counts) << 32 | patterns)
            links = self.fail[links]
            shows = links >= self.high
            states, links = states[shows], links[shows]
        pairs = np.sort(np.concatenate(keys)) if keys else np.zeros(0, np.int64)
        offsets = np.searchsorted(pairs >> 32, np.arange(self.high, len(self.fail) + 1))
        return offsets.astype(np.uint32), (pairs & 0xFFFFFFFF).astype(np.uint32)
