"""Quotients by one number become products with its reciprocal, where the program allows it by `arcp`.

    %a = div %x, %s fastmath<arcp>          %r = rcp %s fastmath<arcp>           behind %s
    %b = div %y, %s fastmath<arcp>          %a = mul %x, %r fastmath<arcp>
                                            %b = mul %y, %r fastmath<arcp>

A quotient takes 4 to 16 times as long as a product.  So one reciprocal is worth it for two quotients, and for one in a loop that does
not compute the divisor.  Quotients of f16 and bf16 stay: their reciprocal would be rounded to as few bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir.ops import FASTMATH, OPS
from ...ir.program import Block, Op, Program, Unnamed, Value
from ...ir.rewrite import become, clone

__all__ = ["with_reciprocals"]

LEAST_BITS = 32
"""The fewest bits of a number whose reciprocal is used."""


def with_reciprocals(program: Program) -> Program:
    """The program, or a copy of it with fewer quotients."""
    if not _shared_divisors(program):
        return program
    copy = replace(program, body=Block(program.body.args, clone(program.body.ops, {})))
    reciprocals: dict[Value, Op] = {}
    for divisor, quotients in _shared_divisors(copy).items():
        common = set.intersection(*(set(op.attrs["fastmath"]) for op in quotients))
        flags = {"fastmath": tuple(flag for flag in FASTMATH if flag in common)}
        result = Value(Unnamed(f"{divisor.name}_reciprocal"), divisor.type)
        reciprocals[divisor] = Op(OPS["rcp"], (divisor,), (result,), flags, loc=quotients[0].loc)
        for quotient in quotients:
            become(quotient, "mul", (quotient.operands[0], result), quotient.attrs)
    for block, _ in _blocks(copy):
        block.ops = [
            each
            for op in (None, *block.ops)
            for each in (op, *map(reciprocals.get, block.args if op is None else op.results))
            if each is not None
        ]
    return copy


def _shared_divisors(program: Program) -> dict[Value, list[Op]]:
    """Divisors whose reciprocals pay, with their quotients."""
    depths: dict[Value, int] = {}
    quotients: dict[Value, list[tuple[Op, int]]] = {}
    for block, depth in _blocks(program):
        depths |= dict.fromkeys(block.args, depth)
        for op in block.ops:
            depths |= dict.fromkeys(op.results, depth)
            if op.name == "div" and "arcp" in op.attrs.get("fastmath", ()):
                quotients.setdefault(op.operands[1], []).append((op, depth))
    return {
        divisor: [op for op, _ in uses]
        for divisor, uses in quotients.items()
        if (divisor.type.element.bits or 0) >= LEAST_BITS
        if len(uses) > 1 or uses[0][1] > depths[divisor]
    }


def _blocks(program: Program) -> Iterator[tuple[Block, int]]:
    """The blocks of a program, each with the number of loops around it."""
    pending = [(program.body, 0)]
    while pending:
        block, depth = pending.pop()
        yield block, depth
        pending += [
            (region, depth + (op.name in ("for", "while"))) for op in block.ops for region in op.regions
        ]
