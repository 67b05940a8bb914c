"""Values that depend on the local ids alone, lane by lane.

    min(local_id + 1, 63)                     1, 2, ..., 62, 63, 63
    select(local_id > 0, local_id - 1, 0)     0, 0, 1, ..., 62
    local_id % 3                              0, 1, 2, 0, ..., 0

No affine expression is equal to these, but a workgroup has at most 1024 lanes, so each is computed for all of them,
as constants are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat

from ..ir import arith
from ..ir.program import Op, Value
from ..ir.types import DataType
from .affine import AffineExpr, ByLane, SymbolKind

__all__ = ["LaneValues", "elementwise_fold", "put_together", "sum_by_lane", "wrap_lanes"]

MAX_DEPTH = 8
"""Length of the chain of conditions that is followed."""

MAX_COMPUTED = 1 << 17
"""Values of lanes that are computed for a program, a fraction of a second; later ones are not known."""


class LaneValues:
    """The values of a program that depend on the local ids alone; `form(value)`: its expression, if it has one."""

    def __init__(self, lanes: int, form: Callable[[Value], AffineExpr | None]) -> None:
        self.lanes = lanes
        self.form = form
        self.known: dict[Value, ByLane | None] = {}
        self.computed = 0

    def of(self, value: Value, depth: int = MAX_DEPTH) -> ByLane | None:
        """Encoded value of each lane for a visited value; None if it depends on anything but local ids."""
        if value not in self.known:
            expr = self.form(value)
            if expr is not None:
                total = sum_by_lane(expr, self.lanes)
                self.known[value] = total and wrap_lanes(total, value.type)
            elif value.type.is_bool and isinstance(value.owner, Op) and depth:
                # a condition is computed only where it is needed
                return self.of_result(value.owner, value, depth - 1)
            else:
                return None
        return self.known[value]

    def of_result(self, op: Op, result: Value, depth: int = MAX_DEPTH) -> ByLane | None:
        """Value of a result in each lane, by the operands of its op."""
        fold = elementwise_fold(op) if self.computed < MAX_COMPUTED else None
        operands = [self.of(operand, depth) for operand in op.operands] if fold is not None else []
        by_lane = [operand for operand in operands if operand is not None]
        if fold is None or not by_lane or len(by_lane) < len(operands):
            return None
        self.computed += self.lanes
        self.known[result] = wrap_lanes(tuple(fold(*by_lane)), result.type)
        return self.known[result]


def elementwise_fold(op: Op) -> Callable[..., map[int]] | None:
    """The op on sequences of encoded scalars, before results wrap; None for an op without a fold."""
    row, results = op.definition, op.results
    if not row.is_pure or len(results) != 1 or not all(_is_scalar(v.type) for v in (*op.operands, *results)):
        return None
    if op.name == "select":
        return partial(map, lambda holds, a, b: a if holds else b)
    if op.name == "cast":
        return lambda values: map(arith.convert, values, repeat(op.operands[0].type), repeat(op.result.type))
    fold = row.fold_int
    return None if fold is None else lambda *operands: map(fold, *operands, repeat(op.operands[0].type))


def _is_scalar(dtype: DataType) -> bool:
    return dtype.is_int or dtype.is_bool


def wrap_lanes(values: ByLane, dtype: DataType) -> ByLane:
    low, high = arith.int_range(dtype)
    if low <= min(values) and max(values) <= high:
        return values
    return tuple(arith.wrap(value, dtype) for value in values)


def sum_by_lane(expr: AffineExpr, lanes: int) -> ByLane | None:
    """The expression at each lane; None if it depends on anything but local ids."""
    if any(symbol.by_lane is None for symbol in expr.terms):
        return None
    total: Sequence[int] = (expr.const,) * lanes
    for symbol, coefficient in expr.terms.items():
        total = [a + coefficient * b for a, b in zip(total, symbol.by_lane or (), strict=True)]
    return tuple(total)


def put_together(expr: AffineExpr, local_ids: Iterable[AffineExpr], lanes: int) -> AffineExpr:
    """`expr` with its terms of single lanes put together, where they are affine in the symbols of local ids after all:

    3 * (local_id / 3) + local_id % 3        local_id
    """
    if not any(s.by_lane is not None and s.kind is SymbolKind.VALUE for s in expr.terms):
        return expr
    by_lane = AffineExpr(0, {s: c for s, c in expr.terms.items() if s.by_lane is not None})
    # lane 0 has all ids 0; the first lane at which a symbol is 1 has all others 0, since ids count up
    first = _at_lane(by_lane, 0)
    ids = [symbol for local in local_ids for symbol in local.terms]
    terms = {s: _at_lane(by_lane, s.by_lane.index(1)) - first for s in ids if s.by_lane is not None}
    affine = AffineExpr(first, terms)
    differs = _at_lane(affine, lanes - 1) != _at_lane(
        by_lane, lanes - 1
    )  # as most that are not affine do there
    is_equal = not differs and sum_by_lane(affine, lanes) == sum_by_lane(by_lane, lanes)
    return affine + expr.without(by_lane.terms) if is_equal else expr


def _at_lane(expr: AffineExpr, lane: int) -> int:
    by_lane = ((s.by_lane, c) for s, c in expr.terms.items())
    return expr.const + sum(c * values[lane] for values, c in by_lane if values is not None)
