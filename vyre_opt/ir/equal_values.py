"""Value numbering over the dominator tree: an op equal to one that dominates it is replaced by that one.

It merges pure ops, and loads of buffers that the program only reads.  The available ops are
one dictionary; each block removes its own at its end, so the walk takes linear time.

A body may be that of two launches joined, and a launch between the two may write a buffer that both
only read.  So loads are merged only within one *version* of a buffer, and `renewed` names the
ops after which a new version begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from .program import NO_ATTRS, AccessMode, Block, Func, Op, Program, Value
from .rewrite import substitute

__all__ = ["merge_equal"]


def merge_equal(item: Program | Func, renewed: Mapping[Op, Collection[str]] | None = None) -> int:
    """Remove the ops of `item` that compute a value a second time, and return their number.

    `renewed`: ops after which the named buffers, which `item` only reads, hold other values.
    """
    walk = _Walk(item, renewed or {})
    walk.block(item.body)
    return walk.removed


class _Walk:
    def __init__(self, item: Program | Func, renewed: Mapping[Op, Collection[str]]) -> None:
        buffers = item.buffers if isinstance(item, Program) else {}
        self.constant_buffers = {b.name for b in buffers.values() if b.access is AccessMode.READ}
        self.renewed = renewed
        self.versions: Counter[str] = Counter()
        self.known: dict[Any, Op] = {}
        self.replaced: dict[Value, Value] = {}
        self.removed = 0

    def block(self, block: Block) -> None:
        known, replaced = self.known, self.replaced
        remaining: list[Op] = []
        block_keys: list[Any] = []
        for op in block.ops:
            if replaced:
                substitute(op, replaced)
            key = self.key(op)
            if key is None:
                for inner in op.regions:
                    self.block(inner)
                remaining.append(op)
                if op in self.renewed:
                    self.versions.update(self.renewed[op])
                continue
            first = known.get(key)
            if first is None:
                known[key] = op
                block_keys.append(key)
                remaining.append(op)
            else:
                replaced.update(zip(op.results, first.results, strict=True))
        self.removed += len(block.ops) - len(remaining)
        if len(remaining) < len(block.ops):
            block.ops = remaining
        for key in block_keys:  # they do not dominate what follows the block
            del known[key]

    def key(self, op: Op) -> Any:
        """A key that is equal for ops with equal results; None for an op that may not be merged."""
        if op.definition.is_pure:
            return _key(op)
        if op.name == "load" and (buffer := op.attrs["buffer"]) in self.constant_buffers:
            return _key(op), self.versions[buffer]
        return None


def _key(op: Op) -> Any:
    """A key that is equal for ops with equal results."""
    row, operands = op.definition, op.operands
    if row.commutative and id(operands[1]) < id(operands[0]):  # any fixed order will do
        operands = (operands[1], operands[0])
    results = op.results
    dtype: Any = results[0].type if len(results) == 1 else tuple([r.type for r in results])
    if op.attrs is NO_ATTRS:
        return row.name, operands, dtype
    attrs = tuple([op.attrs[a.name] for a in row.attrs])
    return row.name, operands, dtype, attrs, op.attrs.get("fastmath")
