"""Which divisions and shifts need guards against operands for which LLVM's instructions are undefined.

The ranges of operands show that none is needed for

    div, rem    by what is never 0 (signed: nor -1, unless the dividend is never the least value)
    shl, shr    by less than the width

Ranges are computed on demand, from a value's op and its operands, to a small depth.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...analysis.affine import Range
from ...analysis.ranges import result_range
from ...ir import arith
from ...ir.ops import AXES, SUBGROUP_SIZE
from ...ir.program import Op, Program, Value

__all__ = ["ArithmeticGuards"]

MAX_DEPTH = 12
"""The most ops between a guarded operand and the values that its range is computed from."""


class ArithmeticGuards:
    """The guards of one program.  `specs`: encoded values of specialization constants, where fixed."""

    def __init__(self, program: Program, specs: Mapping[str, object] | None = None) -> None:
        self.program = program
        self.specs = specs or {}
        self.ranges: dict[Value, Range] = {}

    def needed(self, op: Op) -> bool:
        """Whether the op may have operands for which LLVM leaves the result undefined."""
        dtype = op.results[0].type
        if not dtype.is_int or op.name not in ("div", "rem", "shl", "shr"):
            return True
        low, high = self._range(op.operands[1], MAX_DEPTH)
        if op.name in ("shl", "shr"):
            return not (0 <= low and high < (dtype.bits or 0))
        if low > 0 or high < -1:
            return False
        # The divisor may be 0, or it may be -1, which only the least dividend overflows with
        return high >= 0 or self._range(op.operands[0], MAX_DEPTH)[0] == arith.int_range(dtype)[0]

    def _range(self, value: Value, depth: int) -> Range:
        cached = self.ranges.get(value)
        if cached is None:
            if not depth:  # not cached: on another path to the value more depth may be left
                return arith.int_range(value.type)
            cached = self.ranges[value] = self._compute_range(value, depth - 1)
        return cached

    def _compute_range(self, value: Value, depth: int) -> Range:
        whole, owner = arith.int_range(value.type), value.owner
        if not isinstance(owner, Op) or len(owner.results) != 1 or owner.regions:
            return whole
        declared = self._declared_range(owner)
        if declared is not None:
            return declared if whole[0] <= declared[0] and declared[1] <= whole[1] else whole
        if not all(v.type.is_int or v.type.is_bool for v in owner.operands):
            return whole
        return result_range(owner, {v: self._range(v, depth) for v in owner.operands})

    def _declared_range(self, op: Op) -> Range | None:
        """The range of an id, length or constant by the program's declarations."""
        name, program = op.name, self.program
        if name == "local_id":
            return 0, program.workgroup[AXES.index(op.attrs["axis"])] - 1
        if name == "workgroup_id" and program.grid is not None:
            return 0, program.grid[AXES.index(op.attrs["axis"])] - 1
        if name == "lane_id":
            return 0, SUBGROUP_SIZE - 1
        if name == "subgroup_size":
            return SUBGROUP_SIZE, SUBGROUP_SIZE
        if name == "len":
            count = program.buffers[op.attrs["buffer"]].count
            return None if count is None else (count, count)
        if name == "spec":
            constant = self.specs.get(op.attrs["spec"])
            return (constant, constant) if isinstance(constant, int) else None
        return None
