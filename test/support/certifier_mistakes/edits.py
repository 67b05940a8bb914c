"""Random edits of a module: an op less, two that change places, another operand, constant, bound, buffer or relation, and
blocks of a branch that change places."""

from __future__ import annotations

import random

from vyre_opt.ir import OPS, Block, Module, Op, Program, Value
from vyre_opt.ir.loops import BOUND_NAMES

__all__ = ["edit"]

ALIKE = (("add", "sub", "mul", "min", "max"), ("lt", "le", "gt", "ge", "eq", "ne"))


def edit(module: Module, rng: random.Random) -> str:
    """Change one op of a program in place.  Says what, "" for nothing; the result need not verify."""
    program = rng.choice(list(module.programs.values()))
    blocks = [program.body, *(block for op in program.walk() for block in op.regions)]
    block = rng.choice([block for block in blocks if block.ops] or [program.body])
    at = rng.randrange(len(block.ops))
    op = block.ops[at]
    ways = [
        _another_operand,
        _another_buffer,
        _another_constant,
        _another_op,
        _another_visible_operand,
        _another_bound,
        _blocks_swapped,
    ]
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


def _another_visible_operand(program: Program, op: Op, rng: random.Random) -> str:
    """Of the blocks around it as well."""
    visible = _visible(program.body, op, []) or []
    place = rng.randrange(len(op.operands)) if op.operands else 0
    fitting = [v for v in visible if op.operands and v.type is op.operands[place].type]
    if not fitting:
        return ""
    op.operands = (*op.operands[:place], rng.choice(fitting), *op.operands[place + 1 :])
    return f"another operand of {op.name} from around"


def _visible(block: Block, wanted: Op, values: list[Value]) -> list[Value] | None:
    """The values that an op may have as operands; None if it is not in the block."""
    values = [*values, *block.args]
    for op in block.ops:
        if op is wanted:
            return values
        for inner in op.regions:
            found = _visible(inner, wanted, values)
            if found is not None:
                return found
        values += op.results
    return None


def _another_bound(program: Program, op: Op, rng: random.Random) -> str:
    """Of a random loop, since most ops are none."""
    loops = [each for each in program.walk() if each.name == "for"]
    if not loops:
        return ""
    loop, name = rng.choice(loops), rng.choice(BOUND_NAMES)
    bound = loop.attrs[name]
    if bound is None:
        return ""
    changed = max(name == "step", rng.choice((bound + 1, bound - 1, 2 * bound, bound // 2)))
    loop.attrs = {**loop.attrs, name: changed}
    return f"{name} {changed} for {bound}"


def _blocks_swapped(program: Program, op: Op, rng: random.Random) -> str:
    branches = [each for each in program.walk() if each.name == "if" and len(each.regions) == 2]
    if not branches:
        return ""
    branch = rng.choice(branches)
    branch.regions = branch.regions[::-1]
    return "blocks of an if change places"


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
