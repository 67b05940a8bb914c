"""Tables of transitions as differences: a row is that of its fallback state, but for some cells.

The fallback of a state in an Aho-Corasick automaton is its failure link, and the cells that differ are the edges of the
trie: one for each state, of as many as there are classes.  Other automata fall back to state 0, whose row is
what happens to bytes that continue nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["expanded", "fill_range"]

Array = np.ndarray[Any, Any]


def fill_range(rows: Array, first: int, end: int, sources: Array) -> None:
    """Copy to the rows from `first` up to `end` those of `sources`."""
    if int(sources.max()) < first:  # apart, so no buffer is needed between
        np.take(rows[:first], sources, axis=0, out=rows[first:end], mode="clip")
    else:
        rows[first:end] = rows[sources]


def _fill_rows(rows: Array, states: Array, fallback: Array) -> None:
    """Copy to the rows of `states`, which ascend, those of their fallbacks."""
    first, end = int(states[0]), int(states[-1]) + 1
    if end - first == len(states):
        fill_range(rows, first, end, fallback[first:end])
    else:
        rows[states] = rows[fallback[states]]


def expanded(
    first_row: Array, depth: Array, fallback: Array, num_accepting: int, cells: Array, targets: Array
) -> Array:
    """The table of which `targets` are in `cells`, and what fallbacks have in the others.

    Each fallback is state 0 or one of less depth; state 0, whose row is `first_row`, falls back to itself.
    """
    rows = np.empty((len(depth), len(first_row)), np.uint32)
    rows[0] = first_row
    flat = rows.reshape(-1)
    level = depth.astype(np.int64) if fallback.any() else np.zeros(len(depth), np.int64)
    cell_level = level[cells // len(first_row)]
    # neighbours in the table together: accepting states are apart from the others of their depth
    group = level * 2 + (np.arange(len(depth)) >= len(depth) - num_accepting)
    by_group, by_level = np.argsort(group, kind="stable"), np.argsort(cell_level, kind="stable")
    group, cell_level = group[by_group], cell_level[by_level]
    cells, targets = cells[by_level], targets[by_level]
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    ends = [*begins[1:].tolist(), len(group)]
    for begin, end in zip(begins.tolist(), ends, strict=True):
        states = by_group[begin:end]
        states = states[states > 0]
        if len(states):
            _fill_rows(rows, states, fallback)
        changed = slice(*np.searchsorted(cell_level, [group[begin] >> 1, (group[begin] >> 1) + 1]))
        flat[cells[changed]] = targets[changed]
    return rows
