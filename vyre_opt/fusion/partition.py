"""The best way to cut a line of stages into groups: fewest groups, then fewest bytes moved.

What a group may hold is given by `earliest[j]`, the first stage that a group which ends with
stage j may begin with.  Any later start is allowed too: a part of a group is a group.

What a cut costs is given by spans.  A span is something that stage `first` leaves for stage
`last`; it costs its `moved` bytes if the two are in different groups.  So the cost of a plan is
the weight of the spans that have at least one cut in them:

    stages    0   1   2   3   4
    spans     |---|       |---|       each pays if a cut is between its ends
              |-----------|
    cuts            ^       ^
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Span", "group_starts", "group_totals"]


class Span(NamedTuple):
    """From stage `first` to stage `last` > `first`.

    `moved`: bytes through memory that a group with both ends saves; `elided`: bytes of the
    intermediate result that does not exist in memory then.
    """

    first: int
    last: int
    moved: int
    elided: int


def group_starts(earliest: Sequence[int], spans: Sequence[Span]) -> list[int]:
    """The first stage of each group; of equal plans the one whose leading groups are longest.

    `earliest` never decreases, and earliest[j] <= j.  O((n + spans) log n): see `_Plans`.
    """
    stages = len(earliest)
    if not stages:
        return []
    adjacent = [0] * (stages + 1)
    opening: dict[int, int] = {}
    closing: dict[int, list[tuple[int, int]]] = {}
    for first, last, moved, _ in spans:
        if last == first + 1:
            adjacent[last] += moved
        else:
            opening[first] = opening.get(first, 0) + moved
            closing.setdefault(last, []).append((first, moved))
    plans = _Plans(stages)
    for cut in range(1, stages + 1):
        plans.open(cut - 1, opening.get(cut - 1, 0))
        for first, moved in closing.get(cut - 1, ()):
            plans.close(first, moved)
        plans.extend(cut, earliest[cut - 1], adjacent[cut])
    return plans.starts()


def group_totals(starts: Sequence[int], spans: Sequence[Span], stages: int) -> list[tuple[int, int]]:
    """For each group, the moved and the elided bytes of the spans within it."""
    group = [0] * stages
    for number, start in enumerate(starts):
        group[start] = 1 if number else 0
    for stage in range(1, stages):
        group[stage] += group[stage - 1]
    totals = [(0, 0)] * len(starts)
    for first, last, moved, elided in spans:
        number = group[first]
        if number == group[last]:
            totals[number] = (totals[number][0] + moved, totals[number][1] + elided)
    return totals


class _Plans:
    """The best plans for the stages before each cut, found from left to right.

    Cut c is before stage c.  The fewest groups up to a cut never decrease from left to right, so
    cuts with the same number lie in one stretch, a *level*, and the cut before c in a best plan
    is of the level of earliest[c - 1], anywhere from there to the level's end.  Along those
    candidates p,

        cost(c) = min over p of (cost(p) + spans that contain c and do not contain p)

    where such a span begins at or after p.  A span that opens or closes thus changes a prefix
    of the candidates, mostly all of them (`offset`), and a minimum over what the window has
    left of the level is the root of a tree.
    """

    def __init__(self, stages: int) -> None:
        self.cost = [0] * (stages + 1)
        self.before = [0] * (stages + 1)
        self.open_from = [0] * stages  # bytes of open spans, by first stage
        self.level = range(1)
        self.gone = 0  # candidates below this one are out of the window
        self.offset = 0
        self.tree = _PrefixMinimum([0])

    def open(self, first: int, moved: int) -> None:
        """Spans of `moved` bytes in all contain the next cut, and begin at the stage before it."""
        self.open_from[first] += moved
        self.offset += moved

    def close(self, first: int, moved: int) -> None:
        """A span that began at `first` does not contain the next cut."""
        self.open_from[first] -= moved
        if first >= self.level[-1]:
            self.offset -= moved
        elif first >= self.level[0]:
            self.tree.add(first - self.level[0], -moved)

    def extend(self, cut: int, earliest: int, adjacent: int) -> None:
        """The best plan up to `cut`, whose last group begins at `earliest` or later."""
        if earliest > self.level[-1]:
            self._next_level(range(self.level[-1] + 1, cut))
        while self.gone < earliest:
            self.tree.remove(self.gone - self.level[0])
            self.gone += 1
        cost, place = self.tree.best()
        self.cost[cut] = cost + self.offset + adjacent
        self.before[cut] = self.level[0] + place

    def _next_level(self, level: range) -> None:
        self.level, self.offset, self.gone = level, 0, level[0]
        costs, open_bytes = [], 0
        for candidate in reversed(level):
            open_bytes += self.open_from[candidate]
            costs.append(self.cost[candidate] + open_bytes)
        self.tree = _PrefixMinimum(costs[::-1])

    def starts(self) -> list[int]:
        found, cut = [], len(self.cost) - 1
        while cut:
            cut = self.before[cut]
            found.append(cut)
        return found[::-1]


class _PrefixMinimum:
    """Numbers in a row: the minimum of those that are left, its last place, and additions to a prefix.

    A binary tree in a list, node i above 2i and 2i + 1.  A leaf is number * count + (places
    after it), so that of equal numbers the last is least; `added` is what counts for a whole
    subtree and is in the node, but not in those below.
    """

    REMOVED = 1 << 256  # above all sums of u64 that fit in memory

    def __init__(self, numbers: Sequence[int]) -> None:
        count = len(numbers)
        self.count, self.leaves = count, 1 << (count - 1).bit_length()
        row = [number * count + count - 1 - place for place, number in enumerate(numbers)]
        self.node = [0] * self.leaves + row + [self.REMOVED] * (self.leaves - count)
        self.added = [0] * self.leaves
        for i in range(self.leaves - 1, 0, -1):
            self.node[i] = min(self.node[2 * i], self.node[2 * i + 1])

    def best(self) -> tuple[int, int]:
        """The least number and its place."""
        number, after = divmod(self.node[1], self.count)
        return number, self.count - 1 - after

    def remove(self, place: int) -> None:
        leaf = place + self.leaves
        self.node[leaf] = self.REMOVED
        self._mend(leaf)

    def add(self, place: int, amount: int) -> None:
        """Add to the numbers up to and with `place`."""
        amount *= self.count
        i = place + self.leaves
        self.node[i] += amount
        while i > 1:
            if i & 1:
                self.node[i - 1] += amount
                if i - 1 < self.leaves:
                    self.added[i - 1] += amount
            i >>= 1
            self.node[i] = min(self.node[2 * i], self.node[2 * i + 1]) + self.added[i]

    def _mend(self, i: int) -> None:
        """Minima above node i, as far as they change."""
        node, added = self.node, self.added
        while i > 1:
            i >>= 1
            least = min(node[2 * i], node[2 * i + 1]) + added[i]
            if node[i] == least:
                return
            node[i] = least
