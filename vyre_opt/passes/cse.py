"""Common subexpression elimination: an op equal to one that dominates it is replaced by that one."""

from __future__ import annotations

from ..ir.program import Module, Op
from ..rewriting.value_numbering import merge_equal
from .manager import PassContext
from .registry import Pass, register


@register
class Cse(Pass):
    name = "cse"
    summary = "Replace a pure op by an equal one that dominates it."
    per_item = True

    def run(self, module: Module, ctx: PassContext) -> bool:
        def on_merge(op: Op, first: Op) -> None:
            ctx.debug("{} equals {} of {}, which dominates it", op, first, first.loc, loc=op.loc)

        removed = sum(merge_equal(item, on_merge=on_merge) for item in ctx.items(module))
        ctx.count("ops removed", removed)
        return removed > 0
