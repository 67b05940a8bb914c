"""Affine expressions that are equal to integer values, for every lane, computed for the values that are asked for.

(%s + %l) - %s           %l: the sum may wrap, but not the difference
min(%l + 1, 63) : u32    a symbol in [1, 63], known in each lane
load @x[%i]              a symbol of which no more than its type is known
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import arith
from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Op, Program, Value
from .affine import AffineExpr, ByLane, Range, Symbol, SymbolKind
from .affine_rules import OperandForms, local_ids, result_form
from .congruence import fits
from .lane_values import LaneValues, put_together
from .ranges import result_range

__all__ = ["ValueForms"]


class ValueForms:
    """Every integer value has an expression; one that is not affine is a symbol of its own.

    They hold for all lanes, whatever branches are around; with `whole_subgroups`, for those of the last subgroup that
    lie beyond the workgroup too, which a CPU computes with the others.
    `specs`: values of specialization constants, where they are fixed.
    `aliases`: arguments of a while's body, with those of its condition that they are equal to.
    """

    def __init__(
        self, program: Program, specs: Mapping[str, object] | None = None, whole_subgroups: bool = False
    ) -> None:
        lanes = -(-program.lanes // SUBGROUP_SIZE) * SUBGROUP_SIZE if whole_subgroups else program.lanes
        local = local_ids(program, lanes)
        self.operands = OperandForms(program, lanes, local, self.congruent, self.expr, specs or {})
        self.lane_values = LaneValues(lanes, self._scalar)
        self.aliases: dict[Value, Value] = {}
        self._exprs: dict[Value, AffineExpr] = {}
        self._congruent: dict[Value, AffineExpr] = {}
        self._atoms: dict[Value, AffineExpr] = {}

    def expr(self, value: Value) -> AffineExpr:
        """An expression that is equal to the value as an integer."""
        value = self.aliases.get(value, value)
        if value not in self._exprs:
            self._visit(value)
        return self._exprs[value]

    def congruent(self, value: Value) -> AffineExpr:
        """An expression that is equal to the value modulo 2^bits of its type."""
        value = self.aliases.get(value, value)
        if value not in self._congruent:
            self._visit(value)
        return self._congruent[value]

    def range(self, value: Value) -> Range:
        """Smallest and largest value."""
        return self.expr(value).range()

    def atom(self, value: Value) -> AffineExpr:
        """The value as a symbol."""
        value = self.aliases.get(value, value)
        cached = self._atoms.get(value)
        if cached is None:
            span, by_lane = self._span(value)
            symbol = Symbol(SymbolKind.VALUE, f"%{value.name}", span, identity=value, by_lane=by_lane)
            cached = self._atoms[value] = AffineExpr.of(symbol)
        return cached

    def define(self, value: Value, expr: AffineExpr) -> None:
        """Take `expr` for the value, a block argument, which it is equal to unless that is out of its type's range."""
        if fits(expr.range(), value.type):
            self._exprs[value] = self._congruent[value] = expr

    def _visit(self, value: Value) -> None:
        """Compute the expressions of a value and of its operands, without recursion, however long the chain."""
        pending = [value]
        while pending:
            value = pending[-1]
            op = _pure_op(value)
            operands = [self.aliases.get(v, v) for v in op.operands if v.type.is_int] if op else []
            unknown = [operand for operand in operands if operand not in self._exprs]
            pending += unknown
            if not unknown:
                pending.pop()
                if value not in self._exprs:
                    self._find(value, op)

    def _find(self, value: Value, op: Op | None) -> None:
        form = result_form(op, self.operands) if op is not None and value.type.is_int else None
        expr = form if form is not None else self.atom(value)
        expr = put_together(expr, self.operands.local.values(), self.operands.lanes)
        self._congruent[value] = expr
        self._exprs[value] = expr if fits(expr.range(), value.type) else self.atom(value)

    def _span(self, value: Value) -> tuple[Range, ByLane | None]:
        op = _pure_op(value)
        if op is None:
            return arith.int_range(value.type), None
        by_lane = self.lane_values.of_result(op, value) if value.type.is_int else None
        if by_lane is not None:
            return (min(by_lane), max(by_lane)), by_lane
        return result_range(op, {v: self.range(v) for v in op.operands if v.type.is_int}), None

    def _scalar(self, value: Value) -> AffineExpr | None:
        return self.congruent(value) if value.type.is_int else None


def _pure_op(value: Value) -> Op | None:
    """The op whose only result the value is, and by nothing but its operands."""
    op = value.owner
    if not isinstance(op, Op) or op.regions or len(op.results) != 1 or not op.definition.is_pure:
        return None
    return op
