"""Inlining: a call becomes the body of its function, with fresh values.

Functions are taken callees first, so a body is flat before it is copied.  What a
program may grow to is bounded, since calls of calls can double it at every step.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.program import MAX_NESTING, Block, Func, Module, Op, Program, Value
from ..ir.rewrite import clone, every_op, splittable, substitute
from .manager import Context
from .registry import Pass, register


@dataclass(frozen=True)
class InlineOptions:
    """`max_ops`: ops that a program may hold after.  `keep`: leave functions that lost their last call."""

    max_ops: int = 100_000
    keep: bool = False


@register
class Inline(Pass):
    name = "inline"
    summary = "Replace calls by the bodies of their functions."
    Options = InlineOptions

    def run(self, module: Module, ctx: Context) -> bool:
        inliner = _Inliner(module, ctx, self.options)
        for func in _callees_first(module):
            inliner.item(func)
        for program in module.programs.values():
            inliner.item(program)
        removed = [] if self.options.keep else _uncalled(module, inliner.inlined)
        for func in removed:
            module.remove(func)
        ctx.count("calls inlined", inliner.calls)
        ctx.count("functions removed", len(removed))
        return inliner.calls > 0


class _Inliner:
    def __init__(self, module: Module, ctx: Context, options: InlineOptions) -> None:
        self.funcs = module.funcs
        self.ctx = ctx
        self.options = options
        self.sizes: dict[str, int] = {}
        """Ops of each function that is done."""
        self.heights: dict[str, int] = {}
        self.inlined: set[str] = set()
        self.calls = 0
        self.size = 0
        self.height = 0
        self.replaced: dict[Value, Value] = {}

    def item(self, item: Program | Func) -> None:
        self.size = sum(1 for _ in every_op(item.body))
        self.height = 0
        self.replaced = {}
        self.block(item.body, 1)
        if isinstance(item, Func):
            self.sizes[item.name] = self.size
            self.heights[item.name] = self.height

    def block(self, block: Block, depth: int) -> None:
        """Inline the calls in `block`, which lies in `depth` - 1 other blocks."""
        self.height = max(self.height, depth)
        kept: list[Op] = []
        for op in block.ops:
            if self.replaced:
                substitute(op, self.replaced)
            if op.name == "call" and self.may_inline(op, depth):
                self.splice(op, kept)
                continue
            for inner in op.regions:
                self.block(inner, depth + 1)
            kept.append(op)
        block.ops = kept

    def may_inline(self, op: Op, depth: int) -> bool:
        callee = op.attrs["callee"]
        size, height = self.sizes[callee], self.heights[callee] + depth - 1
        problem = None
        if self.size + size > self.options.max_ops:
            problem = f"{self.size} ops with {size} more pass max_ops={self.options.max_ops}"
        elif height > MAX_NESTING:
            problem = f"blocks would nest {height} deep, more than {MAX_NESTING}"
        if problem is not None:
            self.ctx.remark("refused", f"@{callee} is not inlined here: {problem}", op.loc, callee=callee)
            return False
        self.size += size
        self.height = max(self.height, height)
        self.ctx.remark("applied", f"@{callee} is inlined here, {size} ops", op.loc, callee=callee, ops=size)
        return True

    def splice(self, op: Op, out: list[Op]) -> None:
        func = self.funcs[op.attrs["callee"]]
        mapping = dict(zip(func.params, op.operands, strict=True))
        ops, given = splittable(func.body)
        out += clone(ops, mapping)
        self.replaced.update(zip(op.results, [mapping.get(v, v) for v in given], strict=True))
        self.inlined.add(func.name)
        self.calls += 1


def _callees_first(module: Module) -> list[Func]:
    """The functions, each after those that it calls; the verifier has excluded recursion."""
    callees = {
        func.name: [op.attrs["callee"] for op in every_op(func.body) if op.name == "call"]
        for func in module.funcs.values()
    }
    order: dict[str, Func] = {}
    for root in callees:
        stack = [(root, iter(callees[root]))]
        while stack:
            name, rest = stack[-1]
            callee = next((c for c in rest if c not in order), None)
            if callee is not None:
                stack.append((callee, iter(callees[callee])))
                continue
            order.setdefault(name, module.funcs[name])
            stack.pop()
    return list(order.values())


def _uncalled(module: Module, inlined: set[str]) -> list[Func]:
    """The functions that were inlined, and that no program or other function calls any more."""
    needed: set[str] = set()
    roots = [func for func in module.funcs.values() if func.name not in inlined]
    reached: list[Program | Func] = [*module.programs.values(), *roots]
    while reached:
        for op in every_op(reached.pop().body):
            if op.name == "call" and op.attrs["callee"] not in needed:
                needed.add(op.attrs["callee"])
                reached.append(module.funcs[op.attrs["callee"]])
    return [func for func in module.funcs.values() if func.name in inlined and func.name not in needed]
