"""What a program's loops say of its time: whether a workgroup stands for the others, and a run for the next."""

from __future__ import annotations

from ...ir.loops import BOUND_NAMES
from ...ir.program import Op, Program, Value

__all__ = ["draws", "is_steady"]

MAX_SOURCES = 64
"""Values that a loop's bounds are followed back through."""


def draws(program: Program) -> bool:
    """Whether a loop uses what an atomic op in it gives, a ticket for instance: then a workgroup may go
    on until nothing is left for the others."""
    return any(map(_draws, program.body.walk()))


def _draws(loop: Op) -> bool:
    if loop.name not in ("for", "while"):
        return False
    inside = [op for block in loop.regions for op in block.walk()]
    used = {operand for op in inside for operand in op.operands}
    return any(op.definition.format == "atomic" and op.result in used for op in inside)


def is_steady(program: Program) -> bool:
    """Whether all loops go round as often in every run on the same grid and lengths: what memory holds
    decides on none, so that runs take about as long as each other."""
    ops = list(program.body.walk())
    return not any(op.name in ("while", "call") or (op.name == "for" and _depends(op)) for op in ops)


def _depends(loop: Op) -> bool:
    """Whether the bounds of a `for` may come out of memory."""
    dynamic = sum(loop.attrs[name] is None for name in BOUND_NAMES)
    waiting, seen = list(loop.operands[:dynamic]), set[Value]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if not isinstance(owner, Op) or owner.regions or owner.definition.effects or len(seen) > MAX_SOURCES:
            return True
        waiting += owner.operands
    return False
