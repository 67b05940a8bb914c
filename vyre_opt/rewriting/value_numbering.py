"""Value numbering over the dominator tree: an op equal to one that dominates it is replaced by that one.

It merges pure ops, and loads of buffers that the program only reads.  The available ops are
one dictionary; each block removes its own at its end, so the walk takes linear time.

A body may be that of two launches joined, and a launch between the two may write a buffer that both
only read.  So loads are merged only within one *version* of a buffer, and `renewed` names the
ops after which a new version begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..ir.program import NO_ATTRS, AccessMode, Func, Op, Program
from .walker import Walker

__all__ = ["merge_equal"]


def merge_equal(
    item: Program | Func,
    renewed: Mapping[Op, Collection[str]] | None = None,
    on_merge: Callable[[Op, Op], None] = lambda op, first: None,
) -> int:
    """Remove the ops of `item` that compute a value a second time, and return their number.

    `renewed`: ops after which the named buffers, which `item` only reads, hold other values.  `on_merge`: called
    with each op that goes and the one that stands for it.
    """
    merger = _Merger(item, renewed or {}, on_merge)
    merger.walk_block(item.body)
    return merger.changes


class _Merger(Walker):
    def __init__(
        self, item: Program | Func, renewed: Mapping[Op, Collection[str]], on_merge: Callable[[Op, Op], None]
    ) -> None:
        super().__init__()
        self.on_merge = on_merge
        buffers = item.buffers if isinstance(item, Program) else {}
        self.constant_buffers = {b.name for b in buffers.values() if b.access is AccessMode.READ}
        self.renewed = renewed
        self.versions: Counter[str] = Counter()
        self.known: dict[Any, Op] = {}
        """Key -> the first op with this key that dominates the current place."""
        self.added: list[Any] = []
        """The keys that ops of the current block have added to `known`."""

    def visit(self, op: Op, out: list[Op]) -> None:
        key: Any
        row, operands, results = op.definition, op.operands, op.results
        if len(operands) == 2 and len(results) == 1 and op.attrs is NO_ATTRS and row.is_pure:
            a, b = operands  # as `_key` does, without its call: most ops are such
            if row.commutative and id(b) < id(a):
                a, b = b, a
            key = row.name, a, b, results[0].type
        elif row.is_pure:
            key = _key(op)
        elif op.name == "load" and (buffer := op.attrs["buffer"]) in self.constant_buffers:
            key = _key(op), self.versions[buffer]
        else:
            out.append(op)
            self.begin_versions(op)
            return
        first = self.known.setdefault(key, op)
        if first is op:
            self.added.append(key)
            out.append(op)
        else:
            self.on_merge(op, first)
            self.replaced.update(zip(op.results, first.results, strict=True))
            self.changes += 1

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        around = self.added
        for block in op.regions:
            self.added = []
            self.walk_block(block)
            for key in self.added:  # they dominate nothing outside of the block
                del self.known[key]
        self.added = around
        out.append(op)
        self.begin_versions(op)

    def begin_versions(self, op: Op) -> None:
        if op in self.renewed:
            self.versions.update(self.renewed[op])


def _key(op: Op) -> Any:
    """A key that is equal for ops with equal results."""
    row, operands = op.definition, op.operands
    if row.commutative and id(operands[1]) < id(operands[0]):  # any fixed order will do
        operands = (operands[1], operands[0])
    results = op.results
    dtype: Any = results[0].type if len(results) == 1 else tuple([r.type for r in results])
    if op.attrs is NO_ATTRS:
        return row.name, operands, dtype
    attrs = tuple([op.attrs.get(a.name) for a in row.attrs])
    return row.name, operands, dtype, attrs, op.attrs.get("fastmath")
