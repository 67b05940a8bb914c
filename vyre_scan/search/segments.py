"""Matches in many pieces of data that are searched together, each as if it were alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays import Array
from .rule_search import Columns, RuleSearch, WholeData
from .scanner import Scanner
from .stream import joined_columns

__all__ = ["matches_in", "matches_in_segments"]


def matches_in_segments(
    scanner: Scanner,
    data: Array,
    count: int,
    segments_of: Callable[[Array, Array], Array],
    content_of: Callable[[int], tuple[int, Array]],
) -> Columns:
    """The starts, ends, i64, and patterns of all matches in `data`, as the scanner decodes it.

    `segments_of`: the number of the segment, of `count`, that has all bytes of each span, or -1.  `content_of`: where a segment
    begins, and its bytes.
    """
    atoms: list[Columns] = []
    literals = scanner._stream(is_whole=True, atoms=atoms).all_in(data)
    starts, ends = literals.starts.view(np.int64), literals.ends.view(np.int64)
    is_inside = segments_of(starts, ends) >= 0
    columns: list[Columns] = [(starts[is_inside], ends[is_inside], literals.patterns[is_inside])]
    expressions = scanner._tables.expressions
    begins, stops, owners = joined_columns(atoms)
    segments = segments_of(begins, stops)
    order = np.argsort(segments, kind="stable")
    begins, owners, segments = begins[order], owners[order], segments[order]
    direct_numbers = [number for number, expression in enumerate(expressions) if expression.is_direct]
    for segment in range(count) if direct_numbers else np.unique(segments[segments >= 0]).tolist():
        atoms_here = slice(*np.searchsorted(segments, (segment, segment + 1)).tolist())
        numbers = np.unique(np.concatenate([owners[atoms_here], np.array(direct_numbers, np.int64)]))
        base, content = content_of(segment)
        search = RuleSearch([expressions[number] for number in numbers.tolist()], None, raises=False)
        search.add(begins[atoms_here] - base, np.searchsorted(numbers, owners[atoms_here]))
        columns += [
            (starts + base, ends + base, patterns)
            for starts, ends, patterns in search.advance(WholeData(content), len(content), True)
        ]
    return joined_columns(columns)


def matches_in(scanner: Scanner, octets: Array, begins: Array, ends: Array) -> Columns:
    """The matches in slices of bytes, which ascend: no match is in two of them."""

    def segments_of(starts: Array, stops: Array) -> Array:
        segments = np.searchsorted(begins, starts, side="right") - 1
        return np.where((segments >= 0) & (stops <= ends[segments]), segments, -1)

    def content_of(segment: int) -> tuple[int, Array]:
        return int(begins[segment]), octets[int(begins[segment]) : int(ends[segment])]

    return matches_in_segments(scanner, octets, len(begins), segments_of, content_of)
