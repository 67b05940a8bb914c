"""Programs with calls and regions inlined.

Equal programs flatten to equal copies, so an op's number in `walk()` identifies it, in fault records
of cached code too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...ir.call_graph import check_inlined_ops
from ...ir.program import Block, Func, Op, Program, Value

__all__ = ["flatten"]


def flatten(program: Program, funcs: Mapping[str, Func]) -> Program:
    """The program, or a flat copy of it.  Raises DiagnosticError if it gets too large."""
    if not any(op.name in ("call", "region") for op in program.walk()):
        return program
    check_inlined_ops([program], funcs)
    return replace(program, body=_Flattener(funcs).block(program.body, {}))


class _Flattener:
    def __init__(self, funcs: Mapping[str, Func]) -> None:
        self.funcs = funcs

    def block(self, block: Block, replacements: dict[Value, Value]) -> Block:
        """A copy of a block, with arguments of its own; `replacements` maps old values to new ones."""
        args = tuple(Value(arg.name, arg.type) for arg in block.args)
        replacements.update(zip(block.args, args, strict=True))
        copy = Block(args)
        self.ops(block, replacements, copy.ops)
        end = block.terminator
        if end is not None:
            copy.ops.append(self.op(end, replacements))
        return copy

    def ops(self, block: Block, replacements: dict[Value, Value], out: list[Op]) -> None:
        """Append copies of a block's ops, without its terminator."""
        for op in block.ops:
            if op.definition.is_terminator:
                continue
            if op.name == "region":
                self.ops(op.regions[0], replacements, out)
                self.bind_results(op, op.regions[0], replacements, replacements)
            elif op.name == "call":
                body = self.funcs[op.attrs["callee"]].body
                inner = dict(zip(body.args, (replacements[v] for v in op.operands), strict=True))
                self.ops(body, inner, out)
                self.bind_results(op, body, inner, replacements)
            else:
                out.append(self.op(op, replacements))

    def bind_results(
        self, op: Op, block: Block, inner: dict[Value, Value], replacements: dict[Value, Value]
    ) -> None:
        """Replace the results of an inlined op by the operands of its block's terminator."""
        end = block.terminator
        if end is not None:
            replacements.update(zip(op.results, [inner[v] for v in end.operands], strict=True))

    def op(self, op: Op, replacements: dict[Value, Value]) -> Op:
        # tuple of a list: quicker than of a generator, and this runs for each op
        operands = tuple([replacements[v] for v in op.operands])
        regions = tuple([self.block(inner, replacements) for inner in op.regions])
        results = tuple([Value(result.name, result.type) for result in op.results])
        replacements.update(zip(op.results, results, strict=True))
        return Op(op.definition, operands, results, op.attrs, regions, op.loc)
