"""Constant folding: an op whose result is known becomes that constant, in place.

No op is folded unless every backend gives the same bits for it (see folding).
"""

from __future__ import annotations

from ..ir.program import Block, Func, Module, Program, Value
from .folding import chosen_arm, fold
from .manager import Context
from .registry import Pass, register
from .rewrite import become, substitute


@register
class Fold(Pass):
    name = "fold"
    summary = "Replace ops on constants by their results."

    def run(self, module: Module, ctx: Context) -> bool:
        folded = 0
        for item in module.order:
            if isinstance(item, Program | Func):
                walk = _Walk(item)
                walk.block(item.body)
                folded += walk.folded
        ctx.count("ops folded", folded)
        return folded > 0


class _Walk:
    def __init__(self, item: Program | Func) -> None:
        self.item = item
        self.replaced: dict[Value, Value] = {}
        self.folded = 0

    def block(self, block: Block) -> None:
        replaced = self.replaced
        for op in block.ops:
            if replaced:
                substitute(op, replaced)
            for inner in op.regions:
                self.block(inner)
            if not op.definition.is_pure or op.definition.form == "const":
                continue
            value = fold(op, self.item)
            if value is not None:
                become(op, "const", (), {"value": value})
                self.folded += 1
            elif op.definition.form == "select" and (arm := chosen_arm(op)) is not None:
                replaced[op.result] = arm
                self.folded += 1
        if replaced:
            block.ops = [op for op in block.ops if not op.results or op.results[0] not in replaced]
