"""Loops keep loaded values in registers, on a GPU: invariant loads move before the loop (scheduling/invariant_loads), and
equal loads of several short loops over one row are done once (scheduling/kept_loads).

A loop over an open length is rewritten when a call has that length.
"""

from __future__ import annotations

from ..ir.program import Module
from ..records import dataclass
from ..scheduling.invariant_loads import hoist_loads
from ..scheduling.kept_loads import keep_loads, rows, trips
from ..scheduling.loop_facts import op_numbers
from .manager import PassContext
from .registry import Pass, register


@dataclass(frozen=True)
class KeepLoadsOptions:
    """`always`: whatever the target; otherwise only where it is a GPU."""

    always: bool = False


@register
class KeepLoads(Pass):
    name = "keep_loads"
    summary = "Let loops load once what they would load again."
    per_item = True
    needs_core_ops = True
    Options = KeepLoadsOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        if not (self.options.always or ctx.is_for_gpu()):
            return False
        changed = 0
        for program in ctx.programs(module):
            numbers = op_numbers(program)
            changed += hoist_loads(program, ctx, numbers)
            candidates = rows(program)
            changed += keep_loads(program, ctx, candidates, trips(program, candidates), numbers, waits=True)
        ctx.count("loads and rows that are loaded once", changed)
        return changed > 0
