"""The rules of ops in lowered programs: those of the language, but where these have more attributes, operands or types.

See lowered_ops.py for what that is.
"""

from __future__ import annotations

from collections.abc import Callable

from .body_checker import BodyChecker, OpRule, Problem
from .op_rules import OP_RULES
from .ops import SUBGROUP_SIZE
from .program import Op, Program, Value
from .types import DataType

__all__ = ["LOWERED_RULES"]

_U32, _I64 = DataType.U32, DataType.I64


# --- marks of what is in bounds -----------------------------------------------------------


def _with_mark(rule: OpRule, takes_mark: Callable[[Op], bool] = lambda op: True) -> OpRule:
    """A rule of the language, for ops that may be marked `in_bounds`."""

    def check(checker: BodyChecker, op: Op) -> Problem:
        if "in_bounds" in op.attrs and not (op.attrs["in_bounds"] is True and takes_mark(op)):
            return "in_bounds is a mark of accesses, and of casts between integers"
        return rule(checker, op)

    return check


def _is_cast_of_index(op: Op) -> bool:
    return op.name == "cast" and op.operands[0].type.is_int and op.results[0].type.is_int


# --- traps before accesses ----------------------------------------------------------------


def _check_trap(checker: BodyChecker, op: Op) -> Problem:
    access, shape = op.attrs.get("access"), op.attrs.get("shape")
    if access is None and shape is None:
        return "takes operands only with the access that is out of bounds" if op.operands else None
    if access is None or shape is None or not len(shape) == len(op.operands) == len(access.indices):
        return "has the access that is out of bounds, and an index and an extent for each dimension"
    if access.attrs.get("buffer") not in checker.buffers:
        return "is of an access to a buffer of the program"
    for value in op.operands:
        if value.type is not _I64:
            return value, f"the index {value} is {value.type}, not i64"
    params = checker.owner.params if isinstance(checker.owner, Program) else {}
    unknown = [extent for extent in shape if isinstance(extent, str) and extent not in params]
    return f"has the extent @{unknown[0]}, which is no param of the program" if unknown else None


# --- matrices -----------------------------------------------------------------------------


def _check_matrix_load(checker: BodyChecker, op: Op) -> Problem:
    problem = _check_together(checker, op) or checker.access(op, True, False)
    return problem or _check_moved(checker, op, op.results[0].type, op.operands)


def _check_matrix_store(checker: BodyChecker, op: Op) -> Problem:
    problem = _check_together(checker, op) or checker.access(op, False, True)
    if problem is None and len(op.operands) < 3:
        problem = "takes an index, and the elements of a row"
    return problem or _check_moved(checker, op, op.operands[0].type, op.operands[1:])


def _check_together(checker: BodyChecker, op: Op) -> Problem:
    """The lanes of a subgroup do it together."""
    checker.has_sync = True
    if isinstance(checker.owner, Program) and checker.owner.lanes % SUBGROUP_SIZE:
        return f"needs workgroups of whole subgroups of {SUBGROUP_SIZE}"
    if op.attrs.get("in_bounds", True) is not True:
        return "in_bounds is True where it is there"
    return None


def _check_moved(checker: BodyChecker, op: Op, dtype: DataType, place: tuple[Value, ...]) -> Problem:
    """Check the type of a matrix or of a lane's part of it, and its place: an index, and the elements of a row."""
    buffer = checker.buffers.get(op.attrs["buffer"])
    if buffer is None:
        return None  # it has been reported
    if buffer.dimensions > 1:  # not lowered yet
        return checker.element(op, dtype)
    if len(place) > 2 or any(not value.type.is_int for value in place) or len({v.type for v in place}) > 1:
        return "takes an index and the elements of a row, integers of one type"
    shape, covers = op.attrs.get("shape"), op.attrs.get("covers")
    if dtype.is_matrix:
        element = dtype.stored
    elif covers is not None:
        is_right = covers > 0 and len(place) == 1 and buffer.is_workgroup and dtype.element is _U32
        return None if is_right else "loads words of 32 bits by rows of workgroup memory"
    elif shape is None or not _holds(dtype, shape, dtype.element):
        return f"has the shape of the matrix of which a lane has {dtype}"
    else:
        element = dtype.element
    return None if buffer.dtype is element else f"@{buffer.name} holds {buffer.dtype}, not {element}"


def _holds(dtype: DataType, shape: tuple[int, ...], element: DataType) -> bool:
    """Whether a vector has the bits of what a lane has of a matrix."""
    if not dtype.is_vec or len(shape) != 2:
        return False
    return (dtype.bits or 0) * SUBGROUP_SIZE == shape[0] * shape[1] * (element.bits or 0)


def _check_mul_add(checker: BodyChecker, op: Op) -> Problem:
    if not {"shape", "element"} & op.attrs.keys():
        return OP_RULES["matrix_mul_add"](checker, op)
    return _check_together(checker, op) or _check_product(op, op.operands[1].type)


def _check_unpacked(checker: BodyChecker, op: Op) -> Problem:
    """Check the op of a target whose lanes hold a matrix in another order."""
    shape = op.attrs.get("shape")
    if shape is None:
        return OP_RULES[op.name](checker, op)
    held, given = op.operands[0].type, op.results[0].type
    if held is not given or not _holds(held, shape, held.element):
        return f"has the shape of the matrix of which a lane has {held}, and gives {given}"
    return _check_together(checker, op)


def _check_product(op: Op, right: DataType | None) -> Problem:
    """Check the types of a product's operands by its shape.  `right`: that of the right factor, None if it is in memory."""
    shape, element, totals = (
        op.attrs.get("shape", ()),
        op.attrs.get("element"),
        [v.type for v in op.operands[2:]],
    )
    if len(shape) != 3 or element is None:
        return "has the shape and the elements of the product"
    rows, depth, columns = shape
    sums = DataType.I32 if element.is_int else DataType.F32
    left = None if op.attrs.get("left_tile") else op.operands[0].type
    for dtype, extents, part in (
        (left, (rows, depth), element),
        (right, (depth, columns), element),
        *((total, (rows, columns // len(totals)), sums) for total in totals),
    ):
        is_whole = dtype is not None and dtype.is_matrix and dtype.shape == extents and dtype.element is part
        if dtype is not None and not is_whole and not _holds(dtype, extents, part):
            return f"{dtype} is no part of {extents[0]} x {extents[1]} elements of {part}"
    results = [result.type for result in op.results]
    return (
        None
        if results == totals
        else f"gives {', '.join(map(str, totals))}, not {', '.join(map(str, results))}"
    )


def _check_warpgroup_mul_add(checker: BodyChecker, op: Op) -> Problem:
    buffer, place = checker.buffers.get(op.attrs["tile"]), op.operands[1]
    if buffer is None or not buffer.is_workgroup:
        return f"its right factor is in workgroup memory, and @{op.attrs['tile']} is not"
    checker.read.add(buffer.name)
    if place.type is not _U32:
        return place, f"the place {place} is {place.type}, not u32"
    if buffer.dtype is not op.attrs["element"]:
        return f"@{buffer.name} holds {buffer.dtype}, not {op.attrs['element']}"
    left_tile = op.attrs.get("left_tile")
    if left_tile is not None:
        left = checker.buffers.get(left_tile)
        if left is None or not left.is_workgroup or left.dtype is not buffer.dtype:
            return f"its left factor is in workgroup memory of {buffer.dtype}, and @{left_tile} is not"
        checker.read.add(left.name)
    return _check_together(checker, op) or _check_product(op, None)


def _check_warpgroup_wait(checker: BodyChecker, op: Op) -> Problem:
    if [value.type for value in op.operands[: len(op.results)]] != [value.type for value in op.results]:
        return "gives the values that it takes"
    return _check_together(checker, op)


LOWERED_RULES = OP_RULES | {
    "convert": _with_mark(OP_RULES["convert"], _is_cast_of_index),
    "load": _with_mark(OP_RULES["load"]),
    "store": _with_mark(OP_RULES["store"]),
    "atomic": _with_mark(OP_RULES["atomic"]),
    "trap": _check_trap,
    "matrix_load": _check_matrix_load,
    "matrix_store": _check_matrix_store,
    "matrix_mul_add": _check_mul_add,
    "matrix_unpack": _check_unpacked,
    "matrix_pack": _check_unpacked,
    "warpgroup_mul_add": _check_warpgroup_mul_add,
    "warpgroup_wait": _check_warpgroup_wait,
    "proxy_fence": lambda checker, op: None,
}
