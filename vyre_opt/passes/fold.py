"""Constant folding: an op whose result is known becomes that constant, in place.

No op is folded unless every backend gives the same bits for it (see folding).
"""

from __future__ import annotations

from ..ir.folding import fold_body
from ..ir.program import Func, Module, Program
from .manager import PassContext
from .registry import Pass, register


@register
class Fold(Pass):
    name = "fold"
    summary = "Replace ops on constants by their results."

    def run(self, module: Module, ctx: PassContext) -> bool:
        folded = sum(fold_body(item) for item in module.order if isinstance(item, Program | Func))
        ctx.count("ops folded", folded)
        return folded > 0
