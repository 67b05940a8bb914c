"""Atomics of one invocation on one element: their values are combined first, and one atomic remains.

    atomic_add @x[%i], %a                      %c = add %a, %b
    atomic_add @x[%i], %b              -->     atomic_add @x[%i], %c

For atomics that may be regrouped (see analysis/regrouping.py), with unused results.  Coarsening leaves such atomics.
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
    """Rewrite a program in place; return the number of atomics removed."""
    atomics = regrouped_atomics(program)
    blocks = [program.body, *(block for op in program.walk() for block in op.regions)]
    return sum(_combine(block, atomics) for block in blocks)


def _combine(block: Block, atomics: Collection[Op]) -> int:
    out: list[Op] = []
    pending: dict[tuple[Hashable, ...], Op] = {}
    merged_ops: set[Op] = set()
    for op in block.ops:
        if op in atomics:
            key = op.name, op.attrs["buffer"], repr(sorted(op.attrs.items())), *map(_index, op.indices)
            for key_of_other in [k for k in pending if k[1] == op.attrs["buffer"] and k[0] != op.name]:
                del pending[key_of_other]  # atomics of another kind may be on the same element
            earlier = pending.get(key)
            if earlier is not None:
                merged_ops.add(earlier)
                op = _merge(earlier, op, out)
            pending[key] = op
        elif op.regions or not op.definition.is_pure:
            _flush(op, pending)
        out.append(op)
    block.ops = [op for op in out if op not in merged_ops]
    return len(merged_ops)


def _merge(earlier: Op, op: Op, out: list[Op]) -> Op:
    """Return one atomic for two, at the place of the second; the op that combines their values goes to `out`."""
    first, second = earlier.operands[-1], op.operands[-1]
    total = Value(second.name, second.type)
    out.append(Op(OPS[op.name.removeprefix("atomic_")], (first, second), (total,), loc=op.loc))
    return Op(op.definition, (*op.indices, total), op.results, op.attrs, (), op.loc)


def _flush(op: Op, pending: dict[tuple[Hashable, ...], Op]) -> None:
    """Drop pending atomics that an op may observe: it touches their buffers, orders accesses, or ends the program."""
    effects = effects_of(op)
    accessed = effects.reads | effects.writes
    if op.regions or effects.orders or effects.waits or effects.stops or effects.prints:
        pending.clear()
    for key in [key for key in pending if key[1] in accessed]:
        del pending[key]


def _index(value: Value) -> Hashable:
    constant = constant_value(value)
    return value if constant is None else (constant, value.type)
