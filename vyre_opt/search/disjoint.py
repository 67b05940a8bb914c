"""Of matches that overlap, those that grep shows: the leftmost, of these the longest, and so on from its end."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np

from .matches import Matches

__all__ = ["Disjoint", "Row"]

Array = np.ndarray[Any, Any]

Row = tuple[int, int, int, int, int]
"""A match: start, end and pattern, and its span in the text as it was given."""


class Disjoint:
    """Takes all matches, part by part, and gives those that are chosen.

    `longest`: bytes of the longest match.  `matches_within(row, start)`: those of the decoded bytes of a match from `start`
    on.  It is for patterns whose matches differ in length: of those with one end only that with the leftmost start is
    known, which may overlap a chosen one and hide another.  None where nothing is hidden.
    """

    def __init__(self, longest: int, matches_within: Callable[[Row, int], list[Row]] | None) -> None:
        self._longest, self._matches_within = longest, matches_within
        self._waiting = Matches.none()
        self._end = 0  # of the last one that is chosen

    def choose(self, matches: Matches, known: int | None) -> Matches:
        """Those that can be chosen now.  `known`: all matches that end up to there were given; None: all there are."""
        if len(self._waiting):
            matches = Matches.joined([self._waiting, matches])
        if not len(matches):
            return matches
        columns: list[Array] = [matches.starts, matches.ends, matches.patterns, *matches.encoded_spans()]
        order = np.lexsort((columns[2], -columns[1].astype(np.int64), columns[0]))
        columns = [column[order] for column in columns]
        starts, ends = columns[0], columns[1]
        # one that starts later may not be known in its full length
        sure = (
            len(order) if known is None else int(np.searchsorted(starts, max(0, known - self._longest + 1)))
        )
        if sure and starts[0] >= self._end and (starts[1:sure] >= ends[: sure - 1]).all():
            chosen = _matches([column[:sure] for column in columns])
            self._end = int(ends[sure - 1])
        elif self._matches_within is None:
            indices = self._chosen(starts[:sure], ends[:sure])
            chosen = _matches([column[indices] for column in columns])
        else:
            last_start = None if known is None else known - self._longest
            chosen = self._chosen_with_hidden(columns, last_start, self._matches_within)
        is_waiting = ends > self._end
        if self._matches_within is None:
            is_waiting[:sure] = False
        self._waiting = _matches([column[is_waiting] for column in columns])
        return chosen

    def _chosen(self, starts: Array, ends: Array) -> Array:
        """The places of those that are chosen where none are hidden."""
        begins, stops = starts.tolist(), ends.tolist()
        chosen: list[int] = []
        at = bisect_left(begins, self._end)
        while at < len(begins):
            chosen.append(at)
            self._end = stops[at]
            at = bisect_left(begins, self._end, at)
        return np.array(chosen, np.int64)

    def _chosen_with_hidden(
        self,
        columns: list[Array],
        last_start: int | None,
        matches_within: Callable[[Row, int], list[Row]],
    ) -> Matches:
        rows: list[Row] = list(zip(*(column.tolist() for column in columns), strict=True))
        begins = columns[0].tolist()
        furthest = _furthest(columns[1])
        chosen: list[Row] = []
        at = bisect_left(begins, self._end)
        while True:
            row = rows[at] if at < len(rows) else None
            hiding = rows[furthest[at - 1]] if at else None
            if hiding is not None and hiding[1] > self._end and _may_hide(hiding, row, self._end):
                hidden = [*matches_within(hiding, self._end), *([row] if row else [])]
                row = min(hidden, key=lambda match: (match[0], -match[1], match[2])) if hidden else None
            if row is None or (last_start is not None and row[0] > last_start):
                break
            chosen.append(row)
            self._end = row[1]
            at = bisect_left(begins, self._end, at)
        if not chosen:
            return Matches.none()
        return _matches([np.array(column, np.uint64) for column in zip(*chosen, strict=True)])


def _may_hide(hiding: Row, row: Row | None, start: int) -> bool:
    """Whether a match from `start` on, that ends in `hiding`, may come before `row`."""
    return row is None or row[0] > start or row[1] <= hiding[1]


def _furthest(ends: Array) -> list[int]:
    """For each place that of the largest of all ends up to it."""
    largest = np.maximum.accumulate(ends)
    is_new = np.concatenate([[True], largest[1:] > largest[:-1]])
    indices: list[int] = np.maximum.accumulate(np.where(is_new, np.arange(len(ends)), 0)).tolist()
    return indices


def _matches(columns: list[Array]) -> Matches:
    starts, ends, patterns, first, last = columns
    return Matches(starts, ends, patterns.astype(np.uint32), (first, last))
