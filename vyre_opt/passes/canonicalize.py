"""Canonical forms: folding, the algebra of identities, and control flow on constants.

The identities are patterns, which the driver of all patterns applies; here is what becomes of ops with blocks.
"""

from __future__ import annotations

from ..ir.loops import Bound, bounds, with_bounds
from ..ir.program import Block, Module, Op
from ..ir.rewrite import constant_value, splittable
from ..rewriting.constant_folding import chosen_arm
from ..rewriting.driver import GreedyDriver
from ..rewriting.identities import RULES
from ..rewriting.pattern import PatternSet, Replacement, pattern_on
from ..rewriting.rewriter import Rewriter
from .manager import PassContext
from .registry import Pass, register


@pattern_on("select")
def _chosen_arm(op: Op, rewriter: Rewriter) -> Replacement:
    """select true, x, y = x; select false, x, y = y."""
    return chosen_arm(op)


@pattern_on("assert")
def _assert_true(op: Op, rewriter: Rewriter) -> Replacement:
    """assert true = nothing."""
    return () if constant_value(op.operands[0]) else None


PATTERNS = PatternSet([_chosen_arm, _assert_true, *RULES])


@register
class Canonicalize(Pass):
    name = "canonicalize"
    summary = "Fold constants and rewrite ops to simpler equal ones."
    per_item = True

    def run(self, module: Module, ctx: PassContext) -> bool:
        changes = 0
        debug = ctx.debug if ctx.is_debugging else None
        for item in ctx.items(module):
            canonicalizer = _Canonicalizer(item, PATTERNS, fold=True, module=module, debug=debug)
            canonicalizer.walk_block(item.body)
            changes += canonicalizer.changes
        ctx.count("ops rewritten", changes)
        return changes > 0


class _Canonicalizer(GreedyDriver):
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
