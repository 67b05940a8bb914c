"""Loops load for several iterations at once (scheduling/batched_loads): on a GPU, whose lanes wait for memory otherwise.

A loop over an open length is rewritten when a call has that length, by the same rule, or with `always=true`.
"""

from __future__ import annotations

from ..ir.program import Module
from ..records import dataclass
from ..scheduling.batched_loads import batch_loads, iterations
from .manager import PassContext
from .registry import Pass, register


@dataclass(frozen=True)
class BatchLoadsOptions:
    """`always`: whatever the target, and however long the loops are; otherwise only where it is a GPU."""

    always: bool = False


@register
class BatchLoads(Pass):
    name = "batch_loads"
    summary = "Let loops load for several iterations at once."
    per_item = True
    needs_core_ops = True
    Options = BatchLoadsOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        if not (self.options.always or ctx.is_for_gpu()):
            return False
        waits = not self.options.always
        loops = sum(batch_loads(program, ctx, iterations(program), waits) for program in ctx.programs(module))
        ctx.count("loops that load in batches", loops)
        return loops > 0
