"""Which divisions and shifts need no guard: their operands' ranges say that LLVM defines them.

    div, rem    by what is never 0 (signed: nor -1, unless the dividend is never the least value)
    shl, shr    by less than the width

Ranges are asked for where a guard hangs on them, so they are followed from there towards
what a value is made of, a few steps deep.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...analysis.affine import Range
from ...analysis.ranges import result_range
from ...ir import arith
from ...ir.ops import AXES, SUBGROUP_SIZE
from ...ir.program import Op, Program, Value

__all__ = ["ArithmeticGuards"]

MAX_STEPS = 12


class ArithmeticGuards:
    """`specs`: the values of specialization constants, encoded, where they are fixed."""

    def __init__(self, program: Program, specs: Mapping[str, object] | None = None) -> None:
        self.program = program
        self.specs = specs or {}
        self.ranges: dict[Value, Range] = {}

    def needed(self, op: Op) -> bool:
        """Whether LLVM may leave the result undefined for some operands that the op may meet."""
        dtype = op.results[0].type
        if not dtype.is_int or op.name not in ("div", "rem", "shl", "shr"):
            return True
        low, high = self._range(op.operands[1], MAX_STEPS)
        if op.name in ("shl", "shr"):
            return not (0 <= low and high < (dtype.bits or 0))
        if low > 0 or high < -1:
            return False
        return high >= 0 or self._range(op.operands[0], MAX_STEPS)[0] == arith.int_range(dtype)[0]

    def _range(self, value: Value, steps: int) -> Range:
        found = self.ranges.get(value)
        if found is None:
            if not steps:  # not kept: another way to the value may have more
                return arith.int_range(value.type)
            found = self.ranges[value] = self._found(value, steps - 1)
        return found

    def _found(self, value: Value, steps: int) -> Range:
        whole, owner = arith.int_range(value.type), value.owner
        if not isinstance(owner, Op) or len(owner.results) != 1 or owner.regions:
            return whole
        known = self._stated(owner)
        if known is not None:
            return known if whole[0] <= known[0] and known[1] <= whole[1] else whole
        if not all(v.type.is_int or v.type.is_bool for v in owner.operands):
            return whole
        return result_range(owner, {v: self._range(v, steps) for v in owner.operands})

    def _stated(self, op: Op) -> Range | None:
        """What the program's own declarations say of ids, lengths and constants."""
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
            given = self.specs.get(op.attrs["spec"])
            return (given, given) if isinstance(given, int) else None
        return None
