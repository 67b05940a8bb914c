"""Ids of another workgroup, for a body that a workgroup runs on its behalf."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.program import Block, Op, Value
from ..rewriting.walker import Walker
from .halo_recompute import OpEmitter

__all__ = ["Ids", "ids_of", "replace_ids"]


Ids = Mapping[tuple[str, str], Value]
"""Values that replace ids and sizes, by the name of the op and the axis."""


def ids_of(
    emit: OpEmitter, workgroup: Value, workgroups: Value, lanes: int, local: Value, axis: str = "x"
) -> dict[tuple[str, str], Value]:
    """Ids and sizes along an axis, for invocation `local` of workgroup `workgroup` among `workgroups` of `lanes` each."""
    start = emit.op("mul", "start", workgroup, emit.const(lanes))
    return {
        ("workgroup_id", axis): workgroup,
        ("global_id", axis): emit.op("add", "id", start, local),
        ("num_workgroups", axis): workgroups,
        ("global_size", axis): emit.op("mul", "size", workgroups, emit.const(lanes)),
    }


def replace_ids(block: Block, ids: Ids) -> None:
    """Replace the ids and sizes in a block by values."""
    _Renamer(ids).walk_block(block)


class _Renamer(Walker):
    def __init__(self, ids: Ids) -> None:
        super().__init__()
        self.ids = ids

    def visit(self, op: Op, out: list[Op]) -> None:
        value = self.ids.get((op.name, op.attrs.get("axis", "")))
        if value is None:
            out.append(op)
        else:
            self.replaced[op.result] = value
