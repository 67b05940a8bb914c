"""Canonical forms: folding, the algebra of identities, and control flow on constants.

One forward walk: the operands of an op are canonical before the op is visited, so
each op is rewritten until no rule applies and never visited again.
"""

from __future__ import annotations

from ..ir.folding import chosen_arm, fold
from ..ir.identities import RULES, Site
from ..ir.loops import Bound, bounds, with_bounds
from ..ir.program import Block, Func, Module, Op, Program, Value
from ..ir.rewrite import become, constant_value, splittable
from ..ir.walker import Walker
from .manager import PassContext
from .registry import Pass, register


@register
class Canonicalize(Pass):
    name = "canonicalize"
    summary = "Fold constants and rewrite ops to simpler equal ones."
    per_item = True

    def run(self, module: Module, ctx: PassContext) -> bool:
        changes = 0
        for item in ctx.items(module):
            canonicalizer = _Canonicalizer(item, ctx)
            canonicalizer.walk_block(item.body)
            changes += canonicalizer.changes
        ctx.count("ops rewritten", changes)
        return changes > 0


class _Canonicalizer(Walker):
    def __init__(self, item: Program | Func, ctx: PassContext) -> None:
        super().__init__()
        self.item = item
        self.ctx = ctx
        self.site = Site()
        self.site.program = item if isinstance(item, Program) else None

    def visit(self, op: Op, out: list[Op]) -> None:
        if op.definition.is_pure:
            self.site.out = out
            value = self.simplify(op)
            if value is not None:
                self.replaced[op.result] = value
                return
        elif op.name == "assert" and constant_value(op.operands[0]):
            self.changes += 1  # assert true = nothing
            return
        out.append(op)

    def simplify(self, op: Op) -> Value | None:
        """Rewrite `op` in place until no rule applies; the value that it is equal to, if one is known."""
        while op.definition.format != "const":
            constant = fold(op, self.item)
            if constant is not None:
                self.ctx.debug("folds: {}", op, loc=op.loc)
                become(op, "const", (), {"value": constant})
                self.changes += 1
                return None
            result = self.apply_rule(op)
            if result is None:
                return None
            self.changes += 1
            if isinstance(result, Value):
                return result
        return None

    def apply_rule(self, op: Op) -> Value | bool | None:
        """Apply the first rule that matches: returns a value equal to `op`, True if `op` was rewritten, else None."""
        if op.definition.format == "select" and (arm := chosen_arm(op)) is not None:
            return arm
        name = op.name
        for rule in RULES.get(name, ()):
            if (result := rule(op, self.site)) is not None:
                becomes = result if isinstance(result, Value) else op
                self.ctx.debug(
                    "{} matches this {}: now {}", rule.__name__.lstrip("_"), name, becomes, loc=op.loc
                )
                return result
        return None

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        if op.name == "if":
            condition = constant_value(op.operands[0])
            if condition is not None:
                otherwise = op.regions[1] if len(op.regions) > 1 else Block()
                self.splice(op, op.regions[0] if condition else otherwise, out)
                return
            self.remove_negation(op)
        elif op.name == "for":
            self.make_bounds_literal(op)
        for block in op.regions:
            self.walk_block(block)
        out.append(op)

    def splice(self, op: Op, side: Block, out: list[Op]) -> None:
        """if true { a } else { b } = a."""
        ops, yielded = splittable(side)
        self.walk_ops(ops, out)
        self.replace(op.results, yielded)
        self.changes += 1

    def remove_negation(self, op: Op) -> None:
        """if not p { a } else { b } = if p { b } else { a }."""
        owner = op.operands[0].owner
        if isinstance(owner, Op) and owner.name == "not" and len(op.regions) == 2:
            op.operands = owner.operands
            op.regions = op.regions[::-1]
            self.changes += 1

    def make_bounds_literal(self, loop: Op) -> None:
        """Write bounds that are constants as literals, except a step below 1: that is an error when it runs."""
        lower, upper, step = map(_literal, bounds(loop))
        if isinstance(step, int) and step < 1:
            step = bounds(loop)[2]
        if (lower, upper, step) != bounds(loop):
            with_bounds(loop, lower, upper, step)
            self.changes += 1


def _literal(bound: Bound) -> Bound:
    constant = bound if isinstance(bound, int) else constant_value(bound)
    return bound if constant is None else constant
