"""Tiles of workgroup memory: copied by a whole workgroup, and multiplied by each subgroup on the matrix units of a GPU.

    tile = vyre.shared(bf16, (3, 128, 72))
    vyre.copy_tile(tile, (s, 0, 0), a, (row, k), 128, 64)
    vyre.copy_wait()
    vyre.barrier()
    total = vyre.dot(tile, (s, r, 0), other, (s, 0, n), total, 64)

Rows that are 16 bytes longer than a power of two lie in different banks of a GPU's memory, so that eight are read at once.
"""

from __future__ import annotations

import math
from typing import Any

from . import ops
from .functions import func
from .intrinsics import static

__all__ = ["copy_tile", "dot"]


@func
def copy_tile(tile: Any, at: Any, array: Any, start: Any, rows: Any, columns: Any) -> None:
    """Begin to copy rows x columns elements of `array`, from index `start` on, to shared memory from index `at` on.

    All invocations of the workgroup, which is whole subgroups, copy some of them, in pieces of up to 16 bytes.  `rows`,
    `columns`: numbers that are known; the elements are along the last two dimensions.
    """
    piece = static(math.gcd(columns, 16 // tile.dtype.itemsize))
    across = static(columns // piece)
    first = ops.subgroup_id() * 32 + ops.lane_id()
    for number in range(first, rows * across, ops.num_subgroups() * 32):
        row, column = number // across, number % across * piece
        place = [
            at[d] + (column if d == tile.ndim - 1 else row if d == tile.ndim - 2 else 0)
            for d in range(tile.ndim)
        ]
        origin = [
            start[d] + (column if d == array.ndim - 1 else row if d == array.ndim - 2 else 0)
            for d in range(array.ndim)
        ]
        ops.copy_async(tile, place, array, origin, piece)


@func
def dot(a: Any, a_at: Any, b: Any, b_at: Any, total: Any, depth: Any) -> Any:
    """total + the product of a part of `a`, from index `a_at` on, and one of `b`, for each subgroup.

    `total`: a matrix of f32, or of i32 for i8, whose rows are those of `a` and whose columns are those of `b`.  `depth`: a
    number that is known.  `a` is of rows x depth and `b` of depth x columns elements along their last two dimensions, of f16,
    bf16, i8, or of f32, which is rounded to tf32.
    """
    rows, columns = total.shape
    step = static(32 // a.dtype.itemsize)
    for k in static(range(0, depth, step)):
        x = ops.matrix_load(
            a, [a_at[d] + (k if d == a.ndim - 1 else 0) for d in range(a.ndim)], rows, step, "a"
        )
        y = ops.matrix_load(
            b, [b_at[d] + (k if d == b.ndim - 2 else 0) for d in range(b.ndim)], step, columns, "b"
        )
        total = ops.matrix_mul_add(x, y, total)
    return total
