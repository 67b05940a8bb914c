"""Matches that grep shows of those that overlap: the leftmost, of these the longest, and so on from its end."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np

from .matches import Matches

__all__ = ["Disjoint"]

Array = np.ndarray[Any, Any]


class Disjoint:
    """Takes all matches, part by part, and gives those that are chosen."""

    def __init__(self) -> None:
        self._waiting = Matches.none()
        self._end = 0  # of the last one that is chosen

    def choose(self, matches: Matches, settled: int | None) -> Matches:
        """Choose the matches that can be chosen now.  `settled`: all matches that begin before it were given; None: all there are."""
        if len(self._waiting):
            matches = Matches.joined([self._waiting, matches])
        if not len(matches):
            return matches
        columns: list[Array] = [matches.starts, matches.ends, matches.patterns, *matches.encoded_spans()]
        order = np.lexsort((columns[2], -columns[1].astype(np.int64), columns[0]))
        columns = [column[order] for column in columns]
        starts, ends = columns[0], columns[1]
        sure = len(order) if settled is None else int(np.searchsorted(starts, max(0, settled)))
        if sure and starts[0] >= self._end and (starts[1:sure] >= ends[: sure - 1]).all():
            chosen = _matches([column[:sure] for column in columns])
            self._end = int(ends[sure - 1])
        else:
            indices = self._chosen(starts[:sure], ends[:sure])
            chosen = _matches([column[indices] for column in columns])
        is_waiting = ends > self._end
        is_waiting[:sure] = False
        self._waiting = _matches([column[is_waiting] for column in columns])
        return chosen

    def _chosen(self, starts: Array, ends: Array) -> Array:
        """The places of those that are chosen."""
        begins, stops = starts.tolist(), ends.tolist()
        chosen: list[int] = []
        at = bisect_left(begins, self._end)
        while at < len(begins):
            chosen.append(at)
            self._end = stops[at]
            at = bisect_left(begins, self._end, at)
        return np.array(chosen, np.int64)


def _matches(columns: list[Array]) -> Matches:
    starts, ends, patterns, first, last = columns
    return Matches(starts, ends, patterns.astype(np.uint32), (first, last))
