"""Tiles of workgroup memory: copied by a whole workgroup, and multiplied by each subgroup on the matrix units of a GPU.

    tile = vyre.shared(bf16, (3, 128, 72))
    vyre.copy_tile(tile, (s, 0, 0), a, (row, k), 128, 64)
    vyre.copy_wait()
    vyre.barrier()
    total = vyre.dot(tile, (s, r, 0), other, (s, 0, n), total, 64)

Rows that are 16 bytes longer than a power of two lie in different banks of a GPU's memory, so that eight are read at once.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ir.types import DataType
from . import ops
from .bindings import BufferView
from .call_arguments import array_of, by_name
from .copies import copied_between
from .emitter import type_of
from .functions import Func
from .intrinsics import static
from .python_source import Unsupported

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["copy_tile", "dot"]

PIECE_BYTES = 16
"""Bytes that an invocation copies at a time, at most."""

DEPTH_BYTES = 32
"""Bytes of a factor's row that the matrix units take at a time."""


Check = Callable[["Expressions", dict[str, ast.expr]], None]


class _TileFunction(Func):
    """A function of kernels whose arguments are checked where it is called, and whose ops are there, too."""

    def __init__(self, function: Callable[..., Any], check: Check) -> None:
        super().__init__(function)
        self.check = check
        self.names = function.__code__.co_varnames[: function.__code__.co_argcount]

    def __vyre_call__(self, t: Any, node: ast.Call) -> Any:
        given = by_name(t, node, *self.names, optional=len(self.function.__defaults__ or ()))
        with t.emitter.aside():  # what the check computes is computed again below
            self.check(t, given)
        outer, t.emitter.pinned = t.emitter.pinned, t.source.location(node)
        try:
            return super().__vyre_call__(t, node)
        finally:
            t.emitter.pinned = outer


def _checked_by(check: Check) -> Callable[[Callable[..., Any]], _TileFunction]:
    return lambda function: _TileFunction(function, check)


def _need_rows(t: Expressions, given: dict[str, ast.expr], name: str, at: str, view: BufferView) -> None:
    """An array has rows and columns, and there is an index for each dimension."""
    if view.buffer.dimensions < 2:
        raise Unsupported(given[name], f"{t.source.text(given[name])} has no rows: it has one dimension")
    t.indices(given[at], view)


def _number(t: Expressions, node: ast.expr, what: str, multiple: int = 1) -> None:
    count = t.static(node, what)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1 or count % multiple:
        kind = "a whole number from 1 on" if multiple == 1 else f"a multiple of {multiple}"
        raise Unsupported(node, f"{what} is {kind}, not {count!r}")


def _check_copy(t: Expressions, given: dict[str, ast.expr]) -> None:
    tile, array = copied_between(t, given)
    _need_rows(t, given, "tile", "at", tile)
    _need_rows(t, given, "array", "start", array)
    _number(t, given["rows"], "the number of rows")
    _number(t, given["columns"], "the number of columns")


def _check_dot(t: Expressions, given: dict[str, ast.expr]) -> None:
    a, b = (array_of(t, given[name], "read") for name in "ab")
    _need_rows(t, given, "a", "a_at", a)
    _need_rows(t, given, "b", "b_at", b)
    element, size = a.buffer.dtype, a.buffer.dtype.size_bytes or 1
    if element not in (DataType.F16, DataType.BF16, DataType.F32, DataType.I8):
        raise Unsupported(
            given["a"], f"{t.source.text(given['a'])} holds {element}, not f16, bf16, f32 or i8"
        )
    if b.buffer.dtype is not element:
        names = [t.source.text(given[each]) for each in "ab"]
        raise Unsupported(given["b"], f"{names[1]} holds {b.buffer.dtype}, and {names[0]} {element}")
    total = t.value(given["total"])
    dtype, wanted = type_of(total), DataType.I32 if element.is_int else DataType.F32
    if (
        not isinstance(dtype, DataType)
        or not dtype.is_matrix
        or dtype.use != "acc"
        or dtype.element is not wanted
    ):
        text = t.source.text(given["total"])
        raise Unsupported(
            given["total"],
            f"{text} is {dtype}, not a matrix of {wanted} that sums are added to",
            f"vyre.matrix(16, 16, {wanted}) is one",
        )
    _number(t, given["depth"], "the depth", DEPTH_BYTES // size)


@_checked_by(_check_copy)
def copy_tile(tile: Any, at: Any, array: Any, start: Any, rows: Any, columns: Any, fill: Any = None) -> None:
    """Begin to copy rows x columns elements of `array`, from index `start` on, to shared memory from index `at` on.

    All invocations of the workgroup copy some of them, in pieces of up to 16 bytes, or one of them long rows for all (see
    docs/guides/gpu.md, "Asynchronous copies").  `rows`, `columns`: numbers that are
    known; the elements are along the last two dimensions.  `fill`: what the tile gets for elements beyond the end of the
    array's rows, or for rows beyond its last one; without it these are a fault.
    """
    piece = static(math.gcd(columns, PIECE_BYTES // tile.dtype.itemsize))
    across = static(columns // piece)
    first = ops.subgroup_id() * 32 + ops.lane_id()
    lanes = ops.workgroup_size(0) * ops.workgroup_size(1) * ops.workgroup_size(2)
    for number in range(first, rows * across, lanes):
        row, column = number // across, number % across * piece
        indices = [
            at[d] + (column if d == tile.ndim - 1 else row if d == tile.ndim - 2 else 0)
            for d in range(tile.ndim)
        ]
        origin = [
            start[d] + (column if d == array.ndim - 1 else row if d == array.ndim - 2 else 0)
            for d in range(array.ndim)
        ]
        if static(fill is None):
            ops.copy_async(tile, indices, array, origin, piece)
        else:
            last = static(array.ndim - 1)
            is_row = origin[last - 1] < array.shape[last - 1]
            # of an index that has wrapped around below 0 both would hold of its end
            if is_row and origin[last] < array.shape[last] and origin[last] + piece <= array.shape[last]:
                ops.copy_async(tile, indices, array, origin, piece)
            else:
                for k in static(range(piece)):
                    value = fill
                    if is_row and origin[last] + k < array.shape[last]:
                        value = array[[origin[d] + (k if d == last else 0) for d in range(array.ndim)]]
                    tile[[indices[d] + (k if d == tile.ndim - 1 else 0) for d in range(tile.ndim)]] = value


@_checked_by(_check_dot)
def dot(a: Any, a_at: Any, b: Any, b_at: Any, total: Any, depth: Any) -> Any:
    """total + the product of a part of `a`, from index `a_at` on, and one of `b`, for each subgroup.

    `total`: a matrix of f32, or of i32 for i8, whose rows are those of `a` and whose columns are those of `b`.  `depth`: a
    number that is known, a multiple of 32 bytes.  `a` is of rows x depth and `b` of depth x columns elements along their last
    two dimensions, of f16, bf16, i8, or of f32, which is rounded to tf32.
    """
    rows, columns = total.shape
    step = static(DEPTH_BYTES // a.dtype.itemsize)
    for k in static(range(0, depth, step)):
        x = ops.matrix_load(
            a, [a_at[d] + (k if d == a.ndim - 1 else 0) for d in range(a.ndim)], rows, step, "a"
        )
        y = ops.matrix_load(
            b, [b_at[d] + (k if d == b.ndim - 2 else 0) for d in range(b.ndim)], step, columns, "b"
        )
        total = ops.matrix_mul_add(x, y, total)
    return total
