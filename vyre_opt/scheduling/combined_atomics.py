"""Atomics of one invocation on one element: their values are combined first, and one atomic is left.

    atomic_add @x[%i], %a                      %c = add %a, %b
    atomic_add @x[%i], %b              -->     atomic_add @x[%i], %c

For atomics that may be regrouped (see analysis/regrouping.py) and whose old values nobody takes.  Neighbours that became one
invocation leave such behind.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from ..analysis.effects import effects_of
from ..analysis.regrouping import regrouped_atomics
from ..ir.ops import OPS
from ..ir.program import Block, Op, Program, Value
from ..ir.rewrite import constant_value

__all__ = ["combine_atomics"]


def combine_atomics(program: Program) -> int:
    """Rewrite a program in place; how many atomics are gone."""
    atomics = regrouped_atomics(program)
    blocks = [program.body, *(block for op in program.walk() for block in op.regions)]
    return sum(_combine(block, atomics) for block in blocks)


def _combine(block: Block, atomics: Collection[Op]) -> int:
    out: list[Op] = []
    pending: dict[tuple[Hashable, ...], Op] = {}
    gone: set[Op] = set()
    for op in block.ops:
        if op in atomics:
            key = op.name, op.attrs["buffer"], repr(sorted(op.attrs.items())), *map(_index, op.indices)
            for other in [k for k in pending if k[1] == op.attrs["buffer"] and k[0] != op.name]:
                del pending[other]  # of another op, perhaps on the same element
            before = pending.get(key)
            if before is not None:
                gone.add(before)
                op = _merged(before, op, out)
            pending[key] = op
        elif op.regions or not op.definition.is_pure:
            _forget(op, pending)
        out.append(op)
    block.ops = [op for op in out if op not in gone]
    return len(gone)


def _merged(before: Op, op: Op, out: list[Op]) -> Op:
    """An atomic for two, and what it adds, at the place of the second."""
    first, second = before.operands[-1], op.operands[-1]
    total = Value(second.name, second.type)
    out.append(Op(OPS[op.name.removeprefix("atomic_")], (first, second), (total,), loc=op.loc))
    return Op(op.definition, (*op.indices, total), op.results, op.attrs, (), op.loc)


def _forget(op: Op, pending: dict[tuple[Hashable, ...], Op]) -> None:
    """An op may touch elements, or end the program, before which atomics stand."""
    effects = effects_of(op)
    touched = effects.reads | effects.writes
    if op.regions or effects.orders or effects.waits or effects.stops or effects.prints:
        pending.clear()
    for key in [key for key in pending if key[1] in touched]:
        del pending[key]


def _index(value: Value) -> Hashable:
    known = constant_value(value)
    return value if known is None else (known, value.type)
