r"""Barrier elimination: barriers that order no memory accesses are removed.

A barrier orders the memory accesses before it with those after it.  Those before it
reach back to the last barrier of its scope or a wider one, or to the start of the
program; those after it reach to the next such barrier, or to the end of the program:

    barrier             \
    load @a              |  before    removed if no buffer is written
    barrier  <- this    <             in one segment and used in the other
    store @b             |  after
    barrier             /

The first and last segments of a block in a loop or an `if` join accesses of other
blocks, so they conflict with any other segment.  So does one with an atomic: a release
by one lane after a barrier publishes what the others stored before it.
"""

from __future__ import annotations

from functools import cached_property

from ..analysis.effects import Effects, effects_of, summarize
from ..ir.ops import BEYOND_WORKGROUP, SCOPES
from ..ir.program import Block, Module, Op, Program
from .manager import PassContext
from .registry import Pass, register


@register
class BarrierElim(Pass):
    name = "barrier_elim"
    summary = "Remove barriers that order no memory accesses."
    per_item = True
    needs_core_ops = True

    def run(self, module: Module, ctx: PassContext) -> bool:
        removed = 0
        for program in ctx.programs(module):
            total, by_op = summarize(program.body)
            if total.orders:
                eliminator = _Eliminator(program, total, by_op, ctx)
                eliminator.block(program.body, is_whole=True)
                removed += eliminator.removed_count
        ctx.count("barriers removed", removed)
        return removed > 0


class _Segment:
    """The accesses between two barriers, of buffers that the program writes."""

    __slots__ = ("accesses", "is_open")

    def __init__(self, is_open: bool = False) -> None:
        self.accesses: dict[str, bool] = {}
        """Buffer name -> whether it is written here."""
        self.is_open = is_open
        """Whether there are accesses of other blocks, or an atomic."""

    @property
    def is_empty(self) -> bool:
        return not self.accesses and not self.is_open

    def add(self, effects: Effects, written_buffers: set[str]) -> None:
        # loads of a buffer that the program never writes need no order
        for name in effects.reads & written_buffers:
            self.accesses.setdefault(name, False)
        for name in effects.writes:
            self.accesses[name] = True
        # an asynchronous copy writes at its wait, and the copy may have begun in another segment
        self.is_open |= effects.atomics or effects.waits

    def merge(self, other: _Segment) -> None:
        for name, writes in other.accesses.items():
            self.accesses[name] = writes or self.accesses.get(name, False)
        self.is_open |= other.is_open

    def conflicts(self, other: _Segment) -> bool:
        if self.is_open or other.is_open:
            return not (self.is_empty or other.is_empty)
        accesses = self.accesses
        return any(name in accesses and (writes or accesses[name]) for name, writes in other.accesses.items())


class _Eliminator:
    def __init__(self, program: Program, total: Effects, by_op: dict[Op, Effects], ctx: PassContext) -> None:
        self.program = program
        self.written_buffers = total.writes
        self.by_op = by_op
        self.ctx = ctx
        self.removed_count = 0
        has_one_lane = program.lanes == 1
        self.trivial_scopes = {"subgroup", "workgroup"} if has_one_lane else set()
        """The scopes that hold a single invocation."""
        if has_one_lane and program.grid == (1, 1, 1):
            self.trivial_scopes |= set(BEYOND_WORKGROUP)

    @cached_property
    def numbers(self) -> dict[Op, int]:
        """Numbers of the ops in program order, as they were before the first barrier is removed."""
        return {op: number for number, op in enumerate(self.program.walk())}

    def block(self, block: Block, is_whole: bool = False) -> None:
        """Remove barriers in `block`; `is_whole` if nothing runs before it or after it."""
        barriers = [op for op in block.ops if op.name == "barrier"]
        if barriers:
            reasons = {
                op: "its scope is a single invocation"
                for op in barriers
                if op.attrs["scope"] in self.trivial_scopes
            }
            # wide scopes first: a wide barrier that is removed no longer ends the segments of narrow ones
            for scope in reversed(SCOPES):
                self.find_redundant(block, scope, reasons, is_whole)
            for op in barriers:
                if op in reasons:
                    message = f"the {op.attrs['scope']} barrier is removed: {reasons[op]}"
                    claim = {"claim": "barrier", "program": self.program.name, "op": self.numbers[op]}
                    self.ctx.remark("applied", message, op.loc, reason=reasons[op], **claim)
            if reasons:
                self.removed_count += len(reasons)
                block.ops = [op for op in block.ops if op not in reasons]
        for op in block.ops:
            for inner in op.regions:
                self.block(inner)

    def find_redundant(self, block: Block, scope: str, reasons: dict[Op, str], is_whole: bool) -> None:
        """Add to `reasons` the barriers of `scope` that order nothing, each with the reason."""
        ends = SCOPES[SCOPES.index(scope) :]
        is_open = bool(self.written_buffers) and not is_whole
        barriers: list[Op | None] = [None]
        segments = [_Segment(is_open)]
        for op in block.ops:
            if op.name == "barrier":
                if op not in reasons and op.attrs["scope"] in ends:
                    barriers.append(op)
                    segments.append(_Segment())
            elif not op.definition.is_pure:
                effects = self.by_op[op] if op.regions else effects_of(op)
                segments[-1].add(effects, self.written_buffers)
        # a block in a loop or an `if`: its last segment goes on behind it, or in the next iteration
        segments[-1].is_open |= is_open

        before, first = segments[0], barriers[0]
        for i in range(1, len(barriers)):
            barrier, after = barriers[i], segments[i]
            assert barrier is not None
            if barrier.attrs["scope"] == scope and not before.conflicts(after):
                following = barriers[i + 1] if i + 1 < len(barriers) else None
                reasons[barrier] = _reason(before, after, first, following)
                before.merge(after)  # without the barrier the two are one segment
            else:
                if self.ctx.is_debugging and barrier.attrs["scope"] == scope:
                    self.ctx.debug("stays: {}", _conflict(before, after), loc=barrier.loc)
                before, first = after, barrier


def _conflict(before: _Segment, after: _Segment) -> str:
    """Conflict that a barrier orders, for the debug output."""
    if before.is_open or after.is_open:
        return f"accesses {'before' if before.is_open else 'after'} it reach beyond this block, or are atomic"
    shared = sorted(before.accesses.keys() & after.accesses.keys())
    return f"it orders accesses of {', '.join(f'@{name}' for name in shared)}"


def _reason(before: _Segment, after: _Segment, first: Op | None, following: Op | None) -> str:
    fact = "no buffer that the program writes is accessed"
    if before.is_empty:
        return f"{fact} between it and {'the barrier before' if first else 'the start of the program'}"
    if after.is_empty:
        return f"{fact} between it and {'the barrier after' if following else 'the end of the program'}"
    return "no buffer is written on one side of it and used on the other"
