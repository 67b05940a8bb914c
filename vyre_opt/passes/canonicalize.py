"""Canonical forms: folding, the algebra of identities, and control flow on constants.

One forward walk: when an op is looked at, its operands are canonical already, so
each op is rewritten until no rule applies and never looked at again.
"""

from __future__ import annotations

from ..ir.folding import chosen_arm, fold
from ..ir.identities import RULES, Site
from ..ir.loops import Bound, bounds, with_bounds
from ..ir.program import Block, Func, Module, Op, Program, Value
from ..ir.rewrite import become, constant_value, splittable, substitute
from .manager import Context
from .registry import Pass, register


@register
class Canonicalize(Pass):
    name = "canonicalize"
    summary = "Fold constants and rewrite ops to simpler equal ones."

    def run(self, module: Module, ctx: Context) -> bool:
        changes = 0
        for item in module.order:
            if isinstance(item, Program | Func):
                walk = _Walk(item)
                walk.block(item.body)
                changes += walk.changes
        ctx.count("ops rewritten", changes)
        return changes > 0


class _Walk:
    def __init__(self, item: Program | Func) -> None:
        self.item = item
        self.site = Site()
        self.site.program = item if isinstance(item, Program) else None
        self.replaced: dict[Value, Value] = {}
        self.changes = 0

    def block(self, block: Block) -> None:
        out: list[Op] = []
        self.ops(block.ops, out)
        block.ops = out

    def ops(self, ops: list[Op], out: list[Op]) -> None:
        for op in ops:
            if self.replaced:
                substitute(op, self.replaced)
            if op.regions:
                self.structured(op, out)
                continue
            if op.definition.is_pure:
                self.site.out = out
                value = self.simplified(op)
                if value is not None:
                    self.replaced[op.result] = value
                    continue
            out.append(op)

    def simplified(self, op: Op) -> Value | None:
        """Rewrite `op` in place until nothing applies; the value that it turns out to be, if any."""
        while op.definition.format != "const":
            value = fold(op, self.item)
            if value is not None:
                become(op, "const", (), {"value": value})
                self.changes += 1
                return None
            found = self.first_match(op)
            if found is None:
                return None
            self.changes += 1
            if isinstance(found, Value):
                return found
        return None

    def first_match(self, op: Op) -> Value | bool | None:
        if op.definition.format == "select" and (arm := chosen_arm(op)) is not None:
            return arm
        for rule in RULES.get(op.name, ()):
            if (found := rule(op, self.site)) is not None:
                return found
        return None

    def structured(self, op: Op, out: list[Op]) -> None:
        if op.name == "if":
            taken = constant_value(op.operands[0])
            if taken is not None:
                self.splice(
                    op, op.regions[0] if taken else op.regions[1] if len(op.regions) > 1 else Block(), out
                )
                return
            self.uninverted(op)
        elif op.name == "for":
            self.literal_bounds(op)
        for block in op.regions:
            self.block(block)
        out.append(op)

    def splice(self, op: Op, side: Block, out: list[Op]) -> None:
        """if true { a } else { b } = a."""
        ops, given = splittable(side)
        self.ops(ops, out)
        self.replaced.update(zip(op.results, [self.replaced.get(v, v) for v in given], strict=True))
        self.changes += 1

    def uninverted(self, op: Op) -> None:
        """if not p { a } else { b } = if p { b } else { a }."""
        owner = op.operands[0].owner
        if isinstance(owner, Op) and owner.name == "not" and len(op.regions) == 2:
            op.operands = owner.operands
            op.regions = op.regions[::-1]
            self.changes += 1

    def literal_bounds(self, loop: Op) -> None:
        """A bound that is a constant is written as one, but a step below 1, which is an error of the run."""
        lower, upper, step = map(_literal, bounds(loop))
        if isinstance(step, int) and step < 1:
            step = bounds(loop)[2]
        if (lower, upper, step) != bounds(loop):
            with_bounds(loop, lower, upper, step)
            self.changes += 1


def _literal(bound: Bound) -> Bound:
    known = bound if isinstance(bound, int) else constant_value(bound)
    return bound if known is None else known
