r"""Automata that find strings of classes of bytes, such as [0-9a-f] 32 times: of many, in as many automata as it takes.

A state is the set of places, in all strings, behind which the last bytes may be (Shift-And), as bits of an int; those that
are reached become the states of a table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array
from .automaton import Automaton

__all__ = ["MAX_STATES", "automata_of"]

Classes = tuple[int, ...]

MAX_STATES = 1 << 11
"""Most states of one automaton; their rows, of some twenty classes, stay in the second cache."""


def automata_of(strings: Sequence[Classes]) -> list[tuple[Automaton, list[int]]]:
    """Automata that find all strings together, and the numbers of the strings that each finds.

    A string whose own automaton would be too large is found by its front.
    """
    pending = [list(range(len(strings)))] if len(strings) else []
    fronts = list(strings)
    automata = []
    while pending:
        numbers = pending.pop()
        automaton = _compiled([fronts[number] for number in numbers])
        if automaton is not None:
            automata.append((automaton, numbers))
        elif len(numbers) > 1:
            pending += [numbers[len(numbers) // 2 :], numbers[: len(numbers) // 2]]
        else:
            string = fronts[numbers[0]]
            fronts[numbers[0]] = string[: len(string) // 2]
            pending.append(numbers)
    return automata


def _compiled(strings: Sequence[Classes]) -> Automaton | None:
    """The automaton of all strings; None for one of too many states."""
    lengths = np.array([len(string) for string in strings], np.uint32)
    places = [members for string in strings for members in string]
    bits = np.frombuffer(b"".join(members.to_bytes(32, "little") for members in places), np.uint8)
    table = np.unpackbits(bits.reshape(-1, 32), axis=1, bitorder="little")
    columns, classes = np.unique(table, axis=1, return_inverse=True)
    masks = [
        int.from_bytes(np.packbits(column, bitorder="little").tobytes(), "little") for column in columns.T
    ]
    lasts = np.cumsum(lengths.astype(np.int64)) - 1
    begins = sum(1 << int(last - length + 1) for last, length in zip(lasts, lengths.tolist(), strict=True))
    ends = sum(1 << int(last) for last in lasts)

    numbers, states, rows = {0: 0}, [0], list[list[int]]()
    for state in states:  # which grows
        successors = state << 1 | begins
        row = [successors & mask for mask in masks]
        for target in row:
            if target not in numbers:
                if len(states) == MAX_STATES:
                    return None
                numbers[target] = len(states)
                states.append(target)
        rows.append([numbers[target] for target in row])
    return _automaton(states, rows, classes.reshape(-1), ends, lasts, lengths)


def _automaton(
    states: list[int], rows: list[list[int]], classes: Array, ends: int, lasts: Array, lengths: Array
) -> Automaton:
    accepts = np.array([bool(state & ends) for state in states])
    order = np.argsort(accepts, kind="stable")
    numbers = np.empty(len(states), np.uint32)
    numbers[order] = np.arange(len(states))
    transitions = numbers[np.array(rows)[order]]
    place_of = np.arange(int(lengths.sum())) - np.repeat(lasts + 1 - lengths, lengths)
    octets = -(-len(place_of) // 8)
    bits = np.unpackbits(
        np.frombuffer(b"".join(states[at].to_bytes(octets, "little") for at in order), np.uint8).reshape(
            -1, octets
        ),
        axis=1,
        bitorder="little",
    )[:, : len(place_of)]
    accepting, patterns = np.nonzero(bits[int(np.count_nonzero(~accepts)) :, lasts])
    offsets = np.searchsorted(accepting, np.arange(int(np.count_nonzero(accepts)) + 1))
    return Automaton(
        classes=classes.astype(np.uint8),
        transitions=transitions,
        depth=(bits * (place_of + 1)).max(axis=1).astype(np.uint32),
        accept_offsets=offsets.astype(np.uint32),
        accept_patterns=patterns.astype(np.uint32),
        lengths=lengths,
    )
