"""Rules of casts, of vectors and their lanes, and of ids."""

from __future__ import annotations

from ...ir import arith
from ...ir.program import Op, Program
from ...ir.rewrite import become
from ...ir.types import DataType
from ..pattern import Replacement
from ..rewriter import Rewriter
from ..terms import op, pattern
from .rules import add, defined_by, rule

# --- casts


@rule("cast", "bitcast")
def _cast_to_same(op: Op, rewriter: Rewriter) -> Replacement:
    """A cast to the same type is its operand."""
    return op.operands[0] if op.operands[0].type is op.result.type else None


add(
    pattern(
        op.bitcast(op.bitcast("x")), op.bitcast("x"), floats="exact",
        name="_bitcast_twice", doc="bitcast (bitcast x) = bitcast x.",
    )
)  # fmt: skip


@rule("cast")
def _cast_twice(op: Op, rewriter: Rewriter) -> Replacement:
    """cast (cast x: A -> B) : B -> C  =  cast x: A -> C, where B loses nothing that C keeps."""
    inner = defined_by(op.operands[0], "cast")
    if inner is None:
        return None
    a, b, c = (t.element for t in (inner.operands[0].type, inner.result.type, op.result.type))
    return become(op, "cast", inner.operands) if _is_exact_chain(a, b, c) else None


def _is_exact_chain(a: DataType, b: DataType, c: DataType) -> bool:
    if b.is_bool:
        return a.is_bool
    if _holds(b, a):
        # float -> int saturates where int -> int wraps, so these agree only within C's range
        return not (b.is_float and not a.is_float and c.is_int) or _holds(c, a)
    # integers modulo 2^bits: dropping bits in two steps is dropping them in one
    return a.is_int and b.is_int and c.is_int and (c.bits or 0) <= (b.bits or 0)


def _holds(wide: DataType, narrow: DataType) -> bool:
    """Whether `wide` represents every value of `narrow` exactly."""
    if wide is narrow:
        return True
    if narrow.is_float:
        return (narrow.name, wide.name) in _FLOAT_WITHIN
    low, high = arith.int_range(narrow)
    if wide.is_float:
        return max(-low, high + 1) <= 1 << _EXACT_INT_BITS[wide.name]
    lowest, highest = arith.int_range(wide)
    return not wide.is_bool and lowest <= low and high <= highest


_FLOAT_WITHIN = {("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("bf16", "f64"), ("f32", "f64")}
_EXACT_INT_BITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


# --- vectors


@rule("extract")
def _extract(op: Op, rewriter: Rewriter) -> Replacement:
    """extract of a splat, vector or insert is the operand of that lane."""
    inner, lane = defined_by(op.operands[0], "splat", "vector", "insert"), op.attrs["index"]
    if inner is None:
        return None
    if inner.name != "insert":
        return inner.operands[0 if inner.name == "splat" else lane]
    if inner.attrs["index"] == lane:
        return inner.operands[0]
    return become(op, "extract", inner.operands[1:], op.attrs)


@rule("insert")
def _insert_twice(op: Op, rewriter: Rewriter) -> Replacement:
    """insert a, (insert b, v[i])[i] = insert a, v[i]."""
    inner = defined_by(op.operands[1], "insert")
    if inner is None or inner.attrs["index"] != op.attrs["index"]:
        return None
    return become(op, "insert", (op.operands[0], inner.operands[1]), op.attrs)


@rule("vector")
def _equal_lanes(op: Op, rewriter: Rewriter) -> Replacement:
    """vector x, x, ... = splat x."""
    is_splat = all(lane is op.operands[0] for lane in op.operands)
    return become(op, "splat", op.operands[:1]) if is_splat else None


# --- ids


@rule("global_id")
def _global_id(op: Op, rewriter: Rewriter) -> Replacement:
    """workgroup_id * size + local_id, where the grid or the workgroup has one along the axis."""
    program = rewriter.item
    if not isinstance(program, Program):
        return None
    axis = "xyz".index(op.attrs["axis"])
    if program.workgroup[axis] == 1:
        return become(op, "workgroup_id", (), op.attrs)
    if program.grid is not None and program.grid[axis] == 1:
        return become(op, "local_id", (), op.attrs)
    return None
