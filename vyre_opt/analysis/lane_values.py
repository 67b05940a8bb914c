"""Values that depend on the local ids alone, lane by lane.

    min(local_id + 1, 63)                     1, 2, ..., 62, 63, 63
    select(local_id > 0, local_id - 1, 0)     0, 0, 1, ..., 62
    local_id % 3                              0, 1, 2, 0, ..., 0

No affine expression is equal to these, but a workgroup has at most 1024 lanes, so each is computed for all of them,
as constants are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir import arith
from ..ir.program import Op, Value
from ..ir.types import DataType
from .affine import AffineExpr, ByLane, Symbol, SymbolKind

__all__ = ["LaneValues", "affine_in_local_ids", "sum_by_lane"]

MAX_DEPTH = 8
"""Length of the chain of conditions that is followed."""


class LaneValues:
    """The values of a program that depend on the local ids alone; `exprs`: the expressions of values so far."""

    def __init__(self, lanes: int, exprs: Mapping[Value, Any]) -> None:
        self.lanes = lanes
        self.exprs = exprs
        self.known: dict[Value, ByLane | None] = {}

    def of(self, value: Value, depth: int = MAX_DEPTH) -> ByLane | None:
        """What a visited value is in each lane, encoded; None if it depends on anything but local ids."""
        if value not in self.known:
            expr = self.exprs.get(value)
            if isinstance(expr, AffineExpr):
                total = sum_by_lane(expr, self.lanes)
                self.known[value] = total and tuple(arith.wrap(number, value.type) for number in total)
            elif value.type.is_bool and isinstance(value.owner, Op) and depth:
                # a condition is computed only where it is needed
                return self.of_result(value.owner, value, depth - 1)
            else:
                return None
        return self.known[value]

    def of_result(self, op: Op, result: Value, depth: int = MAX_DEPTH) -> ByLane | None:
        """What a result is in each lane, by the operands of its op."""
        fold = _fold(op)
        operands = [self.of(operand, depth) for operand in op.operands] if fold is not None else []
        by_lane = [operand for operand in operands if operand is not None]
        if fold is None or not by_lane or len(by_lane) < len(operands):
            return None
        self.known[result] = tuple(map(fold, *by_lane))
        return self.known[result]


def _fold(op: Op) -> Callable[..., int] | None:
    """The op as a function of encoded scalars; None for ops of which nothing is known here."""
    row, results = op.definition, op.results
    if not row.is_pure or len(results) != 1 or not all(_is_scalar(v.type) for v in (*op.operands, *results)):
        return None
    source, target, fold = (op.operands[0].type if op.operands else None), results[0].type, row.fold_int
    if op.name == "select":
        return lambda holds, a, b: int(a if holds else b)
    if op.name == "cast" and source is not None:
        return lambda a: arith.convert(a, source, target)
    if fold is None:
        return None
    return lambda *operands: arith.wrap(int(fold(*operands, source)), target)


def _is_scalar(dtype: DataType) -> bool:
    return dtype.is_int or dtype.is_bool


def sum_by_lane(expr: AffineExpr, lanes: int) -> ByLane | None:
    """The expression at each lane; None if it depends on anything but local ids."""
    if any(symbol.by_lane is None for symbol in expr.terms):
        return None
    total: Sequence[int] = (expr.const,) * lanes
    for symbol, coefficient in expr.terms.items():
        total = [a + coefficient * b for a, b in zip(total, symbol.by_lane or (), strict=True)]
    return tuple(total)


def affine_in_local_ids(expr: AffineExpr, ids: Sequence[Symbol], lanes: int) -> AffineExpr:
    """`expr` with its terms of single lanes put together, where they are affine in the symbols `ids` after all:

        3 * (local_id / 3) + local_id % 3        local_id

    ids: local ids, or all digits of them, each from 0 on.
    """
    own = AffineExpr(0, {s: c for s, c in expr.terms.items() if s.by_lane is not None})
    if not own.terms_of(SymbolKind.VALUE).terms:
        return expr
    total = sum_by_lane(own, lanes)
    assert total is not None
    # lane 0 has all ids 0; the first lane at which a symbol is 1 has all others 0, since ids count up
    terms = {s: total[s.by_lane.index(1)] - total[0] for s in ids if s.by_lane is not None}
    affine = AffineExpr(total[0], terms)
    return affine + expr.without(own.terms) if sum_by_lane(affine, lanes) == total else expr
