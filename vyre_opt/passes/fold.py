"""Constant folding: an op whose result is known becomes that constant, in place.

No op is folded unless every backend gives the same bits for it (see folding).
"""

from __future__ import annotations

from ..ir.program import Module, Op
from ..rewriting.constant_folding import fold_body
from .manager import PassContext
from .registry import Pass, register


@register
class Fold(Pass):
    name = "fold"
    summary = "Replace ops on constants by their results."
    per_item = True

    def run(self, module: Module, ctx: PassContext) -> bool:
        def on_fold(op: Op) -> None:
            ctx.debug("folds: {}", op, loc=op.loc)

        folded = sum(fold_body(item, on_fold) for item in ctx.items(module))
        ctx.count("ops folded", folded)
        return folded > 0
