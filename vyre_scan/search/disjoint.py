"""Matches without overlap, as grep shows them: the leftmost, of these the longest, and so on from its end."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from ..arrays import Array
from .matches import Matches

__all__ = ["Disjoint"]


class Disjoint:
    """Choice among all matches, which come part by part."""

    def __init__(self) -> None:
        self._waiting = Matches.none()
        self._end = 0  # of the last one that is chosen

    def choose(self, matches: Matches, settled: int | None) -> Matches:
        """Choose the matches that can be chosen now.  `settled`: all matches that begin before it were given; None: all there are."""
        if len(self._waiting):
            matches = Matches.joined([self._waiting, matches])
        order = np.lexsort((matches.patterns, -matches.ends.astype(np.int64), matches.starts))
        matches = matches[order]
        starts, ends = matches.starts, matches.ends
        count = len(order) if settled is None else int(np.searchsorted(starts, max(0, settled)))
        if count and starts[0] >= self._end and (starts[1:count] >= ends[: count - 1]).all():
            choice = matches[:count]
            self._end = int(ends[count - 1])
        else:
            choice = matches[self._chosen(starts[:count], ends[:count])]
        is_waiting = ends > self._end
        is_waiting[:count] = False
        self._waiting = matches[is_waiting]
        return choice

    def _chosen(self, starts: Array, ends: Array) -> Array:
        """The indices of the chosen matches."""
        begins, stops = starts.tolist(), ends.tolist()
        choice: list[int] = []
        at = bisect_left(begins, self._end)
        while at < len(begins):
            choice.append(at)
            self._end = stops[at]
            at = bisect_left(begins, self._end, at)
        return np.array(choice, np.int64)
