"""Random edits of a module: an op less, two that change places, another operand, constant, buffer or relation."""

from __future__ import annotations

import random

from vyre_opt.ir.ops import OPS
from vyre_opt.ir.program import Module, Op, Program

__all__ = ["edit"]

ALIKE = (("add", "sub", "mul", "min", "max"), ("lt", "le", "gt", "ge", "eq", "ne"))


def edit(module: Module, rng: random.Random) -> str:
    """Change one op of a program in place.  Says what, "" for nothing; the result need not verify."""
    program = rng.choice(list(module.programs.values()))
    blocks = [program.body, *(block for op in program.walk() for block in op.regions)]
    block = rng.choice([block for block in blocks if block.ops] or [program.body])
    at = rng.randrange(len(block.ops))
    op = block.ops[at]
    ways = [_another_operand, _another_buffer, _another_constant, _another_op]
    kind = rng.randrange(len(ways) + 2)
    if kind < len(ways):
        return ways[kind](program, op, rng)
    if kind == len(ways) and not op.results and not op.definition.is_terminator:
        del block.ops[at]
        return f"no {op.name}"
    if at + 1 < len(block.ops) and not block.ops[at + 1].definition.is_terminator:
        block.ops[at : at + 2] = reversed(block.ops[at : at + 2])
        return f"{op.name} one later"
    return ""


def _another_operand(program: Program, op: Op, rng: random.Random) -> str:
    earlier = [value for other in program.body.ops if other is not op for value in other.results]
    place = rng.randrange(len(op.operands)) if op.operands else 0
    fitting = [value for value in earlier if op.operands and value.type is op.operands[place].type]
    if not fitting:
        return ""
    op.operands = (*op.operands[:place], rng.choice(fitting), *op.operands[place + 1 :])
    return f"another operand of {op.name}"


def _another_buffer(program: Program, op: Op, rng: random.Random) -> str:
    own = program.buffers.get(op.attrs.get("buffer", ""))
    others = [
        b for b in program.buffers.values() if own is not None and b is not own and b.dtype is own.dtype
    ]
    if not others:
        return ""
    op.attrs = {**op.attrs, "buffer": rng.choice(others).name}
    return f"another buffer of {op.name}"


def _another_constant(program: Program, op: Op, rng: random.Random) -> str:
    value = op.attrs.get("value")
    if op.name != "const" or type(value) is not int:
        return ""
    op.attrs = {**op.attrs, "value": max(0, value + rng.choice((1, -1, 2, 64)))}
    return "another constant"


def _another_op(program: Program, op: Op, rng: random.Random) -> str:
    names = next((names for names in ALIKE if op.name in names), ())
    if not names:
        return ""
    was, op.definition = op.name, OPS[rng.choice([name for name in names if name != op.name])]
    return f"{op.name} for {was}"
