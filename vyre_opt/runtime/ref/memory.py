"""Buffers while a program runs: addresses, bounds, and what has been written.

A buffer is a flat array of scalars.  Workgroup memory has one stretch of `scalars` for
each row of the batch, one after the other; other buffers have one stretch for all.
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
    """`written` marks the scalars that hold a value, None where all do.

    `shadow` is None where no race is possible or none is looked for.
    """

    buffer: Buffer
    data: Array
    scalars: int
    per_row: bool
    written: Array | None = None
    shadow: Shadow | None = None

    @property
    def count(self) -> int:
        """Elements, of one workgroup's stretch where it has its own."""
        return self.scalars // self.buffer.dtype.lanes


@dataclass(slots=True)
class OutOfBounds:
    """`lane`: place in the frame of the first access that is out of bounds."""

    lane: int
    index: int


def places(
    storage: Storage, frame: Frame, op: Op, index: Array, dtype: DataType
) -> tuple[Array, OutOfBounds | None]:
    """The scalars that a value of `dtype` at element `index` covers.

    Of shape (lanes,), or (lanes, vector lanes); one lane where all agree on the place.
    """
    per_element = storage.buffer.dtype.lanes
    if dtype.lanes % per_element:
        raise BackendError(
            f"{op.name} of {dtype} does not fit @{storage.buffer.name} of {storage.buffer.dtype}"
        )
    covered = dtype.lanes // per_element
    start = index.astype(np.int64)  # an index over 2^63 becomes negative: out of bounds all the same
    outside = (start < 0) | (start > storage.count - covered)
    if outside.any():
        lane = int(np.argmax(outside))
        return start, OutOfBounds(lane, int(index[lane]))
    if per_element > 1:
        start = start * per_element
    if storage.per_row and frame.batch.rows > 1:
        start = start + frame.rows * storage.scalars
    if dtype.lanes > 1:
        start = start[:, None] + np.arange(dtype.lanes)
    return start, None


def unwritten(storage: Storage, at: Array) -> int | None:
    """The lane of the first access to a scalar that holds no value yet."""
    if storage.written is None:
        return None
    known = storage.written[at]
    if known.all():
        return None
    if known.ndim == 2:
        known = known.all(axis=1)
    return int(np.argmin(known))
