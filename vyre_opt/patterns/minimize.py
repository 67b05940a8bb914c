"""The smallest automaton that shows the same matches: states that no data tell apart become one.

Moore's partition refinement: blocks of states that may be equal are split by the blocks that their moves lead to,
until nothing changes.  After the first round only states that lead into a part just split off are looked at: the
others of a block have led to the same blocks before, and still do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .automaton import Automaton, concatenated_ranges

__all__ = ["minimized"]

Array = np.ndarray[Any, Any]


def minimized(automaton: Automaton) -> Automaton:
    """An equal automaton with as few states and classes as possible, in the order of the first states of blocks."""
    block = _refined(automaton.transitions, _kinds(automaton))
    _, first, block = np.unique(block, return_index=True, return_inverse=True)
    order = np.argsort(first)  # accepting states are behind all others, and so are their blocks
    number = np.empty(len(order), np.uint32)
    number[order] = np.arange(len(order))
    block, first = number[block], first[order]
    table = block[automaton.transitions[first]]
    _, column, merged = np.unique(table, axis=1, return_index=True, return_inverse=True)
    depth = np.zeros(len(first), np.uint32)
    np.maximum.at(depth, block, automaton.depth)
    accepting = first[first >= automaton.first_accepting] - automaton.first_accepting
    accept = automaton.accept_offsets, automaton.accept_patterns, automaton.accept_lags
    end = automaton.end_offsets, automaton.end_patterns, automaton.end_lags
    table = np.ascontiguousarray(table[:, column])
    return Automaton(
        merged.reshape(-1).astype(np.uint8)[automaton.classes],
        table,
        block[automaton.entries],
        depth,
        np.zeros(len(first), np.uint32),
        np.flatnonzero(table != table[0]).astype(np.uint32),
        *_chosen_sets(*accept, accepting),
        *_chosen_sets(*end, first),
        automaton.num_patterns,
    )


def _kinds(automaton: Automaton) -> Array:
    """A number for each state, the same for those that show the same."""
    members = [
        automaton.accept_patterns.astype(np.int64) * 2 + automaton.accept_lags,
        automaton.end_patterns.astype(np.int64) * 2 + automaton.end_lags,
    ]
    accept, end = automaton.accept_offsets.tolist(), automaton.end_offsets.tolist()
    accept = [0] * automaton.first_accepting + accept
    numbers: dict[tuple[bytes, bytes], int] = {}
    kinds = [
        numbers.setdefault(
            (
                members[0][accept[state] : accept[state + 1]].tobytes(),
                members[1][end[state] : end[state + 1]].tobytes(),
            ),
            len(numbers),
        )
        for state in range(automaton.num_states)
    ]
    return np.array(kinds, np.uint32)


def _refined(transitions: Array, block: Array) -> Array:
    """The block of each state in the coarsest partition that refines `block` and that all moves respect."""
    sizes = np.bincount(block).tolist()
    affected = np.arange(len(block))
    while len(affected):
        groups: dict[int, dict[bytes, list[int]]] = {}
        moves = np.ascontiguousarray(block[transitions[affected]])
        width, content = moves.itemsize * moves.shape[1], moves.tobytes()
        keys = [content[at : at + width] for at in range(0, len(content), width)]
        for state, block_of_state, key in zip(affected.tolist(), block[affected].tolist(), keys, strict=True):
            groups.setdefault(block_of_state, {}).setdefault(key, []).append(state)
        is_changed = np.zeros(len(block), bool)
        for block_of_state, group in groups.items():
            parts = sorted(group.values(), key=len)
            if sum(map(len, parts)) == sizes[block_of_state]:
                parts.pop()  # the largest keeps the number, else those that are not affected do
            for part in parts:
                block[part] = len(sizes)
                is_changed[part] = True
                sizes[block_of_state] -= len(part)
                sizes.append(len(part))
        affected = np.flatnonzero(is_changed[transitions].any(axis=1)) if is_changed.any() else affected[:0]
    return block


def _chosen_sets(offsets: Array, patterns: Array, lags: Array, chosen: Array) -> tuple[Array, Array, Array]:
    wide = offsets.astype(np.int64)
    counts = wide[chosen + 1] - wide[chosen]
    at = concatenated_ranges(wide[chosen], counts)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32), patterns[at], lags[at]
