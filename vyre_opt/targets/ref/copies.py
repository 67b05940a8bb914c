"""Copies to workgroup memory, from a copy_async to the copy_wait of the same invocation that waits for it.

    copy_async to t[0]     begins in group 0                t[0] is in flight: no other access may touch it
    copy_wait 1            ends group 0; none is waited for
    copy_async to t[1]     begins in group 1
    copy_wait 1            ends group 1, and waits for group 0: t[0] counts as written now

The value is in its place at once; what is recorded is when a program may rely on that.
"""

from __future__ import annotations

import numpy as np

from ...records import dataclass
from .frame import Frame
from .memory import Storage

__all__ = ["CopiesInFlight"]

Array = np.ndarray


@dataclass(slots=True)
class _Copy:
    """Copies of an op: for each its lane in the batch, the group that it is of, and the offsets of its scalars."""

    storage: Storage
    lanes: Array
    groups: Array
    offsets: Array
    op: int


class CopiesInFlight:
    """Copies of a batch of `lanes` lanes.  `ended`: the groups that each lane has ended."""

    def __init__(self, lanes: int) -> None:
        self.ended = np.zeros(lanes, np.int64)
        self.copies: list[_Copy] = []

    def begin(self, storage: Storage, frame: Frame, offsets: Array, op: int) -> None:
        lanes = frame.of_lanes(np.arange(frame.batch.lanes))
        self.copies.append(_Copy(storage, lanes, self.ended[lanes], offsets, op))
        if storage.in_flight is None:
            storage.in_flight = np.zeros(len(storage.data), np.int32)
        storage.in_flight[offsets] = op + 1

    def wait(self, frame: Frame, pending: int) -> None:
        """End a group of each lane of the frame, and finish its copies but for those of the last `pending` groups."""
        waiting = np.zeros(len(self.ended), np.bool_)
        waiting[frame.of_lanes(np.arange(frame.batch.lanes))] = True
        self.ended[waiting] += 1
        left = []
        for copy in self.copies:
            done = waiting[copy.lanes] & (copy.groups < self.ended[copy.lanes] - pending)
            if done.any():
                self._finish(copy, frame, done)
                stays = ~done
                copy = _Copy(
                    copy.storage, copy.lanes[stays], copy.groups[stays], copy.offsets[stays], copy.op
                )
            if len(copy.lanes):
                left.append(copy)
        self.copies = left

    def _finish(self, copy: _Copy, frame: Frame, done: Array) -> None:
        storage, offsets = copy.storage, copy.offsets[done]
        assert storage.in_flight is not None
        storage.in_flight[offsets] = 0
        if storage.shadow is not None:
            invocations = frame.batch.invocation_of_lane[copy.lanes[done]]
            storage.shadow.rewrite(
                offsets, np.broadcast_to(invocations.reshape(-1, *[1] * (offsets.ndim - 1)), offsets.shape)
            )
