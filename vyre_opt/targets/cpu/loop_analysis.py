"""Whether a program's workgroups take about equal time, and its runs too, as far as its loops show it."""

from __future__ import annotations

from math import inf

from ...ir.loops import BOUND_NAMES
from ...ir.program import Block, Op, Program, Value

__all__ = ["has_fixed_trip_counts", "has_ticket_loop", "is_bounded", "may_wait"]

MAX_ROUNDS = 1 << 12
"""The rounds that an invocation's loops may have in all, and still be done at once."""

MAX_SOURCES = 64
"""Most values through which a loop's bounds are traced back."""


def has_ticket_loop(program: Program) -> bool:
    """Whether a loop uses the result of an atomic op inside it, such as a ticket.

    Then one workgroup may go on until nothing is left for the others to do.
    """
    return any(map(_uses_own_atomic, program.body.walk()))


def _uses_own_atomic(loop: Op) -> bool:
    if loop.name not in ("for", "while"):
        return False
    ops = [op for block in loop.regions for op in block.walk()]
    used = {operand for op in ops for operand in op.operands}
    return any(op.definition.format == "atomic" and op.result in used for op in ops)


def may_wait(program: Program) -> bool:
    """Whether a workgroup may look at what others have done, and so wait for those before it."""
    used = {operand for op in program.walk() for operand in op.operands}
    return any("atomic" in op.definition.effects and not used.isdisjoint(op.results) for op in program.walk())


def has_fixed_trip_counts(program: Program) -> bool:
    """Whether all loops have the same trip counts in every run on the same grid and lengths.

    They have where no bound depends on the contents of memory; then all runs take about as long.
    """
    ops = list(program.body.walk())
    counters = {op.regions[0].args[0] for op in ops if op.name == "for"}
    return not any(
        op.name in ("while", "call") or (op.name == "for" and _is_data_dependent(op, counters)) for op in ops
    )


def is_bounded(program: Program) -> bool:
    """Whether the text alone shows that an invocation makes few rounds, so that no workgroup runs for long."""
    return _rounds(program.body) <= MAX_ROUNDS


def _rounds(block: Block) -> float:
    """The most rounds that the loops of a block make, infinity if the text does not say."""
    total = 0.0
    for op in block.ops:
        if op.name in ("while", "call"):
            return inf
        inner = sum(map(_rounds, op.regions))
        if op.name == "for":
            known = [op.attrs[name] for name in BOUND_NAMES]
            if None in known:
                return inf
            lower, upper, step = known
            inner = max(0, -(-(upper - lower) // max(1, step))) * (1 + inner)
        total += inner
    return total


def _is_data_dependent(loop: Op, counters: set[Value]) -> bool:
    """Whether the bounds of a `for` may come out of memory; `counters`: of loops, which are asked for themselves."""
    dynamic = sum(loop.attrs[name] is None for name in BOUND_NAMES)
    worklist, seen = list(loop.operands[:dynamic]), set[Value]()
    while worklist:
        value = worklist.pop()
        if value in seen or value in counters:
            continue
        seen.add(value)
        owner = value.owner
        if not isinstance(owner, Op) or owner.regions or owner.definition.effects or len(seen) > MAX_SOURCES:
            return True
        worklist += owner.operands
    return False
