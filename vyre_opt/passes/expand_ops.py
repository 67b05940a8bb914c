"""Expansion of ops: those of other packages become what they mean in the ops of this one."""

from __future__ import annotations

from ..ir.program import Module
from ..rewriting.expansion import expand_ops
from .manager import PassContext
from .registry import Pass, register


@register
class ExpandOps(Pass):
    name = "expand_ops"
    summary = "Replace ops of other packages by what they mean."
    is_required = True

    def run(self, module: Module, ctx: PassContext) -> bool:
        expanded = expand_ops(module, ctx.debug)
        ctx.count("ops expanded", expanded)
        return expanded > 0
