"""Automata of different patterns put together.

`union`: one automaton that reads once and shows what both do.  Its states are the pairs of states that the same bytes
lead to, found a level at a time.  The union of minimal automata is minimal: what a state shows of the patterns of
one side is what that side's state shows, so states that differ in a side can be told apart.

`side_by_side`: automata that are each begun in an entry of their own, in one table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .automaton import MAX_CELLS, Automaton, concatenated_ranges
from .errors import LimitExceeded

__all__ = ["renumbered_pattern", "side_by_side", "union"]

Array = np.ndarray[Any, Any]


def renumbered_pattern(automaton: Automaton, number: int, num_patterns: int) -> Automaton:
    """The automaton of one pattern, which is `number` from now on."""
    return replace(
        automaton,
        accept_patterns=np.full(len(automaton.accept_patterns), number, np.uint32),
        end_patterns=np.full(len(automaton.end_patterns), number, np.uint32),
        num_patterns=num_patterns,
    )


def union(left: Automaton, right: Automaton, max_states: int) -> Automaton:
    """The automaton of the patterns of both, which have no number in common.  Raises LimitExceeded."""
    classes, first = _joint_classes([left, right])
    tables = left.transitions[:, left.classes[first]], right.transitions[:, right.classes[first]]
    limit = min(max_states, MAX_CELLS // len(first))
    entries = left.entries[0].astype(np.int64) * right.num_states + right.entries[0]
    pairs = _reachable(tables, np.append(entries, 0), limit)
    lefts, rights = np.divmod(pairs, right.num_states)
    accepts = (lefts >= left.first_accepting) | (rights >= right.first_accepting)
    order = np.argsort(accepts, kind="stable")
    pairs, lefts, rights, accepts = pairs[order], lefts[order], rights[order], accepts[order]
    by_pair = np.argsort(pairs)

    def numbers_of(some: Array) -> Array:
        return by_pair[np.searchsorted(pairs, some, sorter=by_pair)].astype(np.uint32)

    table = np.empty((len(pairs), len(first)), np.uint32)
    for begin in range(0, len(pairs), 4096):  # pairs take twice the bytes of the table
        some = slice(begin, begin + 4096)
        table[some] = numbers_of(
            tables[0][lefts[some]].astype(np.int64) * right.num_states + tables[1][rights[some]]
        )
    sides = ((left, lefts), (right, rights))
    accept = _merged_sets([_accept_sets(side, states[accepts]) for side, states in sides])
    end = _merged_sets(
        [(side.end_offsets, side.end_patterns, side.end_lags, states) for side, states in sides]
    )
    return Automaton(
        classes,
        table,
        numbers_of(entries)[None],
        np.maximum(left.depth[lefts], right.depth[rights]),
        np.zeros(len(pairs), np.uint32),
        np.flatnonzero(table != table[0]).astype(np.uint32),
        *accept,
        *end,
        left.num_patterns,
    )


def _joint_classes(automata: Sequence[Automaton]) -> tuple[Array, Array]:
    """The classes of bytes that no automaton tells apart, and a byte of each."""
    columns = np.stack([automaton.classes for automaton in automata])
    _, first, classes = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    return classes.reshape(-1).astype(np.uint8), first


def _reachable(tables: tuple[Array, Array], entries: Array, limit: int) -> Array:
    """The pairs left * states of the right + right that bytes lead to: (0, 0), the entries, then by their distance."""
    width = len(tables[1])
    known = np.unique(entries)
    levels = [known]
    while len(levels[-1]):
        lefts, rights = np.divmod(levels[-1], width)
        reached = np.unique(tables[0][lefts].astype(np.int64) * width + tables[1][rights])
        at = np.minimum(np.searchsorted(known, reached), len(known) - 1)
        levels.append(reached[known[at] != reached])
        known = np.sort(np.concatenate([known, levels[-1]]), kind="stable")
        if len(known) > limit:
            raise LimitExceeded(f"more than {limit} states")
    return np.concatenate(levels)


def _accept_sets(automaton: Automaton, states: Array) -> tuple[Array, Array, Array, Array]:
    """The sets by accepting state, with an empty one before them for all others; and which one each state has."""
    offsets = np.concatenate([np.zeros(1, np.uint32), automaton.accept_offsets])
    return (
        offsets,
        automaton.accept_patterns,
        automaton.accept_lags,
        np.maximum(states - automaton.first_accepting + 1, 0),
    )


def _merged_sets(sides: Sequence[tuple[Array, Array, Array, Array]]) -> tuple[Array, Array, Array]:
    """For each state the union of its sets of both sides, each sorted by pattern and lag."""
    states, patterns, lags, total = [], [], [], 0
    for offsets, members, member_lags, sets in sides:
        wide = offsets.astype(np.int64)
        counts = wide[sets + 1] - wide[sets]
        at = concatenated_ranges(wide[sets], counts)
        states.append(np.repeat(np.arange(len(sets)), counts))
        patterns.append(members[at])
        lags.append(member_lags[at])
        total = len(sets)
    state, pattern, lag = np.concatenate(states), np.concatenate(patterns), np.concatenate(lags)
    order = np.lexsort((lag, pattern, state))
    offsets = np.searchsorted(state[order], np.arange(total + 1))
    return offsets.astype(np.uint32), pattern[order], lag[order]


def side_by_side(automata: Sequence[Automaton]) -> Automaton:
    """One automaton with a row of entries for each, in their order.  State 0 is that of all.  Raises LimitExceeded."""
    classes, first = _joint_classes(automata)
    counts = [(a.first_accepting, a.num_states - a.first_accepting) for a in automata]
    num_plain = 1 + sum(plain - 1 for plain, _ in counts)
    num_states = num_plain + sum(accepting for _, accepting in counts)
    if num_states * len(first) > MAX_CELLS:
        raise LimitExceeded(
            f"{num_states} states of {len(first)} classes of bytes, which is more than {MAX_CELLS} cells,"
        )
    table = np.zeros((num_states, len(first)), np.uint32)
    depth = np.zeros(num_states, np.uint32)
    entries: list[Array] = []
    accept: list[Array] = []
    end: list[Array] = []
    plain_at, accepting_at = 1, num_plain
    for automaton, (plain, accepting) in zip(automata, counts, strict=True):
        numbers = np.zeros(automaton.num_states, np.uint32)
        numbers[1:plain] = np.arange(plain_at, plain_at + plain - 1)
        numbers[plain:] = np.arange(accepting_at, accepting_at + accepting)
        plain_at, accepting_at = plain_at + plain - 1, accepting_at + accepting
        table[numbers] = numbers[automaton.transitions[:, automaton.classes[first]]]
        depth[numbers] = automaton.depth
        entries.append(numbers[automaton.entries[0]])
        accept.append(np.repeat(numbers[plain:] - num_plain, _sizes(automaton.accept_offsets)))
        end.append(np.repeat(numbers, _sizes(automaton.end_offsets)))
    return Automaton(
        classes,
        table,
        np.stack(entries),
        depth,
        np.zeros(num_states, np.uint32),
        np.flatnonzero(table != table[0]).astype(np.uint32),
        *_gathered(accept, num_states - num_plain, [(a.accept_patterns, a.accept_lags) for a in automata]),
        *_gathered(end, num_states, [(a.end_patterns, a.end_lags) for a in automata]),
        automata[0].num_patterns,
    )


def _sizes(offsets: Array) -> Array:
    wide = offsets.astype(np.int64)
    return np.subtract(wide[1:], wide[:-1])


def _gathered(
    states: Sequence[Array], num_states: int, members: Sequence[tuple[Array, Array]]
) -> tuple[Array, Array, Array]:
    """The sets of states, where `states` has the state of each member."""
    state = np.concatenate(states)
    patterns, lags = (np.concatenate(part) for part in zip(*members, strict=True))
    order = np.argsort(state, kind="stable")
    offsets = np.searchsorted(state[order], np.arange(num_states + 1))
    return offsets.astype(np.uint32), patterns[order], lags[order]
