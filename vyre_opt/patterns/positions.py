r"""The position automaton of a pattern (Glushkov's): a state for each byte that a pattern names, and no empty moves.

    a(b|c)*\b    positions  0: a   1: b   2: c
                 first      0
                 follow     0 -> 1, 2    1 -> 1, 2    2 -> 1, 2
                 last       0, 1, 2, each where \b holds

Moves, first and last positions are grouped by the conditions under which they are there (see conditions): an anchor
stands between two bytes, so it is a condition of the move from one to the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .automaton import Automaton
from .conditions import BIT_OF, LAST_LINE_END, weakest
from .errors import LimitExceeded
from .regex_syntax import Alternation, Anchor, ByteSet, Concatenation, Node

__all__ = ["Moves", "PositionAutomaton", "positions_of"]

MAX_MOVES = 1 << 21
"""From position to position, of one pattern: (a?){1000} has half a million."""

NEWLINE_BIT = 1 << ord("\n")

Moves = dict[int, set[int]]
"""Conditions -> the positions that can be reached where they hold."""


@dataclass(slots=True)
class PositionAutomaton:
    """A pattern's positions, numbered from 0.  `members`: the bytes of each, as bits."""

    members: list[int]
    first: Moves
    follow: list[Moves]
    last: Moves

    def reversed(self) -> PositionAutomaton:
        """The same read backwards."""
        follow: list[Moves] = [{} for _ in self.members]
        for source, moves in enumerate(self.follow):
            for conditions, targets in moves.items():
                for target in targets:
                    follow[target].setdefault(conditions, set()).add(source)
        return PositionAutomaton(self.members, self.last, follow, self.first)

    @property
    def has_anchors(self) -> bool:
        return any(any(moves) for moves in (self.first, self.last, *self.follow))

    def continues_after_last_line(self) -> bool:
        r"""Whether the pattern has a `$` after which it goes on with \n: that one must be the last byte of all."""
        return any(
            conditions & LAST_LINE_END and any(self.members[target] & NEWLINE_BIT for target in targets)
            for moves in (self.first, *self.follow)
            for conditions, targets in moves.items()
        )

    def depths(self) -> list[int]:
        """For each position the most bytes that are read when it is; UNBOUNDED on and after circles."""
        following = [set[int]().union(*moves.values()) for moves in self.follow]
        arrivals = [0] * len(self.members)
        for targets in following:
            for target in targets:
                arrivals[target] += 1
        depths = [1] * len(self.members)
        ready = [position for position, count in enumerate(arrivals) if not count]
        for position in ready:  # which grows
            for target in following[position]:
                depths[target] = max(depths[target], depths[position] + 1)
                arrivals[target] -= 1
                if not arrivals[target]:
                    ready.append(target)
        return [
            Automaton.UNBOUNDED if count else depth for depth, count in zip(depths, arrivals, strict=True)
        ]


def positions_of(node: Node) -> PositionAutomaton:
    """The positions of a pattern that does not match the empty string.  Raises LimitExceeded."""
    builder = _PositionBuilder()
    part = builder.part(node)
    return PositionAutomaton(builder.members, part.first, builder.follow, part.last)


@dataclass(slots=True)
class _PositionSets:
    """A part of a pattern.  `empty`: under which conditions it matches no bytes.  Belongs to who asked for it."""

    empty: set[int] = field(default_factory=set)
    first: Moves = field(default_factory=dict)
    last: Moves = field(default_factory=dict)


class _PositionBuilder:
    def __init__(self) -> None:
        self.members: list[int] = []
        self.follow: list[Moves] = []
        self.num_moves = 0

    def part(self, node: Node) -> _PositionSets:
        match node:
            case ByteSet(members):
                position = len(self.members)
                self.members.append(members)
                self.follow.append({})
                return _PositionSets(set(), {0: {position}}, {0: {position}})
            case Anchor(kind):
                return _PositionSets({BIT_OF[kind]})
            case Concatenation(items):
                return self.concatenated(self.part(item) for item in items)
            case Alternation(options):
                whole = _PositionSets()
                for option in map(self.part, options):
                    whole.empty = weakest(whole.empty | option.empty)
                    _add(whole.first, option.first, {0})
                    _add(whole.last, option.last, {0})
                return whole
        return self.repeated(node.item, node.low, node.high)

    def concatenated(self, parts: Iterable[_PositionSets]) -> _PositionSets:
        whole = _PositionSets({0})
        for part in parts:
            whole = self.pair(whole, part)
        return whole

    def pair(self, left: _PositionSets, right: _PositionSets) -> _PositionSets:
        self.connect(left.last, right.first)
        _add(left.first, right.first, left.empty)
        _add(right.last, left.last, right.empty)
        empty = {one | other for one in left.empty for other in right.empty}
        return _PositionSets(weakest(empty), left.first, right.last)

    def repeated(self, item: Node, low: int, high: int | None) -> _PositionSets:
        """x{2,4} as xx(x(x)?)?, whose moves are as many as its positions."""
        if high == 0 or (low == 0 and item.num_positions == 0):
            return _PositionSets({0})
        if item.num_positions == 0:
            return self.part(item)  # matches no bytes once and as well many times
        if high is None:
            last = self.part(item)
            self.connect(last.last, last.first)
            if low == 0:
                last.empty = {0}
        else:
            last = _PositionSets({0})
            for _ in range(high - low):
                last = self.pair(self.part(item), last)
                last.empty = {0}
        for _ in range(low - (high is None) if low else 0):
            last = self.pair(self.part(item), last)
        return last

    def connect(self, sources: Moves, targets: Moves) -> None:
        """Add the moves from each source to each target."""
        for condition, positions in sources.items():
            for other, following in targets.items():
                self.num_moves += len(positions) * len(following)
                if self.num_moves > MAX_MOVES:
                    raise LimitExceeded(
                        f"more than {MAX_MOVES} pairs of bytes that may follow each other; write repetitions so that "
                        "what is repeated is not empty"
                    )
                for position in positions:
                    self.follow[position].setdefault(condition | other, set()).update(following)


def _add(moves: Moves, others: Moves, conditions: Iterable[int]) -> None:
    """Add other moves to some, under each of `conditions` besides their own."""
    for condition in conditions:
        for other, positions in others.items():
            moves.setdefault(condition | other, set()).update(positions)
