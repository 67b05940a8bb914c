"""The position automaton of a pattern made deterministic: states are sets of positions (the subset construction).

A state is four things:

    positions   where the bytes read so far may stand in the pattern
    context     what the last byte is for its neighbours (see automaton); one value where the pattern has no anchors
    shown       whether a match ended before the last byte, which an anchor had to look at
    pending     whether one did, if the last byte, a newline, is the last of all

A search lets matches begin at each byte: the positions where they begin are in every state.  If it is anchored, and
always backwards, a match begins once, at the entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

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
from .positions import Moves, PositionAutomaton

__all__ = ["determinize"]

Array = np.ndarray[Any, Any]

MAX_MEMBERS = 1 << 23
"""Positions in all sets together; they take some 300 MB."""


class _DfaState(NamedTuple):
    positions: frozenset[int]
    context: int
    shown: bool = False
    pending: bool = False


def determinize(
    positions: PositionAutomaton, max_states: int, *, anchored: bool = False, backwards: bool = False
) -> Automaton:
    """The automaton that shows the same matches as pattern 0, not yet minimised.

    `anchored`: only those that begin with the first byte read.  `backwards`: read from the end of a match to the left;
    `positions` are those of the pattern reversed.  Raises LimitExceeded.
    """
    return _Subsets(positions, max_states, anchored or backwards, backwards).automaton()


class _Subsets:
    def __init__(
        self, positions: PositionAutomaton, max_states: int, anchored: bool, backwards: bool
    ) -> None:
        self.max_states, self.anchored, self.backwards = max_states, anchored, backwards
        self.has_anchors = positions.has_anchors
        self.first = positions.first
        self.entry = len(positions.members)  # a position, too, which comes before all bytes
        self.follow = [list(moves.items()) for moves in (*positions.follow, positions.first)]
        self.ending = _conditions_by_position(positions.last, self.entry + 1)
        self.depth_of = [*positions.depths(), 0]
        self.classes, self.labels, self.label_classes = _partition(positions.members, self.has_anchors)
        self.class_context = np.full(int(self.classes.max()) + 1, OTHER)
        if self.has_anchors:
            self.class_context[self.classes] = CONTEXT_OF
        self.contexts = sorted(set(self.class_context.tolist()))
        self.numbers: dict[_DfaState, int] = {}
        self.states: list[_DfaState] = []
        self.depths: list[int] = []
        self.num_members = 0
        self.cells, self.begins = cache(self._cells), cache(self._begins)

    def automaton(self) -> Automaton:
        self.number(_DfaState(frozenset(), OTHER), 0)
        entries = np.array([[self.entry_state(context) for context in range(NUM_CONTEXTS)]], np.uint32)
        table = np.empty((64, len(self.class_context)), np.uint32)
        for state, key in enumerate(self.states):  # which grows
            if state == len(table):
                table = np.concatenate([table, np.empty_like(table)])
            for classes, target in self.row(key):
                table[state, classes] = target
        return self.assembled(table[: len(self.states)], entries)

    def entry_state(self, context: int) -> int:
        """The state to begin in, by the context beside the first byte."""
        if not self.has_anchors:
            context = OTHER
        elif context == FINAL_NEWLINE and not self.backwards:
            context = NEWLINE  # no byte comes after it
        return self.number(_DfaState(frozenset([self.entry] * self.anchored), context), 0)

    def number(self, key: _DfaState, depth: int) -> int:
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.states)
            self.states.append(key)
            self.depths.append(max((self.depth_of[position] for position in key.positions), default=0))
            self.num_members += len(key.positions)
            states, columns = len(self.states), len(self.class_context)
            if states > min(self.max_states, MAX_CELLS // columns):
                raise LimitExceeded(f"more than {states - 1} states")
            if self.num_members > MAX_MEMBERS:
                raise LimitExceeded(f"{states} states, of more than {MAX_MEMBERS} positions together,")
        self.depths[number] = max(self.depths[number], depth)
        return number

    # --- the moves of a state --------------------------------------------------------------

    def row(self, key: _DfaState) -> Iterator[tuple[Array, int]]:
        """Classes of bytes, and the state that they lead to; each class once."""
        for context in self.contexts:
            by_label: dict[int, list[int]] = {}
            for position in self.following(key, context):
                by_label.setdefault(self.labels[position], []).append(position)
            shown, pending, depth = self.late(key, context) if self.has_anchors else (False, False, 0)
            for classes, labels, begin in self.cells(frozenset(by_label), key.context, context):
                targets = begin.union(*(by_label[label] for label in labels))
                yield classes, self.number(_DfaState(targets, context, shown, pending), depth)

    def matches_at_once(self, key: _DfaState) -> bool:
        """Whether the last byte completes a match, whatever comes next."""
        return any(0 in self.ending[position] for position in key.positions)

    def following(self, key: _DfaState, context: int) -> set[int]:
        following: set[int] = set()
        for position in key.positions:
            for conditions, targets in self.follow[position]:
                if not conditions or self.between(conditions, key.context, context):
                    following |= targets
        return following

    def between(self, conditions: int, read: int, next_: int) -> bool:
        """Whether conditions hold between what was read last and what is read next."""
        return holds(conditions, next_, read) if self.backwards else holds(conditions, read, next_)

    def late(self, key: _DfaState, context: int) -> tuple[bool, bool, int]:
        """Whether a byte of this context shows a match before it, whether it does as the last one, and its depth."""
        if self.matches_at_once(key):
            return False, False, 0
        shown = self.ends_before(key, context)
        # backwards, it is known from the start whether a newline is the last byte
        pending = (
            context == NEWLINE and not self.backwards and not shown and self.ends_before(key, FINAL_NEWLINE)
        )
        if not shown and not pending:
            return False, False, 0
        depth = max(self.depth_of[position] for position in key.positions if self.ending[position])
        return shown, pending, min(depth + 1, Automaton.UNBOUNDED)

    def ends_before(self, key: _DfaState, context: int) -> bool:
        """Whether a match ends before what has this context."""
        return any(
            self.between(conditions, key.context, context)
            for position in key.positions
            for conditions in self.ending[position]
        )

    def _cells(
        self, labels: frozenset[int], read: int, context: int
    ) -> list[tuple[Array, list[int], frozenset[int]]]:
        """All classes of a context, by the ones of `labels` that have them and where matches begin; and these two."""
        groups: dict[tuple[tuple[int, ...], frozenset[int]], list[int]] = {}
        begins = self.begins(read, context)
        for number in np.flatnonzero(self.class_context == context).tolist():
            having = tuple(label for label in sorted(labels) if self.label_classes[label][number])
            groups.setdefault((having, begins[number]), []).append(number)
        return [(np.array(classes), list(having), begin) for (having, begin), classes in groups.items()]

    def _begins(self, read: int, context: int) -> list[frozenset[int]]:
        """By class, the positions at which matches begin with a byte of it."""
        by_class: list[list[int]] = [[] for _ in self.class_context]
        for conditions, positions in self.first.items():
            if not self.anchored and self.between(conditions, read, context):
                for position in positions:
                    for number in np.flatnonzero(self.label_classes[self.labels[position]]).tolist():
                        by_class[number].append(position)
        return [frozenset(positions) for positions in by_class]

    # --- the result ------------------------------------------------------------------------

    def assembled(self, table: Array, entries: Array) -> Automaton:
        """States renumbered, those that show a match last."""
        at_once = np.array([self.matches_at_once(key) for key in self.states])
        accept = np.stack([at_once, [key.shown for key in self.states]], axis=1)
        at_end = [
            not done and self.ends_before(key, DATA_EDGE)
            for done, key in zip(at_once, self.states, strict=True)
        ]
        end = np.stack([at_end, [key.pending for key in self.states]], axis=1)
        order = np.argsort(accept.any(axis=1), kind="stable")
        numbers = np.empty(len(order), np.uint32)
        numbers[order] = np.arange(len(order))
        table = numbers[table[order]]
        return Automaton(
            self.classes,
            table,
            numbers[entries],
            np.array(self.depths, np.uint32)[order],
            np.zeros(len(order), np.uint32),
            np.flatnonzero(table != table[0]).astype(np.uint32),
            *_sets(accept[order][accept[order].any(axis=1)]),
            *_sets(end[order]),
            num_patterns=1,
        )


def _conditions_by_position(last: Moves, count: int) -> list[list[int]]:
    ending: list[list[int]] = [[] for _ in range(count)]
    for conditions, positions in last.items():
        for position in positions:
            ending[position].append(conditions)
    return ending


def _partition(members: list[int], has_anchors: bool) -> tuple[Array, list[int], list[Array]]:
    """The class of each byte; the label of each position; and by label, whether each class is in it.

    A label is a set of bytes that some position takes; classes are the coarsest that no label cuts.
    """
    numbers = {label: number for number, label in enumerate(dict.fromkeys(members))}
    octets = np.frombuffer(b"".join(label.to_bytes(32, "little") for label in numbers), np.uint8)
    bits = np.unpackbits(octets.reshape(-1, 32), axis=1, bitorder="little")
    columns = np.concatenate([bits, CONTEXT_OF[None]]) if has_anchors else bits
    _, first, classes = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    labels = [numbers[label] for label in members]
    return classes.reshape(-1).astype(np.uint8), labels, [row[first] != 0 for row in bits]


def _sets(shows: Array) -> tuple[Array, Array, Array]:
    """The sets of states that show pattern 0 with lag 0, with lag 1 (the two columns), or both."""
    lags = np.nonzero(shows)[1]
    offsets = np.concatenate([[0], np.cumsum(shows.sum(axis=1))])
    return offsets.astype(np.uint32), np.zeros(len(lags), np.uint32), lags.astype(np.uint8)
