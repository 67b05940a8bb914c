"""Ops that need guards, against operands for which LLVM's instructions are undefined or a machine's do something else.

The ranges of operands show that none is needed for

    div, rem    by what is never 0 (signed: nor -1, unless the dividend is never the least value)
    shl, shr    by less than the width
    permute     with an index that is surely a lane of its table

Branches around say nothing: code for a CPU computes in lanes that are not active, too.
"""

from __future__ import annotations

from ...analysis.value_forms import ValueForms
from ...ir import arith
from ...ir.folding import lanes_of
from ...ir.program import Op, Value
from ...ir.rewrite import constant_value

__all__ = ["largest_lane", "needs_guard"]


def needs_guard(op: Op, forms: ValueForms) -> bool:
    """Whether the op may have operands for which LLVM leaves the result undefined."""
    dtype = op.results[0].type
    if not dtype.is_int or op.name not in ("div", "rem", "shl", "shr"):
        return True
    low, high = forms.range(op.operands[1])
    if op.name in ("shl", "shr"):
        return not (0 <= low and high < (dtype.bits or 0))
    if low > 0 or high < -1:
        return False
    # the divisor may be 0, or it may be -1, which only the least dividend overflows with
    return high >= 0 or forms.range(op.operands[0])[0] == arith.int_range(dtype)[0]


def largest_lane(value: Value, depth: int = 8) -> int:
    """An upper bound of what the lanes of a vector of u8 hold; `depth`: how many ops back to look."""
    constant = constant_value(value)
    if constant is not None:
        return max(lanes_of(constant, value.type))
    op = value.owner
    if not isinstance(op, Op) or not depth:
        return 255
    if op.name in ("and", "min"):
        return min(largest_lane(operand, depth - 1) for operand in op.operands)
    if op.name == "shr":
        amount = constant_value(op.operands[1])
        if amount is not None:
            return largest_lane(op.operands[0], depth - 1) >> min(n % 8 for n in lanes_of(amount, value.type))
    return 255
