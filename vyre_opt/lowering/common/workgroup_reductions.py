"""Reductions and scans of a workgroup as those of its subgroups.

    %r = workgroup_reduce<add> %x          %total = subgroup_reduce<add> %x
                                    ->     lane 0 of each subgroup stores it in @totals, an element for each subgroup
                                           barrier workgroup
                                           %r = @totals[0] + @totals[1] + ..., as a tree, by every lane

    %r = workgroup_scan<add> %x            %up_to = subgroup_scan<add> %x
                                    ->     lane 31 of each subgroup stores it in @totals
                                           barrier workgroup
                                           %before = a subgroup_scan over @totals, of which the lane takes that of the subgroup before
                                           %r = %before + %up_to

Many totals are combined by the first subgroup alone, which hands the results over in the second half of @totals, behind
another barrier; so are those of a scan, if the last subgroup has too few lanes to do it.  The result of a reduction is thus
always a load from one place, or computed of such, so that it is seen to be the same for the whole workgroup.  For the memory
see analysis/reduction_memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...analysis.reduction_memory import Exchange, exchanges, has_workgroup_reductions, is_workgroup_reduction
from ...ir import arith
from ...ir.builder import Builder
from ...ir.ops import OPS, SUBGROUP_SIZE
from ...ir.program import Block, Buffer, Op, Program, Value
from ...ir.rewrite import clone
from ...rewriting.walker import Walker

__all__ = ["with_subgroup_reductions"]

MOST_BY_EACH = 8
"""Totals that every lane combines by itself, rather than wait for the first subgroup again."""


def with_subgroup_reductions(program: Program) -> Program:
    """The program, or a copy of it without reductions and scans of workgroups."""
    if not has_workgroup_reductions(program):
        return program
    copy = replace(program, body=Block((), clone(program.body.ops, {})))
    memory = exchanges(copy)
    copy.buffers = {**program.buffers, **{each.buffer.name: each.buffer for each in memory.values()}}
    _Expansion(copy, memory).walk_block(copy.body)
    return copy


class _Expansion(Walker):
    def __init__(self, program: Program, memory: dict[Op, Exchange]) -> None:
        super().__init__()
        self.b = Builder.on(program)
        self.memory = memory

    def visit(self, op: Op, out: list[Op]) -> None:
        if not is_workgroup_reduction(op):
            out.append(op)
            return
        block = Block()
        self.b.loc = op.loc
        with self.b.at(block):
            reduction = _Reduction(self.b, op, self.memory.get(op))
            result = reduction.reduce() if op.definition.format == "reduce" else reduction.scan()
        out += block.ops
        self.replace(op.results, (result,))


class _Reduction:
    """`memory`: None if the workgroup is one subgroup."""

    def __init__(self, b: Builder, op: Op, memory: Exchange | None) -> None:
        self.b, self.op, self.memory = b, op, memory
        self.value, self.dtype = op.operands[0], op.operands[0].type
        self.combine = op.attrs["combine"]
        self.subgroups = -(-b.program.lanes // SUBGROUP_SIZE)

    def reduce(self) -> Value:
        b = self.b
        total = b.subgroup_reduce(self.value, self.combine)
        if self.memory is None:
            return total
        buffer = self.store_totals(total, b.eq(b.lane_id(), 0))
        if self.subgroups <= MOST_BY_EACH:
            return self.tree(self.all_totals(buffer))
        self.by_first_subgroup(buffer, lambda: b.subgroup_reduce(self.padded_totals(buffer), self.combine))
        return b.load(buffer, self.subgroups)

    def scan(self) -> Value:
        b, mode = self.b, self.op.attrs["mode"]
        if self.memory is None:
            return b.subgroup_scan(self.value, mode, self.combine)
        lane, subgroup = b.lane_id(), b.subgroup_id()
        up_to = b.subgroup_scan(self.value, "inclusive", self.combine)
        buffer = self.store_totals(up_to, b.eq(lane, SUBGROUP_SIZE - 1))

        def up_to_each() -> Value:
            # the total of a subgroup that lacks lanes is in no memory; it is the last one, so none comes after it
            totals = self.load_totals(buffer, b.program.lanes // SUBGROUP_SIZE)
            return b.subgroup_scan(totals, "inclusive", self.combine)

        previous = b.sub(b.max(subgroup, 1), 1)
        if b.program.lanes % SUBGROUP_SIZE == 0:
            before = b.subgroup_shuffle(up_to_each(), previous)
        else:
            self.by_first_subgroup(buffer, up_to_each)
            before = b.load(buffer, b.add(previous, self.subgroups))
        is_first = b.eq(subgroup, 0)
        if mode == "inclusive":
            return b.select(is_first, up_to, self.both(before, up_to))
        starts, own = b.eq(lane, 0), b.subgroup_shuffle(up_to, 1, "up")
        first = b.select(starts, self.encoded(arith.identity(self.combine, self.dtype)), own)
        return b.select(is_first, first, b.select(starts, before, self.both(before, own)))

    # --- across subgroups

    def store_totals(self, value: Value, is_last: Value) -> Buffer:
        """Store `value` for the subgroup in the lane where `is_last`, and wait for all subgroups."""
        b, memory = self.b, self.memory
        assert memory is not None
        if memory.is_awaited:
            b.barrier("workgroup")
        with b.if_(is_last):
            b.store(value, memory.buffer, b.subgroup_id())
        b.barrier("workgroup")
        return memory.buffer

    def load_totals(self, buffer: Buffer, count: int) -> Value:
        """Load in lane s the total of subgroup s; lanes from `count` on load the last one's, so that they stay in bounds."""
        return self.b.load(buffer, self.b.min(self.b.lane_id(), count - 1))

    def padded_totals(self, buffer: Buffer) -> Value:
        """Load the totals; lanes without a subgroup get the neutral value."""
        b, totals = self.b, self.load_totals(buffer, self.subgroups)
        neutral = self.encoded(arith.neutral(self.combine, self.dtype))
        return b.select(b.lt(b.lane_id(), self.subgroups), totals, neutral)

    def by_first_subgroup(self, buffer: Buffer, combined: Callable[[], Value]) -> None:
        """Store to the second half what the lanes of the first subgroup compute by `combined`, and wait for it."""
        b = self.b
        with b.if_(b.eq(b.subgroup_id(), 0)):
            value, lane = combined(), b.lane_id()
            with b.if_(b.lt(lane, self.subgroups)):
                b.store(value, buffer, b.add(lane, self.subgroups))
        b.barrier("workgroup")

    def all_totals(self, buffer: Buffer) -> list[Value]:
        """The totals of all subgroups in every lane, by loads of up to 16 bytes."""
        widest = 1 if self.dtype.is_bool else min(4, 16 * 8 // (self.dtype.bits or 64))
        totals: list[Value] = []
        while len(totals) < self.subgroups:
            remaining = self.subgroups - len(totals)
            width = next(each for each in (4, 2, 1) if each <= min(widest, remaining))
            vector = self.b.load(buffer, len(totals), width)
            totals += [self.b.extract(vector, k) for k in range(width)] if width > 1 else [vector]
        return totals

    def tree(self, values: list[Value]) -> Value:
        """Combine as the lanes of a subgroup do: from 16 on onto the first ones, then from 8 on, and so on."""
        half = SUBGROUP_SIZE // 2
        while half:
            upper = values[half:]
            values = [self.both(v, upper[k]) if k < len(upper) else v for k, v in enumerate(values[:half])]
            half //= 2
        return values[0]

    # --- values

    def both(self, a: Value, b: Value) -> Value:
        return self.b.emit(OPS[self.combine], (a, b), (self.dtype,)).result

    def encoded(self, value: int) -> Value:
        return self.b.emit(OPS["const"], (), (self.dtype,), {"value": value}).result
