"""Lanes and the values they hold.

A batch is some consecutive workgroups of the dispatch, called rows, whose invocations
run in lock step.  A frame is the lanes of a batch that run a block: all of them, or
those that took a branch or stayed in a loop.  Inside a frame every lane is active, so
no op needs a mask.

    batch    rows of workgroups         lane = row * lanes_per_row + linear local id
      frame    all lanes
        frame    the lanes of an `if`   looks outer values up in its parent

A value is an array with one entry for each lane of its frame, or with a single entry if it is
uniform.  A vector has a further axis for its elements, the last one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Dim3, Value
from .lazy_property import lazy_property


class WorkgroupBatch:
    """Workgroups `first` to `first + rows` of a dispatch, in linear order (x fastest)."""

    def __init__(self, first: int, rows: int, workgroup: Dim3, grid: Dim3) -> None:
        self.first = first
        self.rows = rows
        self.workgroup = workgroup
        self.grid = grid
        self.lanes_per_row = workgroup[0] * workgroup[1] * workgroup[2]
        self.subgroups_per_row = -(-self.lanes_per_row // SUBGROUP_SIZE)
        self._ids: dict[str, np.ndarray] = {}

    @property
    def lanes(self) -> int:
        return self.rows * self.lanes_per_row

    def per_lane(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """A cached array over all lanes; `make` computes it at the first call with that name."""
        array = self._ids.get(name)
        if array is None:
            array = self._ids[name] = make()
        return array

    @lazy_property
    def row_of_lane(self) -> np.ndarray:
        """The row of each lane; 0 is this batch's first workgroup."""
        return np.repeat(np.arange(self.rows, dtype=np.int64), self.lanes_per_row)

    @lazy_property
    def local_of_lane(self) -> np.ndarray:
        """Linear local id of each lane."""
        return np.tile(np.arange(self.lanes_per_row, dtype=np.int64), self.rows)

    @lazy_property
    def invocation_of_lane(self) -> np.ndarray:
        """Linear id of each lane in the whole dispatch."""
        start = self.first * self.lanes_per_row
        return np.arange(start, start + self.lanes, dtype=np.int64)

    @lazy_property
    def subgroup_of_lane(self) -> np.ndarray:
        """The subgroup of each lane, numbered over the whole batch."""
        subgroups: np.ndarray = (
            self.row_of_lane * self.subgroups_per_row + self.local_of_lane // SUBGROUP_SIZE
        )
        return subgroups


class Frame:
    """The `size` lanes that run a block together.

    `ids`: their indices in the batch, ascending; None for all lanes.  `picked`: their indices in
    the parent frame.
    """

    def __init__(
        self, batch: WorkgroupBatch, parent: Frame | None = None, picked: np.ndarray | None = None
    ) -> None:
        self.batch = batch
        self.parent = parent
        self.picked = picked
        self.values: dict[Value, np.ndarray] = {}
        self.ids: np.ndarray | None = None
        self.size = batch.lanes
        if parent is not None and picked is not None:
            self.ids = picked if parent.ids is None else parent.ids[picked]
            self.size = len(picked)

    def get(self, value: Value) -> np.ndarray:
        """The array of a value of this block or an outer one, for the lanes of this frame."""
        array = self.values.get(value)
        if array is not None:
            return array
        assert self.parent is not None, f"{value!r} is used before it is computed"
        array = self.parent.get(value)
        # kept below: the outer frame does not run while this one does, so the value cannot change
        if len(array) != 1:
            array = array[self.picked]
        self.values[value] = array
        return array

    def narrow(self, stays: np.ndarray) -> Frame:
        """A frame of the lanes where `stays`, a bool for each lane, holds."""
        return Frame(self.batch, self, np.flatnonzero(stays))

    def spread(self, array: np.ndarray) -> np.ndarray:
        """A value with an entry for every lane, even if it is uniform."""
        if len(array) == self.size:
            return array
        return np.broadcast_to(array, (self.size, *array.shape[1:]))

    def of_lanes(self, per_lane: np.ndarray) -> np.ndarray:
        """The entries for this frame's lanes of an array that has one for each lane of the batch."""
        return per_lane if self.ids is None else per_lane[self.ids]

    @lazy_property
    def rows(self) -> np.ndarray:
        return self.of_lanes(self.batch.row_of_lane)

    @lazy_property
    def locals(self) -> np.ndarray:
        return self.of_lanes(self.batch.local_of_lane)

    @lazy_property
    def invocations(self) -> np.ndarray:
        return self.of_lanes(self.batch.invocation_of_lane)

    @lazy_property
    def subgroups(self) -> np.ndarray:
        return self.of_lanes(self.batch.subgroup_of_lane)

    @lazy_property
    def whole_rows(self) -> bool:
        """Whether each workgroup is in the frame with all of its invocations, or with none."""
        if self.ids is None:
            return True
        present = np.bincount(self.rows, minlength=self.batch.rows)
        return bool(np.all((present == 0) | (present == self.batch.lanes_per_row)))

    @lazy_property
    def whole_subgroups(self) -> bool:
        """Whether each subgroup is in the frame with all of its invocations, or with none."""
        if self.ids is None:
            return True
        count = self.batch.rows * self.batch.subgroups_per_row
        present = np.bincount(self.subgroups, minlength=count)
        full = np.bincount(self.batch.subgroup_of_lane, minlength=count)
        return bool(np.all((present == 0) | (present == full)))
