"""Inlining: a call becomes the body of its function, with fresh values.

Callees are inlined into first, so a body is flat before it is copied.  Chains of calls can double a program at every step,
so a program that would grow too large is an error before anything is copied (see ir/call_graph.py).
"""

from __future__ import annotations

from ..ir.call_graph import call_order, check_inlined_ops
from ..ir.program import MAX_NESTING, Func, Module, Op, Program
from ..ir.rewrite import clone, splittable
from ..records import dataclass
from ..rewriting.walker import Walker
from .manager import PassContext
from .registry import Pass, register


@dataclass(frozen=True)
class InlineOptions:
    """`keep`: leave functions that lost their last call."""

    keep: bool = False


@register
class Inline(Pass):
    name = "inline"
    summary = "Replace calls by the bodies of their functions."
    Options = InlineOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        check_inlined_ops([*module.programs.values(), *module.funcs.values()], module.funcs)
        inliner = _Inliner(module, ctx)
        for func in call_order(module.funcs)[0]:
            inliner.inline_into(func)
        for program in module.programs.values():
            inliner.inline_into(program)
        dead = [] if self.options.keep else _dead_funcs(module, inliner.inlined_funcs)
        for func in dead:
            module.remove(func)
        ctx.count("calls inlined", inliner.changes)
        ctx.count("functions removed", len(dead))
        return inliner.changes > 0


class _Inliner(Walker):
    def __init__(self, module: Module, ctx: PassContext) -> None:
        super().__init__()
        self.funcs = module.funcs
        self.ctx = ctx
        self.sizes: dict[str, int] = {}
        """Function whose own calls have been inlined -> its number of ops."""
        self.heights: dict[str, int] = {}
        """Function whose own calls have been inlined -> the nesting depth of its blocks."""
        self.inlined_funcs: set[str] = set()
        self.height = 0
        self.depth = 1
        """The number of blocks around the op that is visited."""

    def inline_into(self, item: Program | Func) -> None:
        self.ctx.item = item.name
        self.height = 1
        self.replaced = {}
        self.walk_block(item.body)
        if isinstance(item, Func):
            self.sizes[item.name] = sum(1 for _ in item.walk())
            self.heights[item.name] = self.height

    def visit(self, op: Op, out: list[Op]) -> None:
        if op.name == "call" and self.may_inline(op):
            self.splice(op, out)
        else:
            out.append(op)

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        self.depth += 1
        self.height = max(self.height, self.depth)
        for block in op.regions:
            self.walk_block(block)
        self.depth -= 1
        out.append(op)

    def may_inline(self, op: Op) -> bool:
        callee = op.attrs["callee"]
        size, height = self.sizes[callee], self.heights[callee] + self.depth - 1
        if height > MAX_NESTING:
            problem = f"blocks would nest {height} deep, more than {MAX_NESTING}"
            self.ctx.remark("refused", f"@{callee} is not inlined here: {problem}", op.loc, callee=callee)
            return False
        self.height = max(self.height, height)
        self.ctx.remark("applied", f"@{callee} is inlined here, {size} ops", op.loc, callee=callee, ops=size)
        return True

    def splice(self, op: Op, out: list[Op]) -> None:
        func = self.funcs[op.attrs["callee"]]
        mapping = dict(zip(func.params, op.operands, strict=True))
        ops, return_values = splittable(func.body)
        out += clone(ops, mapping)
        self.replaced.update(zip(op.results, [mapping.get(v, v) for v in return_values], strict=True))
        self.inlined_funcs.add(func.name)
        self.changes += 1


def _dead_funcs(module: Module, inlined: set[str]) -> list[Func]:
    """Functions that were inlined and that no program or other function calls any more."""
    callees: set[str] = set()
    roots = [func for func in module.funcs.values() if func.name not in inlined]
    worklist: list[Program | Func] = [*module.programs.values(), *roots]
    while worklist:
        for op in worklist.pop().walk():
            if op.name == "call" and op.attrs["callee"] not in callees:
                callees.add(op.attrs["callee"])
                worklist.append(module.funcs[op.attrs["callee"]])
    return [func for func in module.funcs.values() if func.name in inlined and func.name not in callees]
