"""The walk that rewriting passes share: forward through a body, each block rebuilt.

    class _Doubler(Walker):
        def visit(self, op, out):
            if op.name == "mul" and constant_value(op.operands[1]) == 2:
                op = Op(OPS["add"], (op.operands[0],) * 2, op.results)
                self.changes += 1
            out.append(op)

A value that goes is entered in `replaced`; later ops have their operands replaced before they are
visited.  There are no use lists, so this one table is what keeps a rewrite linear.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.program import Block, Op, Value

__all__ = ["Walker"]


class Walker:
    """Base of a rewrite; a subclass overrides `visit` and `visit_structured`.

    A level of nesting costs three calls, and blocks nest up to MAX_NESTING deep: a subclass that
    puts another call in between comes near to Python's recursion limit.
    """

    def __init__(self) -> None:
        self.replaced: dict[Value, Value] = {}
        """Values that are gone, each with the value that stands for it from here on."""
        self.changes = 0
        """The number of rewrites, counted by the subclass."""

    def walk_block(self, block: Block) -> None:
        """Visit the ops of `block`, which then holds what the visits appended."""
        out: list[Op] = []
        self.walk_ops(block.ops, out)
        block.ops = out

    def walk_ops(self, ops: Iterable[Op], out: list[Op]) -> None:
        """Visit `ops` in order, as part of the block that `out` becomes."""
        replaced = self.replaced
        visit = None if type(self).visit is Walker.visit else self.visit  # a call saved for most ops
        for op in ops:
            # `substitute`, written out: this runs for every op in every pass
            if replaced and not replaced.keys().isdisjoint(op.operands):
                op.operands = tuple([replaced.get(v, v) for v in op.operands])
            if op.regions:
                self.visit_structured(op, out)
            elif visit is not None:
                visit(op, out)
            else:
                out.append(op)

    def visit(self, op: Op, out: list[Op]) -> None:
        """Append to `out` what an op without regions becomes."""
        out.append(op)

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        """Append to `out` what an op with regions becomes, and walk the regions that stay."""
        for block in op.regions:
            self.walk_block(block)
        out.append(op)

    def replace(self, results: Iterable[Value], values: Iterable[Value]) -> None:
        """Replace `results` by `values` from here on; values that were replaced themselves are resolved."""
        replaced = self.replaced
        replaced.update(zip(results, [replaced.get(v, v) for v in values], strict=True))
