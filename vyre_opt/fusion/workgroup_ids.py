"""Ids of another workgroup: bodies that a workgroup runs in the place of others."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.program import Block, Op, Value
from ..rewriting.walker import Walker

__all__ = ["replace_ids"]


def replace_ids(block: Block, ids: Mapping[str, Value]) -> None:
    """Let values stand for ids and sizes along x, by the names of their ops, wherever the block asks for them."""
    _Renamer(ids).walk_block(block)


class _Renamer(Walker):
    def __init__(self, ids: Mapping[str, Value]) -> None:
        super().__init__()
        self.ids = ids

    def visit(self, op: Op, out: list[Op]) -> None:
        if op.name in self.ids and op.attrs["axis"] == "x":
            self.replaced[op.result] = self.ids[op.name]
        else:
            out.append(op)
