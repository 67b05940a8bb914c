"""Buffers while a program runs: offsets, bounds, and which scalars are initialised.

A buffer is a flat array of scalars.  Workgroup memory has a section of `scalars` for each row of the
batch, one after the other, cluster memory one for the rows of each cluster; other buffers have one section for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...execution.dispatcher import BackendError
from ...ir.program import Buffer, Op
from ...ir.types import DataType
from ...records import dataclass
from .frame import Frame
from .races import Shadow

Array = np.ndarray


@dataclass(slots=True)
class Storage:
    """The storage of a buffer.

    `shape`: its extents, in elements.  `scalars`: of a section.  `rows`: how many rows share one, None for all.  `written`: which scalars are
    initialised; None if all are.  `shadow`: None if races are impossible, or not checked.  `in_flight`: of each scalar, 1 more
    than the number of the op that copies it, 0 where none does; None before the first copy.
    """

    buffer: Buffer
    data: Array
    shape: tuple[int, ...]
    rows: int | None = None
    written: Array | None = None
    shadow: Shadow | None = None
    in_flight: Array | None = None

    @property
    def count(self) -> int:
        """Elements of a section."""
        return prod(self.shape)

    @property
    def scalars(self) -> int:
        return prod(self.shape) * self.buffer.dtype.lanes


def scalar_offsets(
    storage: Storage, frame: Frame, op: Op, indices: Sequence[Array], dtype: DataType
) -> tuple[Array, int | None]:
    """The offsets in `storage.data` of the scalars that a value of `dtype` at the element of these indices covers.

    Their shape is (lanes,), or (lanes, elements of a vector); lanes is 1 if all lanes access the same.
    The second result is the first lane whose access is out of bounds, if any is.
    """
    per_element = storage.buffer.dtype.lanes
    if dtype.lanes % per_element:
        raise BackendError(
            f"{op.name} of {dtype} does not fit @{storage.buffer.name} of {storage.buffer.dtype}"
        )
    covered = dtype.lanes // per_element  # elements of the buffer
    # a u64 of 2^63 or more becomes negative, which is out of bounds as well
    starts = np.broadcast_arrays(*(index.astype(np.int64) for index in indices))
    outside = (starts[-1] < 0) | (starts[-1] > storage.shape[-1] - covered)
    for outer, extent in zip(starts[:-1], storage.shape, strict=False):
        outside |= (outer < 0) | (outer >= extent)
    if outside.any():
        return starts[0], int(np.argmax(outside))
    start = starts[0]
    for inner, extent in zip(starts[1:], storage.shape[1:], strict=True):
        start = start * extent + inner
    if per_element > 1:
        start = start * per_element
    if storage.rows is not None and frame.batch.rows > 1:
        start = start + frame.rows // storage.rows * storage.scalars
    if dtype.lanes > 1:
        start = start[:, None] + np.arange(dtype.lanes)
    return start, None


def uninitialised_lane(storage: Storage, offsets: Array) -> int | None:
    """The first lane that accesses an uninitialised scalar, if any does."""
    if storage.written is None:
        return None
    initialised = storage.written[offsets]
    if initialised.all():
        return None
    if initialised.ndim == 2:
        initialised = initialised.all(axis=1)
    return int(np.argmin(initialised))
