"""Ids of another workgroup: bodies that a workgroup runs in the place of others."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.program import Block, Op, Value
from ..rewriting.walker import Walker
from .halo_recompute import OpEmitter

__all__ = ["ids_of", "replace_ids"]


def ids_of(
    emit: OpEmitter, workgroup: Value, workgroups: Value, lanes: int, local: Value
) -> dict[str, Value]:
    """The ids and sizes along x of invocation `local` of one of so many workgroups, of `lanes` each."""
    start = emit.op("mul", "start", workgroup, emit.const(lanes))
    return {
        "workgroup_id": workgroup,
        "global_id": emit.op("add", "id", start, local),
        "num_workgroups": workgroups,
        "global_size": emit.op("mul", "size", workgroups, emit.const(lanes)),
    }


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
