"""Atomics of all lanes of a subgroup on one element: the lanes are combined, and one of them does a single atomic.

    %mask = activemask                     all lanes are here, together
    if %mask == all lanes {
      %total = %v of all lanes combined
      if lane 0 { atomic_add @x[%i], %total }
    } else {
      atomic_add @x[%i], %v
    }
    those of %mask wait for each other

For atomics that may be regrouped (see analysis/regrouping.py) and whose old values nobody takes.  ptxas does so by itself with
integers of 32 bits, on whichever lanes are there (seen in the code that ptxas 13.0 makes for sm_90), so these are left to it.

Which lanes are together is the hardware's choice, so nothing but the speed depends on it.  All that read a full mask go on
to the shuffles, which name all lanes and so bring them together again.  Lanes that are together at one instruction may be in
different rounds of a loop around it, though, so the index must be the same in all rounds, too: it comes from outside of all
loops around the atomic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...analysis.regrouping import regrouped_atomics
from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Block, Op, Program, Value
from ...ir.uniformity import Level, Uniformity
from .function_emitter import FunctionEmitter
from .memory import guarded
from .subgroup_ops import WHOLE, ShuffleReduction
from .values import lane

__all__ = ["aggregate", "aggregated"]


def aggregated(program: Program) -> frozenset[Op]:
    """The atomics whose lanes are combined."""
    if program.lanes < SUBGROUP_SIZE:
        return frozenset()
    atomics = [op for op in regrouped_atomics(program) if not _is_for_ptxas(op)]
    if not atomics:
        return frozenset()
    levels, varying = Uniformity(program), frozenset(_of_rounds(program.body, set(), False))
    return frozenset(
        op
        for op in atomics
        if all(levels.level(i) <= Level.SUBGROUP and i not in varying for i in op.indices)
    )


def _is_for_ptxas(op: Op) -> bool:
    return op.result.type.is_int and op.result.type.bits == 32


def _of_rounds(block: Block, varying: set[Value], in_loop: bool) -> Iterator[Value]:
    """The values that may differ from one round to the next of a loop in which they are; adds them to `varying`."""
    for op in block.ops:
        if in_loop and (not op.definition.is_pure or not varying.isdisjoint(op.operands)):
            varying |= {*op.results}
            yield from op.results
        loops = in_loop or op.name in ("for", "while")
        for region in op.regions:
            if loops:
                varying |= {*region.args}
                yield from region.args
            yield from _of_rounds(region, varying, loops)


def aggregate(
    emitter: FunctionEmitter, op: Op, value: str, exchange: Callable[[str], list[str]]
) -> list[str]:
    """Writes `exchange`, which does the atomic with a value, so that one lane does it for all where these are together."""
    w, dtype = emitter.w, op.result.type
    mask = w.call("llvm.nvvm.activemask", "i32", [])
    together, after, apart = w.label("together"), w.label("combined"), w.block
    w.branch_if(w.emit(f"icmp eq i32 {mask}, {WHOLE}"), together, after)
    w.start(together)
    name, lanes = op.name.removeprefix("atomic_"), str(SUBGROUP_SIZE)
    reduction = ShuffleReduction(emitter, name, dtype, WHOLE, lanes)
    combined = reduction.reduce(value)
    is_first = w.emit(f"icmp eq i32 {lane(emitter)}, 0")
    together = w.block
    w.fall_into(after)
    happens = w.phi("i1", [("true", apart), (is_first, together)])
    total = w.phi(reduction.kind, [(value, apart), (combined, together)])
    old = guarded(emitter, happens, lambda: exchange(total), dtype)
    # else lane 0 would be late for the next one, and the others not wait for it
    w.call("llvm.nvvm.bar.warp.sync", "void", [("i32", mask)])
    return old
