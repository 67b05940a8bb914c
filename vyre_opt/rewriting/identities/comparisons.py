"""Rules of compare and select."""

from __future__ import annotations

from ...ir.program import Op
from ...ir.rewrite import become
from ..pattern import Replacement
from ..rewriter import Rewriter
from .rules import defined_by, int_max, int_min, rule, scalar, set_constant

# not (a op b) = a op' b
_NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


@rule("eq", "ne", "lt", "le", "gt", "ge")
def _compare_same(op: Op, rewriter: Rewriter) -> Replacement:
    """x == x, x <= x, x >= x hold but for NaN; x < x and x > x never do."""
    a, b = op.operands
    element = a.type.element
    if a is not b or element.kind == "opaque" or (element.is_float and op.name not in ("lt", "gt")):
        return None
    return set_constant(op, int(op.name in ("eq", "le", "ge")))


@rule("lt", "le", "gt", "ge")
def _compare_limit(op: Op, rewriter: Rewriter) -> Replacement:
    """x < MIN and x > MAX never hold; x >= MIN and x <= MAX always do."""
    element, known = op.operands[0].type.element, scalar(op.operands[1])
    if element.is_float or known is None:
        return None
    limit = int_min(element) if op.name in ("lt", "ge") else int_max(element)
    return set_constant(op, int(op.name in ("ge", "le"))) if known == limit else None


@rule("eq", "ne")
def _compare_bool(op: Op, rewriter: Rewriter) -> Replacement:
    """p == true is p, p == false is not p, and the reverse for !=."""
    known = scalar(op.operands[1])
    if not op.operands[0].type.element.is_bool or known is None:
        return None
    return op.operands[0] if known == (op.name == "eq") else become(op, "not", op.operands[:1])


@rule("select")
def _select(op: Op, rewriter: Rewriter) -> Replacement:
    """select p, x, x = x; select p, true, false = p and its reverse not p; select not p, x, y = select p, y, x."""
    predicate, a, b = op.operands
    if a is b:
        return a
    if op.result.type is predicate.type and predicate.type.element.is_bool:
        arms = scalar(a), scalar(b)
        if arms == (1, 0):
            return predicate
        if arms == (0, 1):
            return become(op, "not", (predicate,))
    inner = defined_by(predicate, "not")
    return become(op, "select", (inner.operands[0], b, a), op.attrs) if inner else None


@rule("not")
def _negated_compare(op: Op, rewriter: Rewriter) -> Replacement:
    """not (a < b) = (a >= b), and so on; with floats only for eq and ne, because of NaN."""
    inner = defined_by(op.operands[0], *_NEGATED)
    if inner is None or (inner.operands[0].type.element.is_float and inner.name not in ("eq", "ne")):
        return None
    return become(op, _NEGATED[inner.name], inner.operands)
