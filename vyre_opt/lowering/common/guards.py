"""Which divisions and shifts need guards against operands for which LLVM's instructions are undefined.

The ranges of operands show that none is needed for

    div, rem    by what is never 0 (signed: nor -1, unless the dividend is never the least value)
    shl, shr    by less than the width

Branches around say nothing: code for a CPU computes in lanes that are not active, too.
"""

from __future__ import annotations

from ...analysis.value_forms import ValueForms
from ...ir import arith
from ...ir.program import Op

__all__ = ["needs_guard"]


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
