"""Equal values: an op that computes what a dominating op computed gives way to it.

Pure ops count, and loads of a buffer that the program only reads.  The table of
known ops is one dictionary with an undo list a block, so a walk is linear.

A loaded value belongs to a point in time.  In a body that stands for two launches, a launch
between them may write what both only read; so loads are equal only of the same *version* of
the buffer, and `renewed` says at which ops a new version begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from .program import NO_ATTRS, AccessMode, Block, Func, Op, Program, Value
from .rewrite import substitute

__all__ = ["merge_equal"]


def merge_equal(item: Program | Func, renewed: Mapping[Op, Collection[str]] | None = None) -> int:
    """Remove from the body of `item` what is computed a second time; how many ops that were.

    `renewed`: ops after which some of the buffers that `item` only reads hold other values.
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
        for key in block_keys:
            del known[key]

    def key(self, op: Op) -> Any:
        """Equal for ops that compute the same values; None if nothing is known to."""
        if op.definition.is_pure:
            return _key(op)
        if op.name == "load" and (buffer := op.attrs["buffer"]) in self.constant_buffers:
            return _key(op), self.versions[buffer]
        return None


def _key(op: Op) -> Any:
    """Equal for ops that compute the same values."""
    row, operands = op.definition, op.operands
    if row.commutative and id(operands[1]) < id(operands[0]):
        operands = (operands[1], operands[0])
    results = op.results
    dtype: Any = results[0].type if len(results) == 1 else tuple([r.type for r in results])
    if op.attrs is NO_ATTRS:
        return row.name, operands, dtype
    attrs = tuple([op.attrs[a.name] for a in row.attrs])
    return row.name, operands, dtype, attrs, op.attrs.get("fastmath")
