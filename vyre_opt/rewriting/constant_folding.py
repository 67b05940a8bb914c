"""Constant folding of a body: ops whose operands are constants become constants."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.folding import fold
from ..ir.program import Func, Op, Program, Value
from ..ir.rewrite import become, constant_value
from .walker import Walker

__all__ = ["chosen_arm", "fold_body"]


def fold_body(item: Program | Func, on_fold: Callable[[Op], None] = lambda op: None) -> int:
    """Replace every op that folds by a constant, in place, and return their number; `on_fold` gets each before."""
    folder = _Folder(item, on_fold)
    folder.walk_block(item.body)
    return folder.changes


class _Folder(Walker):
    def __init__(self, item: Program | Func, on_fold: Callable[[Op], None]) -> None:
        super().__init__()
        self.item = item
        self.on_fold = on_fold

    def visit(self, op: Op, out: list[Op]) -> None:
        if op.definition.is_pure and op.definition.format != "const":
            value = fold(op, self.item)
            if value is not None:
                self.on_fold(op)
                become(op, "const", (), {"value": value})
                self.changes += 1
            elif op.definition.format == "select" and (arm := chosen_arm(op)) is not None:
                self.on_fold(op)
                self.replaced[op.result] = arm
                self.changes += 1
                return
        out.append(op)


def chosen_arm(op: Op) -> Value | None:
    """The arm of a `select` whose predicate is one constant for all lanes."""
    predicate = constant_value(op.operands[0])
    return op.operands[1 if predicate else 2] if isinstance(predicate, int) else None
