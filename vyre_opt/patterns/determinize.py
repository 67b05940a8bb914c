"""A position automaton made deterministic: states are sets of positions (the subset construction).

A state is four things:

    positions   where the bytes read so far may stand in the patterns
    context     what the last byte is for its neighbours (see automaton); one value where no pattern has anchors
    shown       patterns with a match that ended before the last byte, which an anchor had to look at
    pending     patterns with such a match, if the last byte, a newline, is the last of all

A search lets matches begin at each byte: the positions where they begin are in every state.  A backward automaton
begins once, in one of its entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from .automaton import (
    CONTEXT_OF,
    DATA_EDGE,
    FINAL_NEWLINE,
    MAX_CELLS,
    NEWLINE,
    NUM_CONTEXTS,
    OTHER,
    Automaton,
)
from .conditions import holds
from .errors import LimitExceeded
from .positions import PositionAutomaton

__all__ = ["TooManyStates", "determinize"]

Array = np.ndarray[Any, Any]

MAX_MEMBERS = 1 << 23
"""Positions in all sets together; they take some 300 MB."""


class TooManyStates(LimitExceeded):
    """`needs`: (pattern, in how many different ways it can be under way), the largest first."""

    def __init__(self, message: str, needs: list[tuple[int, int]]) -> None:
        super().__init__(message)
        self.needs = needs


@dataclass(frozen=True, slots=True)
class _State:
    positions: frozenset[int]
    context: int
    shown: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()


def determinize(positions: PositionAutomaton, num_patterns: int, max_states: int) -> Automaton:
    """The automaton of the same matches, not yet minimised.  Raises TooManyStates."""
    return _Subsets(positions, max_states).automaton(num_patterns)


class _Subsets:
    def __init__(self, nfa: PositionAutomaton, max_states: int) -> None:
        self.nfa, self.max_states = nfa, max_states
        self.is_search = not nfa.backwards
        self.has_anchors = nfa.has_anchors
        self.classes, self.labels, self.label_classes = _partition(nfa.members, self.has_anchors)
        self.class_context = [OTHER] * len(self.label_classes[0])
        if self.has_anchors:
            for byte, number in enumerate(self.classes):
                self.class_context[number] = int(CONTEXT_OF[byte])
        # a row of starts is a position, too, that comes before all bytes
        rows = [[(c, sorted(targets)) for c, targets in moves.items()] for moves in nfa.starts]
        self.follow = [*nfa.follow, *rows]
        self.ending = [*nfa.ending, *([] for _ in rows)]
        self.position_depth = [*nfa.depths(), *(0 for _ in rows)]
        self.numbers: dict[_State, int] = {}
        self.states: list[_State] = []
        self.depths: list[int] = []
        self.num_members = 0
        self.cells, self.begins = cache(self._cells), cache(self._begins)

    def automaton(self, num_patterns: int) -> Automaton:
        self.number(_State(frozenset(), OTHER), 0)
        entries = np.array([self.entry(row) for row in range(len(self.nfa.starts))], np.uint32)
        table = np.empty((64, len(self.class_context)), np.uint32)
        for state, key in enumerate(self.states):  # which grows
            if state == len(table):
                table = np.concatenate([table, np.empty_like(table)])
            for classes, target in self.row(key):
                table[state, classes] = target
        return self.assembled(table[: len(self.states)].copy(), entries, num_patterns)

    def entry(self, row: int) -> list[int]:
        """The states to begin in, by the context beside the first byte."""
        if self.is_search:
            return [
                self.number(_State(frozenset(), self.context(context)), 0) for context in range(NUM_CONTEXTS)
            ]
        start = frozenset((len(self.nfa.members) + row,))
        # only here a final newline is not any newline: no byte to the left of it has one to its right
        contexts = range(NUM_CONTEXTS) if self.has_anchors else [OTHER] * NUM_CONTEXTS
        return [self.number(_State(start, context), 0) for context in contexts]

    def context(self, context: int) -> int:
        if not self.has_anchors:
            return OTHER
        return NEWLINE if context == FINAL_NEWLINE else context

    def number(self, key: _State, depth: int) -> int:
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.states)
            self.states.append(key)
            self.depths.append(max((self.position_depth[p] for p in key.positions), default=0))
            self.num_members += len(key.positions)
            self.check_budget()
        if depth > self.depths[number]:
            self.depths[number] = depth
        return number

    def check_budget(self) -> None:
        states, columns = len(self.states), len(self.class_context)
        if states > self.max_states or self.num_members > MAX_MEMBERS or states * columns > MAX_CELLS:
            reason = (
                f"more than {self.max_states} states"
                if states > self.max_states
                else f"{states} states of {self.num_members} positions and {columns} classes of bytes, more than fit"
            )
            raise TooManyStates(reason, self.needs())

    def needs(self) -> list[tuple[int, int]]:
        ways: dict[int, set[frozenset[int]]] = {}
        owner = self.nfa.owner
        for key in self.states:
            parts: dict[int, list[int]] = {}
            for position in key.positions:
                if position < len(owner):
                    parts.setdefault(owner[position], []).append(position)
            for pattern, part in parts.items():
                ways.setdefault(pattern, set()).add(frozenset(part))
        return sorted(((p, len(sets)) for p, sets in ways.items()), key=lambda pair: (-pair[1], pair[0]))

    # --- the moves of a state --------------------------------------------------------------

    def row(self, key: _State) -> Iterator[tuple[Array, int]]:
        """Classes of bytes, and the state that they lead to; each class once."""
        at_once = self.at_once(key)
        for context in sorted(set(self.class_context)):
            by_label: dict[int, list[int]] = {}
            for position in self.following(key, context):
                by_label.setdefault(self.labels[position], []).append(position)
            shown, pending, depth = self.late(key, context, at_once) if self.has_anchors else ((), (), 0)
            for classes, labels, begin in self.cells(frozenset(by_label), key.context, context):
                targets = begin.union(*(by_label[label] for label in labels)) if labels else begin
                yield classes, self.number(_State(targets, context, shown, pending), depth)

    def at_once(self, key: _State) -> set[int]:
        """The patterns with a match that the last byte completes, whatever comes next."""
        return {pattern for p in key.positions for pattern, conditions in self.ending[p] if not conditions}

    def following(self, key: _State, context: int) -> set[int]:
        following: set[int] = set()
        for position in key.positions:
            for conditions, targets in self.follow[position]:
                if not conditions or self.between(conditions, key.context, context):
                    following.update(targets)
        return following

    def between(self, conditions: int, read: int, next_: int) -> bool:
        """Whether conditions hold between what was read last and what is read next."""
        return holds(conditions, next_, read) if self.nfa.backwards else holds(conditions, read, next_)

    def late(
        self, key: _State, context: int, at_once: set[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """The patterns that a byte of this context shows, those that it shows as the last one, and their depth."""
        shown, pending, depth = set(), set(), 0
        may_be_last = context == NEWLINE and self.is_search
        for position in key.positions:
            for pattern, conditions in self.ending[position]:
                if pattern in at_once:
                    continue
                if self.between(conditions, key.context, context):
                    shown.add(pattern)
                elif may_be_last and self.between(conditions, key.context, FINAL_NEWLINE):
                    pending.add(pattern)
                else:
                    continue
                depth = max(depth, min(self.position_depth[position] + 1, Automaton.UNBOUNDED))
        return tuple(sorted(shown)), tuple(sorted(pending - shown)), depth

    def _cells(
        self, labels: frozenset[int], read: int, context: int
    ) -> list[tuple[Array, tuple[int, ...], frozenset[int]]]:
        """Classes of a context that the same labels have and where the same positions begin matches; these two."""
        groups: dict[tuple[tuple[int, ...], frozenset[int]], list[int]] = {}
        for number, own in enumerate(self.class_context):
            if own == context:
                having = tuple(label for label in sorted(labels) if self.label_classes[label][number])
                groups.setdefault((having, self.begins(read, context)[number]), []).append(number)
        return [(np.array(classes), having, begin) for (having, begin), classes in groups.items()]

    def _begins(self, read: int, context: int) -> list[frozenset[int]]:
        """By class, the positions at which matches begin with a byte of it."""
        if not self.is_search:
            return [frozenset()] * len(self.class_context)
        moves = self.nfa.starts[0] if self.nfa.starts else {}
        positions = [p for c, ps in moves.items() if self.between(c, read, context) for p in ps]
        by_class: list[list[int]] = [[] for _ in self.class_context]
        for position in positions:
            for number in np.flatnonzero(self.label_classes[self.labels[position]]):
                by_class[number].append(position)
        return [frozenset(positions) for positions in by_class]

    # --- the result ------------------------------------------------------------------------

    def assembled(self, table: Array, entries: Array, num_patterns: int) -> Automaton:
        """States renumbered, those that show a match last."""
        at_once = [self.at_once(key) for key in self.states]
        accept = [
            sorted([(p, 0) for p in patterns] + [(p, 1) for p in key.shown])
            for key, patterns in zip(self.states, at_once, strict=True)
        ]
        end = [self.at_end(key, patterns) for key, patterns in zip(self.states, at_once, strict=True)]
        order = sorted(range(len(self.states)), key=lambda state: bool(accept[state]))
        numbers = np.empty(len(order), np.uint32)
        numbers[order] = np.arange(len(order))
        table = numbers[table[order]]
        accept_sets = _sets([accept[state] for state in order if accept[state]])
        end_sets = _sets([end[state] for state in order])
        return Automaton(
            self.classes,
            table,
            numbers[entries],
            np.array(self.depths, np.uint32)[order],
            np.zeros(len(order), np.uint32),
            np.flatnonzero(table != table[0]).astype(np.uint32),
            *accept_sets,
            *end_sets,
            num_patterns,
        )

    def at_end(self, key: _State, at_once: set[int]) -> list[tuple[int, int]]:
        """(pattern, lag) of the matches that show where the data ends in a state."""
        ending = {
            (pattern, 0)
            for position in key.positions
            for pattern, conditions in self.ending[position]
            if pattern not in at_once and self.between(conditions, key.context, DATA_EDGE)
        }
        return sorted(ending | {(pattern, 1) for pattern in key.pending})


def _partition(members: list[int], has_anchors: bool) -> tuple[Array, list[int], list[Array]]:
    """The class of each byte; the label of each position; and by label, whether each class is in it.

    A label is a set of bytes that some position takes; classes are the coarsest that no label cuts.
    """
    numbers = {label: number for number, label in enumerate(dict.fromkeys(members))}
    octets = np.frombuffer(b"".join(label.to_bytes(32, "little") for label in numbers), np.uint8)
    bits = np.unpackbits(octets.reshape(-1, 32), axis=1, bitorder="little").astype(bool)
    columns = np.concatenate([bits, CONTEXT_OF[None] * has_anchors]).T if has_anchors else bits.T
    _, first, classes = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return (
        classes.reshape(-1).astype(np.uint8),
        [numbers[label] for label in members],
        [row[first] for row in bits],
    )


def _sets(sets: list[list[tuple[int, int]]]) -> tuple[Array, Array, Array]:
    offsets = np.cumsum([0, *map(len, sets)]).astype(np.uint32)
    pairs = np.array([pair for members in sets for pair in members], np.int64).reshape(-1, 2)
    return offsets, pairs[:, 0].astype(np.uint32), pairs[:, 1].astype(np.uint8)
