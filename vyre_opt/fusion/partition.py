"""The optimal partition of a line of stages into groups: fewest groups, then fewest bytes moved.

`earliest[j]` says which groups are allowed: a group that ends with stage j may begin with stage earliest[j]
or any later one.

Spans say what a cut costs.  A span is data that stage `first` leaves for stage `last`; it costs its
`traffic` bytes if the two are in different groups.  The cost of a plan is the sum over the spans with at
least one cut in them:

    stages    0   1   2   3   4
    spans     |---|       |---|       each pays if a cut is between its ends
              |-----------|
    cuts            ^       ^
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["SharedSpan", "group_starts", "group_totals"]


class SharedSpan(NamedTuple):
    """Data that stages `first` to `last` > `first` share.

    `traffic`: bytes of memory traffic that a group with both ends saves.  `intermediate`: bytes of the
    intermediate result that then does not exist in memory.
    """

    first: int
    last: int
    traffic: int
    intermediate: int


def group_starts(earliest: Sequence[int], spans: Sequence[SharedSpan]) -> list[int]:
    """The first stage of each group; of equally good plans, that with the longest leading groups.

    `earliest` never decreases, and earliest[j] <= j.  O((n + spans) log n): see `_Plans`.
    """
    stages = len(earliest)
    if not stages:
        return []
    adjacent = [0] * (stages + 1)
    opening: dict[int, int] = {}
    closing: dict[int, list[tuple[int, int]]] = {}
    for first, last, traffic, _ in spans:
        if last == first + 1:
            adjacent[last] += traffic
        else:
            opening[first] = opening.get(first, 0) + traffic
            closing.setdefault(last, []).append((first, traffic))
    plans = _Plans(stages)
    for cut in range(1, stages + 1):
        plans.open(cut - 1, opening.get(cut - 1, 0))
        for first, traffic in closing.get(cut - 1, ()):
            plans.close(first, traffic)
        plans.extend(cut, earliest[cut - 1], adjacent[cut])
    return plans.starts()


def group_totals(starts: Sequence[int], spans: Sequence[SharedSpan], stages: int) -> list[tuple[int, int]]:
    """The traffic and the intermediate bytes of the spans within each group."""
    group: list[int] = []  # stage -> number of its group
    for number, (start, end) in enumerate(pairwise([*starts, stages])):
        group += [number] * (end - start)
    totals = [(0, 0)] * len(starts)
    for first, last, traffic, intermediate in spans:
        number = group[first]
        if number == group[last]:
            totals[number] = (totals[number][0] + traffic, totals[number][1] + intermediate)
    return totals


class _Plans:
    """Dynamic program: the best plan for the stages before each cut, from left to right.

    Cut c is before stage c.  The fewest groups up to a cut never decrease from left to right, so
    cuts with the same number are consecutive, a *level*, and the cut before c in a best plan is
    in the level of earliest[c - 1], anywhere from there to the level's end.  Along those
    candidates p,

        cost(c) = min over p of (cost(p) + spans that contain c and do not contain p)

    where such a span begins at or after p.  So a span that opens or closes changes a prefix of the
    candidates, mostly all of them (`offset`), and the minimum over the candidates that are left is
    the root of a tree.
    """

    def __init__(self, stages: int) -> None:
        self.cost = [0] * (stages + 1)
        self.predecessor = [0] * (stages + 1)
        self.open_from = [0] * stages  # bytes of open spans, by first stage
        self.level = range(1)
        self.window_start = 0  # candidates below this one are no longer in the window
        self.offset = 0
        self.tree = _PrefixMinimum([0])

    def open(self, first: int, traffic: int) -> None:
        """Spans of `traffic` bytes in all begin at the stage before the next cut."""
        self.open_from[first] += traffic
        self.offset += traffic

    def close(self, first: int, traffic: int) -> None:
        """A span that begins at `first` ends before the next cut."""
        self.open_from[first] -= traffic
        if first >= self.level[-1]:
            self.offset -= traffic
        elif first >= self.level[0]:
            self.tree.add(first - self.level[0], -traffic)

    def extend(self, cut: int, earliest: int, adjacent: int) -> None:
        """The best plan up to `cut`, whose last group begins at `earliest` or later."""
        if earliest > self.level[-1]:
            self._next_level(range(self.level[-1] + 1, cut))
        while self.window_start < earliest:
            self.tree.remove(self.window_start - self.level[0])
            self.window_start += 1
        cost, position = self.tree.best()
        self.cost[cut] = cost + self.offset + adjacent
        self.predecessor[cut] = self.level[0] + position

    def _next_level(self, level: range) -> None:
        self.level, self.offset, self.window_start = level, 0, level[0]
        costs, open_bytes = [], 0
        for candidate in reversed(level):
            open_bytes += self.open_from[candidate]
            costs.append(self.cost[candidate] + open_bytes)
        self.tree = _PrefixMinimum(costs[::-1])

    def starts(self) -> list[int]:
        starts, cut = [], len(self.cost) - 1
        while cut:
            cut = self.predecessor[cut]
            starts.append(cut)
        return starts[::-1]


class _PrefixMinimum:
    """A list of numbers with removal, addition to a prefix, and the last position of the minimum, in O(log n).

    A segment tree in a list: node i is the parent of 2i and 2i + 1.  A leaf is number * count +
    (positions after it), so that of equal numbers the last is least.  `lazy` is an addition to a whole
    subtree; it is included in the subtree's root, but not in the nodes below.
    """

    REMOVED = 1 << 256  # above all sums of u64 that fit in memory

    def __init__(self, numbers: Sequence[int]) -> None:
        count = len(numbers)
        self.count, self.leaves = count, 1 << (count - 1).bit_length()
        leaves = [number * count + count - 1 - position for position, number in enumerate(numbers)]
        self.node = [0] * self.leaves + leaves + [self.REMOVED] * (self.leaves - count)
        self.lazy = [0] * self.leaves
        for i in range(self.leaves - 1, 0, -1):
            self.node[i] = min(self.node[2 * i], self.node[2 * i + 1])

    def best(self) -> tuple[int, int]:
        """The least number and its last position."""
        number, after = divmod(self.node[1], self.count)
        return number, self.count - 1 - after

    def remove(self, position: int) -> None:
        leaf = position + self.leaves
        self.node[leaf] = self.REMOVED
        self._update_above(leaf)

    def add(self, position: int, amount: int) -> None:
        """Add to the numbers at all positions up to `position`, included."""
        amount *= self.count
        i = position + self.leaves
        self.node[i] += amount
        while i > 1:
            if i & 1:
                self.node[i - 1] += amount
                if i - 1 < self.leaves:
                    self.lazy[i - 1] += amount
            i >>= 1
            self.node[i] = min(self.node[2 * i], self.node[2 * i + 1]) + self.lazy[i]

    def _update_above(self, i: int) -> None:
        """Recompute the minima above node i, up to the first that does not change."""
        node, lazy = self.node, self.lazy
        while i > 1:
            i >>= 1
            minimum = min(node[2 * i], node[2 * i + 1]) + lazy[i]
            if node[i] == minimum:
                return
            node[i] = minimum
