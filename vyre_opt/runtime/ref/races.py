# mypy: no-warn-return-any
"""Data races: two invocations touch an element, one writes, and nothing orders them.

Time is a clock that each barrier advances.  An access that a lane made at time t is
ordered before an access by lane x if

    both are one invocation,
    a grid barrier came after t,
    both are of one workgroup, and a workgroup barrier of it came after t, or
    both are of one subgroup, and a subgroup barrier of it came after t.

For each element there are three sets of earlier accesses that are not ordered before
the latest one: plain reads, plain writes and atomics.  A set is kept as its least and
its greatest invocation and the time of the latest.  That loses nothing: invocation ids
ascend by workgroup, then by subgroup, so if any two members are in different workgroups
(or subgroups), the two ends are; and an access by any invocation then collides with one
of the ends.  Where a new access is ordered after the whole set it replaces the set.

Atomics do not race with each other, and order nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.ops import SUBGROUP_SIZE
from .frame import Batch, Frame

Array = np.ndarray


class Clock:
    """The time now, and of the last barrier of the grid and of each workgroup and subgroup of a batch."""

    def __init__(self) -> None:
        self.now = 1
        self.grid = 1
        self.of_row = np.zeros(0, np.int32)
        self.of_subgroup = np.zeros(0, np.int32)

    def enter(self, batch: Batch) -> None:
        self.now += 1
        self.of_row = np.zeros(batch.rows, np.int32)
        self.of_subgroup = np.zeros(batch.rows * batch.subgroups_per_row, np.int32)

    def barrier(self, scope: str, frame: Frame) -> None:
        """All invocations of the frame's workgroups (or subgroups) have arrived."""
        self.now += 1
        if scope == "grid":
            self.grid = self.now
        elif scope == "workgroup":
            self.of_row[slice(None) if frame.ids is None else frame.rows] = self.now
        else:
            self.of_subgroup[slice(None) if frame.ids is None else frame.subgroups] = self.now


@dataclass(frozen=True, slots=True)
class Collision:
    """`lane`: place in the frame of an access that races with one of `invocation` made by op number `op`."""

    lane: int
    element: int
    invocation: int
    op: int


class _Accesses:
    """One set for each element of a buffer."""

    def __init__(self, size: int, many: bool) -> None:
        self.least = np.zeros(size, np.int64 if many else np.int32)
        self.greatest = np.zeros(size, np.int64 if many else np.int32)
        self.time = np.zeros(size, np.int32)  # 0: never
        self.op = np.zeros(size, np.int32)


class Shadow:
    """The access sets of a buffer of `size` scalars in a dispatch of `invocations`."""

    def __init__(self, size: int, clock: Clock, invocations: int) -> None:
        self.size = size
        self.clock = clock
        self.many = invocations >= 1 << 31
        self.sets: dict[str, _Accesses] = {}
        self.winner = np.empty(0, np.int32)

    def read(self, frame: Frame, places: Array, op: int) -> Collision | None:
        """Lane i reads `places[i]` (or its entries, for a vector), all at once."""
        return self._access(frame, places, op, "read", ("write", "atomic"))

    def write(self, frame: Frame, places: Array, op: int) -> Collision | None:
        return self._access(frame, places, op, "write", ("read", "write", "atomic"))

    def atomic(self, frame: Frame, places: Array, op: int) -> Collision | None:
        return self._access(frame, places, op, "atomic", ("read", "write"))

    def written(self) -> Array:
        """For each scalar, whether anybody wrote it."""
        sets = [self.sets[kind].time > 0 for kind in ("write", "atomic") if kind in self.sets]
        return np.logical_or.reduce(sets) if sets else np.zeros(self.size, np.bool_)

    def _access(
        self, frame: Frame, places: Array, op: int, kind: str, against: tuple[str, ...]
    ) -> Collision | None:
        lanes = np.arange(frame.size)
        if places.ndim == 2:
            lanes = np.repeat(lanes, places.shape[1])
            places = places.reshape(-1)
        who = frame.invocations[lanes] if len(lanes) != frame.size else frame.invocations
        for other in against:
            earlier = self.sets.get(other)
            if earlier is not None:
                racing = self._unordered(earlier, frame, places, lanes, who)
                if racing is not None:
                    return _collision(earlier, frame, places, lanes, int(np.argmax(racing)))
        mine = self.sets.get(kind)
        if mine is None:
            mine = self.sets[kind] = _Accesses(self.size, self.many)
        if kind == "write":
            return self._record_writes(mine, frame, places, lanes, who, op)
        self._record_shared(mine, frame, places, lanes, who, op)
        return None

    def _unordered(
        self, earlier: _Accesses, frame: Frame, places: Array, lanes: Array, who: Array
    ) -> Array | None:
        """Where an access collides with one of the set; None for nowhere."""
        time = earlier.time[places]
        fresh = time >= self.clock.grid
        if not fresh.any():
            return None
        least, greatest = earlier.least[places], earlier.greatest[places]
        fresh &= (least != who) | (greatest != who)
        if not fresh.any():
            return None
        at = np.flatnonzero(fresh)
        if len(at) < len(fresh):
            time, least, greatest = time[at], least[at], greatest[at]
        lane = lanes[at]
        per_row = frame.batch.lanes_per_row
        row = frame.rows[lane]
        start = (row + frame.batch.first) * per_row  # the row's first invocation
        low, high = least - start, greatest - start
        same_row = (low >= 0) & (high < per_row)
        subgroup = frame.locals[lane] // SUBGROUP_SIZE
        same_subgroup = same_row & (low // SUBGROUP_SIZE == subgroup) & (high // SUBGROUP_SIZE == subgroup)
        ordered = same_row & (time < self.clock.of_row[row])
        ordered |= same_subgroup & (time < self.clock.of_subgroup[frame.subgroups[lane]])
        if ordered.all():
            return None
        fresh[at] = ~ordered
        return fresh

    def _record_writes(
        self, mine: _Accesses, frame: Frame, places: Array, lanes: Array, who: Array, op: int
    ) -> Collision | None:
        mine.least[places] = who
        mine.time[places] = self.clock.now
        mine.op[places] = op
        written = mine.least[places]
        clash = written != who
        if clash.any():  # two lanes of this very op
            mine.greatest[places] = written
            return _collision(mine, frame, places, lanes, int(np.argmax(clash)))
        mine.greatest[places] = who
        return None

    def _record_shared(
        self, mine: _Accesses, frame: Frame, places: Array, lanes: Array, who: Array, op: int
    ) -> None:
        """Add the accesses; of several to one element the first and the last say all."""
        if len(self.winner) != self.size:
            self.winner = np.empty(self.size, np.int32)
        number = np.arange(len(places), dtype=np.int32)
        self.winner[places[::-1]] = number[::-1]  # the last assignment stays: the lowest lane
        first = self.winner[places] == number
        if first.all():
            self._join(mine, frame, places, lanes, who, op)
            return
        self._join(mine, frame, places[first], lanes[first], who[first], op)
        self.winner[places] = number
        last = (self.winner[places] == number) & ~first
        self._join(mine, frame, places[last], lanes[last], who[last], op)

    def _join(self, mine: _Accesses, frame: Frame, places: Array, lanes: Array, who: Array, op: int) -> None:
        kept = self._unordered(mine, frame, places, lanes, who)
        if kept is None:
            mine.least[places] = mine.greatest[places] = who
        else:
            mine.least[places] = np.where(kept, np.minimum(mine.least[places], who), who)
            mine.greatest[places] = np.where(kept, np.maximum(mine.greatest[places], who), who)
        mine.time[places] = self.clock.now
        mine.op[places] = op


def _collision(earlier: _Accesses, frame: Frame, places: Array, lanes: Array, at: int) -> Collision:
    """The pair to report: of the set's two ends, the one further from the lane."""
    lane, element = int(lanes[at]), int(places[at])
    who, per_row = int(frame.invocations[lane]), frame.batch.lanes_per_row

    def distance(other: int) -> tuple[bool, bool, bool]:
        row, local = divmod(other, per_row)
        mine_row, mine_local = divmod(who, per_row)
        subgroup = local // SUBGROUP_SIZE != mine_local // SUBGROUP_SIZE
        return row != mine_row, subgroup, other != who

    ends = int(earlier.least[element]), int(earlier.greatest[element])
    return Collision(lane, element, max(ends, key=distance), int(earlier.op[element]))
