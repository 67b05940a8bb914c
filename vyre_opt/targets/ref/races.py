"""Data races: two invocations access an element, one of them writes, and nothing orders them.

Time is logical: each barrier advances it.  An access that a lane made at time t is
ordered before an access by lane x if

    both are one invocation,
    a grid barrier came after t,
    both are of one cluster, and a cluster barrier came after t,
    both are of one workgroup, and a workgroup barrier of it came after t, or
    both are of one subgroup, and a subgroup barrier of it came after t.

For each element there are three sets of earlier accesses that are not ordered before
the latest one: plain reads, plain writes and atomics.  A set is kept as the least and
the greatest id of its invocations, each with its op, and the time of the latest.  That loses
nothing: invocation ids ascend by workgroup, then by subgroup, so if any two members are in different workgroups
(or subgroups), the two ends are; and an access by any invocation then collides with one
of the ends.  Where a new access is ordered after the whole set it replaces the set.

Atomics do not race with each other, and order nothing else.

Of a matrix each element is moved by some lane of the subgroup, and which one is open.  So a collective access counts as
one by the first and the last lane of the subgroup, and is ordered after none of them by being the same invocation.
"""

from __future__ import annotations

import numpy as np

from ...ir.ops import SUBGROUP_SIZE
from ...records import dataclass
from .frame import Frame, WorkgroupBatch

Array = np.ndarray


class LogicalClock:
    """The time now, and the times of the last barriers of the grid, each workgroup and each subgroup of a batch."""

    def __init__(self) -> None:
        # an untouched scalar has the time 0, which is before the last grid barrier even at the start
        self.now = 1
        self.grid = 1
        self.cluster = 1  # all clusters meet at a time
        self.cluster_rows = 1
        self.of_row = np.zeros(0, np.int32)
        self.of_subgroup = np.zeros(0, np.int32)

    def enter(self, batch: WorkgroupBatch, cluster_rows: int = 1) -> None:
        """Begin a batch; `cluster_rows`: of a cluster."""
        self.now += 1
        self.cluster_rows = cluster_rows
        # Other batches have other workgroups: what these did is ordered by grid barriers alone.
        self.of_row = np.zeros(batch.rows, np.int32)
        self.of_subgroup = np.zeros(batch.rows * batch.subgroups_per_row, np.int32)

    def barrier(self, scope: str, frame: Frame) -> None:
        """All invocations of the frame's workgroups (or subgroups) have arrived."""
        self.now += 1
        if scope == "grid":
            self.grid = self.now
        elif scope == "cluster":
            self.cluster = self.now
        elif scope == "workgroup":
            self.of_row[slice(None) if frame.ids is None else frame.rows] = self.now
        else:
            self.of_subgroup[slice(None) if frame.ids is None else frame.subgroups] = self.now


@dataclass(frozen=True, slots=True)
class Collision:
    """The access of `lane` of the frame races with an earlier one, by `invocation` in op number `op`."""

    lane: int
    element: int
    invocation: int
    op: int


class _Accesses:
    """A set of earlier accesses for each scalar of a buffer (see above); arrays over the scalars."""

    def __init__(self, size: int, wide: bool) -> None:
        self.min_id = np.zeros(size, np.int64 if wide else np.int32)
        self.max_id = np.zeros(size, np.int64 if wide else np.int32)
        self.time = np.zeros(size, np.int32)  # 0: never
        self.min_op = np.zeros(size, np.int32)
        self.max_op = np.zeros(size, np.int32)


_CONFLICTS = {"read": ("write", "atomic"), "write": ("read", "write", "atomic"), "atomic": ("read", "write")}
"""Kind of access -> the kinds that it races with."""


class Shadow:
    """The shadow memory of a buffer of `size` scalars: its accesses, in a dispatch of `invocations`."""

    def __init__(self, size: int, clock: LogicalClock, invocations: int) -> None:
        self.size = size
        self.clock = clock
        # int32 halves the memory of nearly all dispatches
        self.wide = invocations >= 1 << 31
        self.sets: dict[str, _Accesses] = {}
        self.winner = np.empty(0, np.int32)

    def written(self) -> Array:
        """Whether each scalar was written."""
        sets = [self.sets[kind].time > 0 for kind in ("write", "atomic") if kind in self.sets]
        return np.logical_or.reduce(sets) if sets else np.zeros(self.size, np.bool_)

    def writer(self, scalar: int) -> int | None:
        """The invocation that wrote a scalar last, or of those that no order tells apart one; None if none has."""
        sets = [self.sets[kind] for kind in ("write", "atomic") if kind in self.sets]
        last = max(sets, key=lambda accesses: int(accesses.time[scalar]), default=None)
        return None if last is None or last.time[scalar] == 0 else int(last.min_id[scalar])

    def rewrite(self, offsets: Array, invocations: Array) -> None:
        """The last writes at these offsets, each by an invocation, which nobody has accessed since, happen now."""
        writes = self.sets["write"]
        writes.min_id[offsets] = writes.max_id[offsets] = invocations
        writes.time[offsets] = self.clock.now

    def access(
        self, frame: Frame, offsets: Array, op: int, kind: str, is_collective: bool = False
    ) -> Collision | None:
        """Lane i accesses offset `offsets[i]` (or all offsets in that row, for a vector), all lanes at once.

        `kind`: read, write or atomic.  `is_collective`: whether any lane of its subgroup may make a lane's access.
        """
        lanes = np.arange(frame.size)
        if offsets.ndim == 2:
            lanes = np.repeat(lanes, offsets.shape[1])
            offsets = offsets.reshape(-1)
        invocations = frame.invocations[lanes] if len(lanes) != frame.size else frame.invocations
        known = np.full_like(invocations, -1) if is_collective else invocations
        for other in _CONFLICTS[kind]:
            earlier = self.sets.get(other)
            if earlier is not None:
                racing = self._unordered(earlier, frame, offsets, lanes, known)
                if racing is not None:
                    return _collision(earlier, frame, offsets, lanes, int(np.argmax(racing)))
        accesses = self.sets.get(kind)
        if accesses is None:
            accesses = self.sets[kind] = _Accesses(self.size, self.wide)
        ends: tuple[Array, ...] = (invocations,)
        if is_collective:
            first = invocations - frame.locals[lanes] % SUBGROUP_SIZE
            ends = (first, first + (SUBGROUP_SIZE - 1))
        if kind == "write":
            collision = self._record_writes(accesses, frame, offsets, lanes, invocations, op)
            if is_collective and collision is None:
                accesses.min_id[offsets], accesses.max_id[offsets] = ends
            return collision
        for end in ends:
            self._record_shared(accesses, frame, offsets, lanes, end, op)
        return None

    def _unordered(
        self, earlier: _Accesses, frame: Frame, offsets: Array, lanes: Array, invocations: Array
    ) -> Array | None:
        """Mask of accesses that are not ordered after all of the set at their offset; None if all are."""
        # most accesses are ordered by a grid barrier or the invocation itself, so those are ruled out first
        time = earlier.time[offsets]
        unordered: Array = time >= self.clock.grid
        if not unordered.any():
            return None
        min_id, max_id = earlier.min_id[offsets], earlier.max_id[offsets]
        unordered &= (min_id != invocations) | (max_id != invocations)
        if not unordered.any():
            return None
        indices = np.flatnonzero(unordered)
        if len(indices) < len(unordered):
            time, min_id, max_id = time[indices], min_id[indices], max_id[indices]
        lane = lanes[indices]
        per_row = frame.batch.lanes_per_row
        row = frame.rows[lane]
        start = (row + frame.batch.first) * per_row  # the row's first invocation
        low, high = min_id - start, max_id - start
        same_row = (low >= 0) & (high < per_row)
        subgroup = frame.locals[lane] // SUBGROUP_SIZE
        same_subgroup = same_row & (low // SUBGROUP_SIZE == subgroup) & (high // SUBGROUP_SIZE == subgroup)
        ordered = same_row & (time < self.clock.of_row[row])
        if self.clock.cluster > self.clock.grid:
            per_cluster = per_row * self.clock.cluster_rows
            cluster = (row + frame.batch.first) // self.clock.cluster_rows
            same_cluster = (min_id // per_cluster == cluster) & (max_id // per_cluster == cluster)
            ordered |= same_cluster & (time < self.clock.cluster)
        ordered |= same_subgroup & (time < self.clock.of_subgroup[frame.subgroups[lane]])
        if ordered.all():
            return None
        unordered[indices] = ~ordered
        return unordered

    def _record_writes(
        self, accesses: _Accesses, frame: Frame, offsets: Array, lanes: Array, invocations: Array, op: int
    ) -> Collision | None:
        # All earlier writes at these offsets are ordered before (`access` has checked it), so they are replaced.
        # Of several lanes at one offset the last assignment wins; the others then find that it is not theirs.
        accesses.min_id[offsets] = invocations
        accesses.time[offsets] = self.clock.now
        accesses.min_op[offsets] = accesses.max_op[offsets] = op
        written = accesses.min_id[offsets]
        clash = written != invocations
        if clash.any():  # two lanes of this very op write the same scalar
            accesses.max_id[offsets] = written
            return _collision(accesses, frame, offsets, lanes, int(np.argmax(clash)))
        accesses.max_id[offsets] = invocations
        return None

    def _record_shared(
        self, accesses: _Accesses, frame: Frame, offsets: Array, lanes: Array, invocations: Array, op: int
    ) -> None:
        """Add accesses; of several to one offset the least and the greatest invocation are enough."""
        if len(self.winner) != self.size:
            self.winner = np.empty(self.size, np.int32)
        number = np.arange(len(offsets), dtype=np.int32)
        self.winner[offsets[::-1]] = number[::-1]  # the last assignment wins: that of the lowest lane
        first = self.winner[offsets] == number
        if first.all():
            self._merge(accesses, frame, offsets, lanes, invocations, op)
            return
        # lanes ascend by invocation: the first and the last of an offset are the two ends of its set
        self._merge(accesses, frame, offsets[first], lanes[first], invocations[first], op)
        self.winner[offsets] = number
        last = (self.winner[offsets] == number) & ~first
        self._merge(accesses, frame, offsets[last], lanes[last], invocations[last], op)

    def _merge(
        self, accesses: _Accesses, frame: Frame, offsets: Array, lanes: Array, invocations: Array, op: int
    ) -> None:
        extends = self._unordered(accesses, frame, offsets, lanes, invocations)
        if extends is None:  # all sets are replaced
            accesses.min_id[offsets] = accesses.max_id[offsets] = invocations
            accesses.min_op[offsets] = accesses.max_op[offsets] = op
        else:
            # an end that stays keeps its op: another op's access by this lane says nothing of that one
            low = ~extends | (invocations <= accesses.min_id[offsets])
            high = ~extends | (invocations >= accesses.max_id[offsets])
            accesses.min_id[offsets[low]], accesses.min_op[offsets[low]] = invocations[low], op
            accesses.max_id[offsets[high]], accesses.max_op[offsets[high]] = invocations[high], op
        accesses.time[offsets] = self.clock.now


def _collision(earlier: _Accesses, frame: Frame, offsets: Array, lanes: Array, index: int) -> Collision:
    """The pair to report: of the set's two ends, the one further from the lane."""
    lane, element = int(lanes[index]), int(offsets[index])
    invocation, per_row = int(frame.invocations[lane]), frame.batch.lanes_per_row

    def distance(other: int) -> tuple[bool, bool, bool]:
        row, local = divmod(other, per_row)
        own_row, own_local = divmod(invocation, per_row)
        subgroup = local // SUBGROUP_SIZE != own_local // SUBGROUP_SIZE
        return row != own_row, subgroup, other != invocation

    ends = (
        (int(earlier.min_id[element]), int(earlier.min_op[element])),
        (int(earlier.max_id[element]), int(earlier.max_op[element])),
    )
    other, op = max(ends, key=lambda end: distance(end[0]))
    return Collision(lane, element, other, op)
