"""A deterministic automaton over classes of bytes, as plain arrays, and the invariants that walkers rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from .fallback_rows import expanded

__all__ = [
    "MAX_CELLS",
    "Automaton",
    "Corrupt",
    "checked_array",
    "concatenated_ranges",
]

Array = np.ndarray[Any, Any]

MAX_CELLS = 1 << 29
"""No automaton has more states * classes: 2 GiB of u32, so that an index of a cell is a u32, too."""


class Corrupt(ValueError):
    """Arrays that are no automaton; the message says which invariant does not hold."""


@dataclass(frozen=True, eq=False)
class Automaton:
    """The state after a byte is `transitions[state, classes[byte]]`.

    `classes`: u8[256], the class of each byte; bytes that no pattern tells apart share one.
    `transitions`: u32[states, number of classes].  In state 0 nothing is under way.
    `depth`: u32[states]; what is under way in a state began at most so many bytes ago.
    `fallback`: u32[states]; `changed_cells`: u32[c].  The row of a state is that of its fallback, but for the changed
        cells, which are indices state * classes + class.  Each fallback is 0 or of less depth (see fallback_rows).
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
    fallback: Array
    changed_cells: Array
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
        """How many matches each accepting state shows, i64; at least one."""
        return np.diff(self.accept_offsets.astype(np.int64))

    @cached_property
    def shows_one_each(self) -> bool:
        """Whether no accepting state shows several matches."""
        return len(self.accept_patterns) == len(self.num_shown)

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._arrays().values())

    def accepted(self, states: Array) -> tuple[Array, Array]:
        """What accepting `states` show: index into `states`, and pattern, of each match."""
        sets = states.astype(np.int64) - self.first_accepting
        counts = self.num_shown[sets]
        at = concatenated_ranges(self.accept_offsets.astype(np.int64)[sets], counts)
        return np.repeat(np.arange(len(sets)), counts), self.accept_patterns[at]

    # --- as arrays -------------------------------------------------------------------------

    def _arrays(self) -> dict[str, Array]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def to_arrays(self) -> dict[str, Array]:
        """Plain arrays, for np.savez, with the rows as differences: of 10,000 words a tenth of the bytes."""
        arrays = self._arrays()
        transitions = arrays.pop("transitions")
        arrays["first_row"] = transitions[0].copy()
        arrays["changed_targets"] = transitions.reshape(-1)[self.changed_cells]
        arrays["num_patterns"] = np.array([self.num_patterns], np.uint32)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Automaton:
        """The automaton that `to_arrays` gave these arrays of.  Raises Corrupt if they are none."""
        parts = {
            name: checked_array(arrays, name, *form) for name, form in _FORMS.items() if name != "transitions"
        }
        num_patterns = checked_array(arrays, "num_patterns", np.uint32, 1)
        first_row = checked_array(arrays, "first_row", np.uint32, 1)
        targets = checked_array(arrays, "changed_targets", np.uint32, 1)
        _hold(len(num_patterns) == 1, "there is one number of patterns")
        states = len(parts["depth"])
        _validate_rows(states, first_row, parts)
        _hold(len(targets) == len(parts["changed_cells"]), "each changed cell has a target")
        _hold(int(targets.max(initial=0)) < states, "changed cells lead to states")
        transitions = expanded(
            first_row,
            parts["depth"],
            parts["fallback"],
            len(parts["accept_offsets"]) - 1,
            parts["changed_cells"],
            targets,
        )
        automaton = cls(transitions=transitions, num_patterns=int(num_patterns[0]), **parts)
        automaton._validate_all_but_rows()
        return automaton

    def validate(self) -> None:
        """Raise Corrupt unless every index that a walker computes from the arrays is inside of them.

        That all rows are what their differences say is not checked: where they are not, a copy that was stored walks
        otherwise, and as safely.
        """
        arrays = self._arrays()
        for name, (dtype, ndim) in _FORMS.items():
            checked_array(arrays, name, dtype, ndim)
        states = self.transitions.shape[0]
        _hold(
            self.transitions.size > 0 and int(self.transitions.max()) < states, "`transitions` lead to states"
        )
        _validate_rows(states, self.transitions[0], arrays)
        self._validate_all_but_rows()

    def _validate_all_but_rows(self) -> None:
        states, classes = self.transitions.shape
        _hold(len(self.classes) == 256, "each of 256 bytes has a class")
        _hold(int(self.classes.max()) < classes, "each class has a column of `transitions`")
        _hold(
            1 <= len(self.accept_offsets) <= states,
            "accepting states are states, and state 0 is none of them",
        )
        steps = np.diff(self.accept_offsets.astype(np.int64))
        _hold(int(self.accept_offsets[0]) == 0 and bool((steps >= 0).all()), "`accept_offsets` ascend from 0")
        _hold(
            int(self.accept_offsets[-1]) == len(self.accept_patterns),
            "`accept_offsets` end where `accept_patterns` does",
        )
        _hold(bool((steps > 0).all()), "each accepting state shows a match")
        if not len(self.accept_patterns):
            return
        _hold(
            int(self.accept_patterns.max()) < self.num_patterns,
            f"`accept_patterns` are below {self.num_patterns}",
        )
        begins = np.zeros(len(self.accept_patterns) + 1, bool)
        begins[self.accept_offsets] = True
        ascends = np.diff(self.accept_patterns.astype(np.int64)) > 0
        _hold(bool((begins[1:-1] | ascends).all()), "each set of `accept_patterns` ascends")


_FORMS = {
    "classes": (np.uint8, 1),
    "transitions": (np.uint32, 2),
    "depth": (np.uint32, 1),
    "fallback": (np.uint32, 1),
    "changed_cells": (np.uint32, 1),
    "accept_offsets": (np.uint32, 1),
    "accept_patterns": (np.uint32, 1),
}


def _validate_rows(states: int, first_row: Array, parts: Mapping[str, Array]) -> None:
    """That a table of `states` can be made of a first row and differences."""
    size = states * len(first_row)
    depth, fallback, cells = parts["depth"], parts["fallback"], parts["changed_cells"]
    _hold(0 < size <= MAX_CELLS, f"a table has 1 to {MAX_CELLS} cells, not {size}")
    _hold(len(depth) == len(fallback) == states, "each state has a depth and a fallback")
    _hold(int(first_row.max()) < states, "the first row leads to states")
    _hold(int(cells.max(initial=0)) < size, "changed cells are cells of the table")
    _hold(int(fallback.max()) < states, "fallbacks are states")
    _hold(bool(((fallback == 0) | (depth[fallback] < depth)).all()), "fallbacks are 0 or of less depth")


def checked_array(arrays: Mapping[str, Array], name: str, dtype: Any, ndim: int) -> Array:
    """The array of that name.  Raises Corrupt if there is none of that type and number of dimensions."""
    array = arrays.get(name)
    _hold(isinstance(array, np.ndarray), f"there is an array `{name}`")
    assert array is not None
    _hold(array.dtype == dtype and array.ndim == ndim, f"`{name}` is {np.dtype(dtype)} of {ndim} dimensions")
    return np.ascontiguousarray(array)


def _hold(condition: bool, invariant: str) -> None:
    if not condition:
        raise Corrupt(f"these arrays are no automaton, of which holds: {invariant}")


def concatenated_ranges(starts: Array, counts: Array) -> Array:
    """starts[0], ..., starts[0] + counts[0] - 1, starts[1], ...: the indices of several slices, one after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
