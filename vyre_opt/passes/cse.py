"""Common subexpression elimination: an op equal to one that dominates it is replaced by that one."""

from __future__ import annotations

from ..ir.equal_values import merge_equal
from ..ir.program import Func, Module, Program
from .manager import PassContext
from .registry import Pass, register


@register
class Cse(Pass):
    name = "cse"
    summary = "Replace a pure op by an equal one that dominates it."

    def run(self, module: Module, ctx: PassContext) -> bool:
        removed = sum(merge_equal(item) for item in module.order if isinstance(item, Program | Func))
        ctx.count("ops removed", removed)
        return removed > 0
