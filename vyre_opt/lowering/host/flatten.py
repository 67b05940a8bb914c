"""A copy of a program without calls and regions: their ops stand in the block around them.

The copy is the lowering's own; the program stays as it is.  Equal programs flatten to
equal copies, so the number of an op in `walk()` names it for good.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.program import Block, Func, Op, Program, Value

__all__ = ["MAX_OPS", "TooLarge", "flatten"]

MAX_OPS = 200_000


class TooLarge(Exception):
    """Calls of calls make a program of more than MAX_OPS ops."""


def flatten(program: Program, funcs: Mapping[str, Func]) -> Program:
    """Raises TooLarge."""
    body = _Flattener(funcs).block(program.body, {})
    return Program(
        program.name, program.workgroup, program.grid, program.buffers, program.specs, body, program.loc
    )


class _Flattener:
    def __init__(self, funcs: Mapping[str, Func]) -> None:
        self.funcs = funcs
        self.size = 0

    def block(self, block: Block, known: dict[Value, Value]) -> Block:
        """A copy of a block with arguments of its own; `known` tells what a value has become."""
        args = tuple(Value(arg.name, arg.type) for arg in block.args)
        known.update(zip(block.args, args, strict=True))
        copy = Block(args)
        self.ops(block, known, copy.ops)
        end = block.terminator
        if end is not None:
            copy.ops.append(self.op(end, known))
        return copy

    def ops(self, block: Block, known: dict[Value, Value], out: list[Op]) -> None:
        """Append copies of a block's ops, but for its terminator."""
        for op in block.ops:
            if op.definition.is_terminator:
                continue
            if op.name == "region":
                self.ops(op.regions[0], known, out)
                self.alias(op, op.regions[0], known, known)
            elif op.name == "call":
                body = self.funcs[op.attrs["callee"]].body
                inner = dict(zip(body.args, (known[v] for v in op.operands), strict=True))
                self.ops(body, inner, out)
                self.alias(op, body, inner, known)
            else:
                out.append(self.op(op, known))

    def alias(self, op: Op, block: Block, inner: dict[Value, Value], known: dict[Value, Value]) -> None:
        """The results of `op` are what its block gives."""
        end = block.terminator
        if end is not None:
            known.update(zip(op.results, [inner[v] for v in end.operands], strict=True))

    def op(self, op: Op, known: dict[Value, Value]) -> Op:
        self.size += 1
        if self.size > MAX_OPS:
            raise TooLarge
        operands = tuple([known[v] for v in op.operands])
        regions = tuple([self.block(inner, known) for inner in op.regions])
        results = tuple([Value(result.name, result.type) for result in op.results])
        known.update(zip(op.results, results, strict=True))
        return Op(op.definition, operands, results, op.attrs, regions, op.loc)
