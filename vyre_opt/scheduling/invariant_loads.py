"""Loads that a loop repeats move before it, under the condition that the loop has a first iteration.

    while %go {                                %go0 = is there a first iteration?
      %v = load @x[%i]                   -->   %v = if %go0 { load @x[%i] } else { 0 }
      ...                                      while %go { ... }
    }

`%i` is the same in all iterations, and nothing writes @x.  The load before the loop faults exactly if the first iteration
would; licm moves loads that need no such condition.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..analysis.effects import effects_of, summarize
from ..fusion.halo_recompute import OpEmitter
from ..fusion.remark_sink import RemarkSink
from ..ir.loops import bounds, inits, trip_count
from ..ir.program import Block, Op, Program, Value
from ..ir.rewrite import clone, conditional, constant, needed_ops, splittable
from ..ir.types import DataType
from ..rewriting.walker import Walker

__all__ = ["hoist_loads"]


def hoist_loads(program: Program, sink: RemarkSink, numbers: Mapping[Op, int]) -> int:
    """Rewrite the loops of a program, in place, outer loops first; return the number of hoisted loads.

    `numbers`: numbers of its ops, see `op_numbers`.
    """
    written_buffers = summarize(program.body)[0].writes
    stable = {b.name for b in program.bound_buffers} - written_buffers
    hoister = _Hoister(program, stable, sink, numbers)
    hoister.walk_block(program.body)
    return hoister.changes


class _Hoister(Walker):
    def __init__(
        self, program: Program, stable: set[str], sink: RemarkSink, numbers: Mapping[Op, int]
    ) -> None:
        super().__init__()
        self.program, self.stable, self.sink, self.numbers = program, stable, sink, numbers

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        if op.name in ("for", "while"):
            self.hoist(op, out)
        super().visit_structured(op, out)

    def hoist(self, loop: Op, out: list[Op]) -> None:
        """Put the loads of the first iteration that all others repeat before the loop."""
        body = loop.regions[-1]
        ops, loads = self.invariant_loads(loop, body)
        first = self.first_iteration(loop) if loads else None
        if first is None:
            return
        condition, before = first
        mapping = dict(self.replaced)
        block, zeros = Block((), clone(ops, mapping)), Block()
        zeros.ops += [constant(0, load.result.type, load.result.name, loop) for load in loads]
        values, zero_values = [mapping[load.result] for load in loads], [op.result for op in zeros.ops]
        guarded = conditional(condition, block, values, zeros, zero_values, loop)
        out += [*before, guarded]
        self.replaced.update(zip([load.result for load in loads], guarded.results, strict=True))
        hoisted_loads = set(loads)
        body.ops = [op for op in body.ops if op not in hoisted_loads]
        self.changes += len(loads)
        self.sink.remark(
            "applied",
            f"this loop loads {len(loads)} elements once, before it",
            loop.loc,
            claim="hoist_loads",
            program=self.program.name,
            loops=[self.numbers[loop]],
        )

    def invariant_loads(self, loop: Op, body: Block) -> tuple[list[Op], list[Op]]:
        """Two lists: invariant loads of an iteration with the pure ops that compute their indices, and the loads alone."""
        inside = {value for block in loop.regions for op in block.walk() for value in op.results}
        inside.update(value for block in loop.regions for value in block.args)
        ops: list[Op] = []
        for op in body.ops:
            if effects_of(op).prints or any(effects_of(inner).stops for inner in op.walk()):
                break  # an iteration may not reach later ops
            is_load = self.is_stable(op) and not op.result.type.is_vec
            if (is_load or op.definition.is_pure) and not op.regions and inside.isdisjoint(op.operands):
                ops.append(op)
                inside.difference_update(op.results)
        loads = [op for op in ops if op.name == "load"]
        return needed_ops(ops, [load.result for load in loads]), loads

    def first_iteration(self, loop: Op) -> tuple[Value, list[Op]] | None:
        """A condition that the loop has a first iteration, and the ops that compute it.

        None if the trip count is known, or computing the condition may have an effect."""
        out: list[Op] = []
        if loop.name == "for":
            lower, upper, step = bounds(loop)
            if trip_count(loop) is not None or not isinstance(step, int) or step <= 0:
                return None
            emit, dtype = OpEmitter(out, loop.loc), loop.regions[0].args[0].type
            ends = [each if isinstance(each, Value) else emit.const(each, dtype) for each in (lower, upper)]
            return emit.op("lt", "begins", *ends, dtype=DataType.BOOL), out
        head = loop.regions[0]
        ops, (condition, *_) = splittable(head)
        if any(op.regions or not (op.definition.is_pure or self.is_stable(op)) for op in ops):
            return None
        mapping = self.replaced | dict(zip(head.args, inits(loop), strict=True))
        out += clone(ops, mapping)
        return mapping.get(condition, condition), out

    def is_stable(self, op: Op) -> bool:
        return op.name == "load" and op.attrs["buffer"] in self.stable
