"""Number of elements that an access moves along each dimension of its buffer."""

from __future__ import annotations

from .program import Buffer, Op
from .types import DataType

__all__ = ["access_extents", "is_matrix_access", "is_slice_access", "moved_type"]


def is_matrix_access(op: Op) -> bool:
    """Whether the lanes of a subgroup move a matrix together, each some elements for the others."""
    return op.definition.format in ("matrix_load", "matrix_store")


def is_slice_access(op: Op) -> bool:
    """Whether an op moves a row or a block: its extents are the slice's, and may be open."""
    return op.definition.format in ("slice_load", "slice_store")


def moved_type(op: Op) -> DataType:
    """The type of what a load, store or atomic moves."""
    is_store = op.definition.format in ("store", "matrix_store")
    return op.operands[0].type if is_store else op.results[0].type


def access_extents(op: Op, buffer: Buffer) -> list[int]:
    """A vector is of elements that follow each other along the last dimension, a matrix a box in the last two.  In a buffer
    of one dimension a matrix has the same elements in each row, or in each column."""
    if "covers" in op.attrs:  # by a target's own load, see lowering/common/matrix_fragments.py
        return [op.attrs["covers"]]
    dtype, dimensions = moved_type(op), buffer.dimensions
    if not dtype.is_matrix:
        return [*[1] * (dimensions - 1), dtype.lanes // buffer.dtype.lanes]
    rows, columns = dtype.shape if op.attrs["layout"] == "row_major" else dtype.shape[::-1]
    return [*[1] * (dimensions - 2), *(rows, columns)[-dimensions:]]
