"""Affine expressions of indices that are clamped at an edge, up to a distance of known range.

    max(%g, 1) - 1        global_id - 1 + d      d in [0, 1]
    min(%g + 1, 255)      global_id + 1 - d      d in [0, 1] if global_id is at most 255

A minimum or maximum of a lane's value is not affine, so `AffineAnalysis` has no expression for it.  To tell
how far a lane reaches, an expression plus a bounded distance is enough: the distance is a VALUE symbol.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..ir.program import Op, Value
from .affine import AffineExpr, Range, Symbol, SymbolKind
from .affine_analysis import AffineAnalysis
from .congruence import fits
from .footprint import Footprints, MemoryAccess

__all__ = ["clamped_access", "clamped_expr"]

MAX_DISTANCE = 1 << 16
MAX_DEPTH = 32
"""Length of the chain of ops that is followed."""


def clamped_expr(affine: AffineAnalysis, value: Value, depth: int = MAX_DEPTH) -> AffineExpr | None:
    """An expression congruent to `value` modulo 2^bits, with symbols for distances; None if there is none."""
    form = affine.exprs.get(value)
    expr = form if isinstance(form, AffineExpr) else None
    # an expression over an unknown value is not good enough: its range may be the whole type's, where the
    # distance from what was clamped is small
    if expr is not None and not expr.has_unknown:
        return expr
    op = value.owner
    rule = _RULES.get(op.name) if isinstance(op, Op) and depth and value.type.is_int else None
    if rule is None or not isinstance(op, Op):
        return expr
    return rule(affine, op, depth - 1) or expr


def clamped_access(footprints: Footprints, access: MemoryAccess) -> MemoryAccess:
    """An access with a clamped expression of its index, where there is one."""
    affine = footprints.affine
    expr = footprints.index(access.op, lambda index: clamped_expr(affine, index), access.guards)
    return replace(access, index=expr) if isinstance(expr, AffineExpr) else access


def _exact(affine: AffineAnalysis, value: Value, depth: int) -> tuple[AffineExpr, Range] | None:
    """A clamped expression that is equal to the value as an integer, and its range."""
    expr = clamped_expr(affine, value, depth)
    if expr is None:
        return None
    values = expr.range()
    return (expr, values) if fits(values, value.type) else None


def _at_distance(expr: AffineExpr, value: Value, low: int, high: int) -> AffineExpr | None:
    """`expr` plus a new symbol in [low, high]."""
    if low == high == 0:
        return expr
    if high - low > MAX_DISTANCE:
        return None
    return expr + AffineExpr.of(
        Symbol(SymbolKind.VALUE, f"distance(%{value.name})", (low, high), identity=value)
    )


def _sum(affine: AffineAnalysis, op: Op, depth: int) -> AffineExpr | None:
    a, b = (clamped_expr(affine, operand, depth) for operand in op.operands)
    if a is None or b is None:
        return None
    return a - b if op.name == "sub" else a + b


def _max(affine: AffineAnalysis, op: Op, depth: int) -> AffineExpr | None:
    """max(a, b) = a + d, d from 0 to the most that b may exceed a by."""
    return _clamp(affine, op, depth, lambda clamped, limit: (0, max(0, limit[1] - clamped[0])))


def _min(affine: AffineAnalysis, op: Op, depth: int) -> AffineExpr | None:
    return _clamp(affine, op, depth, lambda clamped, limit: (min(0, limit[0] - clamped[1]), 0))


def _clamp(
    affine: AffineAnalysis, op: Op, depth: int, distance: Callable[[Range, Range], Range]
) -> AffineExpr | None:
    a, b = (_exact(affine, operand, depth) for operand in op.operands)
    if a is None or b is None:
        return None
    clamped, limit = (b, a) if a[0].is_const else (a, b)
    return _at_distance(clamped[0], op.result, *distance(clamped[1], limit[1]))


def _sub_sat(affine: AffineAnalysis, op: Op, depth: int) -> AffineExpr | None:
    """Unsigned sub_sat: a - b, or 0 where b is larger, so a - b + d with d up to b - a."""
    a, b = (_exact(affine, operand, depth) for operand in op.operands)
    if a is None or b is None or op.result.type.is_signed:
        return None
    return _at_distance(a[0] - b[0], op.result, 0, max(0, b[1][1] - a[1][0]))


def _select(affine: AffineAnalysis, op: Op, depth: int) -> AffineExpr | None:
    a, b = (clamped_expr(affine, operand, depth) for operand in op.operands[1:])
    if a is None or b is None:
        return None
    low, high = (b - a).range()
    return _at_distance(a, op.result, min(0, low), max(0, high))


def _cast(affine: AffineAnalysis, op: Op, depth: int) -> AffineExpr | None:
    source, target = op.operands[0].type, op.result.type
    if not source.is_int:
        return None
    if (target.bits or 0) <= (source.bits or 0):
        return clamped_expr(affine, op.operands[0], depth)
    exact = _exact(affine, op.operands[0], depth)
    return exact[0] if exact is not None else None


_RULES: dict[str, Callable[[AffineAnalysis, Op, int], AffineExpr | None]] = {
    "add": _sum, "sub": _sum, "max": _max, "min": _min, "sub_sat": _sub_sat,
    "select": _select, "cast": _cast,
}  # fmt: skip
