"""Tiles of workgroup memory: copied by a whole workgroup, and multiplied by each subgroup on the matrix units of a GPU.

    tile = vyre.shared(bf16, (3, 128, 72))
    vyre.copy_tile(tile, (s, 0, 0), a, (row, k), 128, 64)
    vyre.copy_wait()
    vyre.barrier()
    total = vyre.dot(tile, (s, r, 0), other, (s, 0, n), total, 64)

Matrices at the edge of an array go through a tile of their subgroup: `matrix_load(a, (r, k), 32, 16, "a", fill=0)` and
`matrix_store(c, (r, n), total, clip=True)` take the elements that there are.

Rows that are 16 bytes longer than a power of two lie in different banks of a GPU's memory, so that eight are read at once.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ir.ops import OPS, SUBGROUP_SIZE
from ..ir.types import DataType
from . import ops
from .bindings import BufferView, Static
from .call_arguments import array_of, by_name
from .copies import copied_between
from .emitter import type_of
from .functions import Func
from .intrinsics import static
from .matrices import FORMATS
from .python_source import Unsupported
from .remedies import product_text

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["copy_tile", "dot", "matrix_load", "matrix_store"]

PIECE_BYTES = 16
"""Bytes that an invocation copies at a time, at most."""

DEPTH_BYTES = 32
"""Bytes of a factor's row that the matrix units take at a time."""


Check = Callable[["Expressions", dict[str, ast.expr]], object]
Refuse = Callable[["Expressions", ast.Call], None]
"""Raises Unsupported for a call that means another function."""


class _TileFunction(Func):
    """A function of kernels whose arguments are checked where it is called, and whose ops are there, too."""

    def __init__(self, function: Callable[..., Any], check: Check, refuse: Refuse | None = None) -> None:
        super().__init__(function)
        self.check, self.refuse = check, refuse
        self.names = function.__code__.co_varnames[: function.__code__.co_argcount]

    def __vyre_call__(self, t: Any, node: ast.Call) -> Any:
        if self.refuse is not None:
            self.refuse(t, node)
        given = by_name(t, node, *self.names, optional=len(self.function.__defaults__ or ()))
        with t.emitter.aside():  # what the check computes is computed again below
            self.check(t, given)
        return self.inlined(t, node)

    def inlined(self, t: Any, node: ast.Call) -> Any:
        """The function's ops in the place of a call."""
        outer, t.emitter.pinned = t.emitter.pinned, t.source.location(node)
        try:
            return super().__vyre_call__(t, node)
        finally:
            t.emitter.pinned = outer


class _MatrixFunction(_TileFunction):
    """A matrix op; a call that says what there is beyond the edges of its array gets the ops of a function in its place."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, self.check_op)
        self.row, self.edge = OPS[function.__name__], self.names[-2]
        self.names = self.names[:-1]
        self.__signature__ = inspect.signature(function).replace(
            parameters=[*inspect.signature(function).parameters.values()][:-1]
        )

    def __vyre_call__(self, t: Any, node: ast.Call) -> Any:
        given = by_name(t, node, *self.names, optional=len(self.function.__defaults__ or ()) - 1)
        if self.edge not in given:
            return FORMATS[self.row.format](t, node, self.row)
        with t.emitter.aside():
            view = self.check_op(t, given)
        if view.buffer.dimensions == 1 and not isinstance(given["index"], ast.Tuple):
            given["index"] = ast.Tuple([given["index"]], ast.Load())
        keywords = [ast.keyword(name, value) for name, value in given.items()]
        subgroups = -(-t.program.lanes // SUBGROUP_SIZE)
        keywords.append(ast.keyword("subgroups", ast.Constant(subgroups)))
        whole = ast.copy_location(ast.Call(node.func, [], keywords), node)
        return self.inlined(t, ast.fix_missing_locations(whole))

    def check_op(self, t: Expressions, given: dict[str, ast.expr]) -> BufferView:
        """The array, of a call whose other arguments are right.  Raises Unsupported."""
        keywords = [ast.keyword(name, value) for name, value in given.items() if name != self.edge]
        array = given["array"]
        call = ast.copy_location(ast.Call(ast.Name("matrix", ast.Load()), [], keywords), array)
        FORMATS[self.row.format](t, ast.fix_missing_locations(call), self.row)
        self.check_edge(t, given[self.edge])
        return array_of(t, array, "read" if self.row.name == "matrix_load" else "written")

    def check_edge(self, t: Expressions, node: ast.expr) -> None:
        binding, text = t.expression(node), t.source.text(node)
        known = binding.value if isinstance(binding, Static) else None
        if self.edge == "clip" and not isinstance(known, bool):
            raise Unsupported(
                node,
                f"clip says whether edges are left out, and {text} is neither True nor False",
                "write clip=True",
            )
        if self.edge == "fill" and isinstance(binding, Static) and not isinstance(known, (int, float)):
            raise Unsupported(
                node, f"{text} is no number, which elements beyond the edges are", "write fill=0"
            )


def _checked_by(check: Check, refuse: Refuse | None = None) -> Callable[[Callable[..., Any]], _TileFunction]:
    return lambda function: _TileFunction(function, check, refuse)


def _refuse_product(t: Expressions, node: ast.Call) -> None:
    if (product := product_text(t, node.args)) is not None:
        name = t.source.text(node.func)
        raise Unsupported(node, f"{name} multiplies tiles of shared memory", f"write {product}")


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


@_checked_by(_check_dot, _refuse_product)
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


@Func
def _is_whole(array: Any, index: Any, down: Any, across: Any) -> Any:
    """Whether so many elements from an index on are all in an array."""
    last = static(array.ndim - 1)
    # of an index that has wrapped around below 0 its end may be inside
    is_whole = index[last] < array.shape[last] and index[last] + across <= array.shape[last]
    if static(last > 0):
        is_whole = is_whole and index[last - 1] < array.shape[last - 1]
        is_whole = is_whole and index[last - 1] + down <= array.shape[last - 1]
    return is_whole


@_MatrixFunction
def matrix_load(
    array: Any,
    index: Any,
    rows: Any,
    columns: Any,
    use: Any = "acc",
    layout: Any = "row_major",
    fill: Any = None,
    subgroups: Any = 1,
) -> Any:
    """The matrix of rows x columns elements of `array` whose first one is at `index`; all lanes of a subgroup hold it together.

    `rows`, `columns`: numbers that are known.  `use`: "a" and "b" for the factors of `matrix_mul_add`, "acc" for sums.  `layout`:
    "column_major" where the array holds the matrix transposed.  `fill`: what the matrix has for elements beyond the edges of the array;
    without it these are a fault.
    """
    last = static(array.ndim - 1)
    down, across = static((columns, rows) if layout == "column_major" else (rows, columns))
    if _is_whole(array, index, down, across):
        matrix = ops.matrix_load(array, index, rows, columns, use, layout)
    else:
        tile = ops.shared(array.dtype, (subgroups, down, across))
        own = ops.subgroup_id()
        ops.barrier("subgroup")
        for number in range(ops.lane_id(), down * across, 32):
            row, column = number // across, number % across
            at = [
                index[d] + (column if d == last else row if d == last - 1 else 0) for d in range(array.ndim)
            ]
            value = array.dtype(fill)
            if at[last] < array.shape[last] and (static(last == 0) or at[last - 1] < array.shape[last - 1]):
                value = array[at]
            tile[own, row, column] = value
        ops.barrier("subgroup")
        matrix = ops.matrix_load(tile, (own, 0, 0), rows, columns, use, layout)
    return matrix


@_MatrixFunction
def matrix_store(
    array: Any, index: Any, value: Any, layout: Any = "row_major", clip: Any = False, subgroups: Any = 1
) -> None:
    """Write a matrix to `array`, from `index` on.

    `layout`: "column_major" where the array gets the matrix transposed.  `clip`: whether elements beyond the edges of the array are left
    out; without it these are a fault.
    """
    rows, columns = value.shape
    last = static(array.ndim - 1)
    down, across = static((columns, rows) if layout == "column_major" else (rows, columns))
    if static(not clip) or _is_whole(array, index, down, across):
        ops.matrix_store(array, index, value, layout)
    else:
        tile = ops.shared(array.dtype, (subgroups, down, across))
        own = ops.subgroup_id()
        ops.barrier("subgroup")
        ops.matrix_store(tile, (own, 0, 0), value, layout)
        ops.barrier("subgroup")
        for number in range(ops.lane_id(), down * across, 32):
            row, column = number // across, number % across
            at = [
                index[d] + (column if d == last else row if d == last - 1 else 0) for d in range(array.ndim)
            ]
            if at[last] < array.shape[last] and at[last - 1] < array.shape[last - 1]:
                array[at] = tile[own, row, column]
