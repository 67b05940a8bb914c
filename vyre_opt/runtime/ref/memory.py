"""Buffers while a program runs: offsets, bounds, and which scalars are initialised.

A buffer is a flat array of scalars.  Workgroup memory has a section of `scalars` for each row of the
batch, one after the other; other buffers have one section for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir.program import Buffer, Op
from ...ir.types import DataType
from ..dispatcher import BackendError
from .frame import Frame
from .races import Shadow

Array = np.ndarray


@dataclass(slots=True)
class Storage:
    """The storage of a buffer.

    `scalars`: of a section.  `per_row`: whether each row has its own.  `written`: which scalars are
    initialised; None if all are.  `shadow`: None if races are impossible, or not checked.
    """

    buffer: Buffer
    data: Array
    scalars: int
    per_row: bool
    written: Array | None = None
    shadow: Shadow | None = None

    @property
    def count(self) -> int:
        """Elements of a section."""
        return self.scalars // self.buffer.dtype.lanes


def scalar_offsets(
    storage: Storage, frame: Frame, op: Op, index: Array, dtype: DataType
) -> tuple[Array, int | None]:
    """The offsets in `storage.data` of the scalars that a value of `dtype` at element `index` covers.

    Their shape is (lanes,), or (lanes, elements of a vector); lanes is 1 if all lanes access the same.
    The second result is the first lane whose access is out of bounds, if any is.
    """
    per_element = storage.buffer.dtype.lanes
    if dtype.lanes % per_element:
        raise BackendError(
            f"{op.name} of {dtype} does not fit @{storage.buffer.name} of {storage.buffer.dtype}"
        )
    covered = dtype.lanes // per_element  # elements of the buffer
    start = index.astype(np.int64)  # a u64 of 2^63 or more becomes negative, which is out of bounds as well
    outside = (start < 0) | (start > storage.count - covered)
    if outside.any():
        return start, int(np.argmax(outside))
    if per_element > 1:
        start = start * per_element
    if storage.per_row and frame.batch.rows > 1:
        start = start + frame.rows * storage.scalars
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
