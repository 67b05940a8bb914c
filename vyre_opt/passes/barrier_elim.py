"""Barriers that order nothing are removed.

A barrier keeps the memory accesses before it from those after it.  The accesses
before it that matter are those since the last barrier of its scope or a wider one,
or since the program began; those after it reach to the next such barrier, or to the
end of the program:

    barrier             \
    load @a              |  before    removed if no buffer is written
    barrier  <- this    <             in one segment and used in the other
    store @b             |  after
    barrier             /

At the ends of a block in a loop or an `if`, accesses of other blocks come in, so a
segment there conflicts with any other.  So does one with an atomic: a release by
one lane after a barrier publishes what the others stored before it.
"""

from __future__ import annotations

from ..analysis.effects import Effects, effects_of, summarize
from ..ir.ops import SCOPES
from ..ir.program import Block, Module, Op, Program
from .manager import Context
from .registry import Pass, register


@register
class BarrierElim(Pass):
    name = "barrier_elim"
    summary = "Remove barriers that order no memory accesses."

    def run(self, module: Module, ctx: Context) -> bool:
        removed = 0
        for program in module.programs.values():
            total, by_op = summarize(program.body)
            if total.orders:
                walk = _Walk(program, total, by_op, ctx)
                walk.block(program.body, is_whole=True)
                removed += walk.removed
        ctx.count("barriers removed", removed)
        return removed > 0


class _Segment:
    """The accesses between two barriers to buffers that the program writes: name -> written here."""

    __slots__ = ("accesses", "is_open")

    def __init__(self, is_open: bool = False) -> None:
        self.accesses: dict[str, bool] = {}
        self.is_open = is_open
        """Has accesses that are not known, or an atomic."""

    @property
    def is_empty(self) -> bool:
        return not self.accesses and not self.is_open

    def add(self, effects: Effects, written: set[str]) -> None:
        for name in effects.reads & written:
            self.accesses.setdefault(name, False)
        for name in effects.writes:
            self.accesses[name] = True
        self.is_open |= effects.atomics

    def merge(self, other: _Segment) -> None:
        for name, writes in other.accesses.items():
            self.accesses[name] = writes or self.accesses.get(name, False)
        self.is_open |= other.is_open

    def conflicts(self, other: _Segment) -> bool:
        if self.is_open or other.is_open:
            return not (self.is_empty or other.is_empty)
        mine = self.accesses
        return any(name in mine and (writes or mine[name]) for name, writes in other.accesses.items())


class _Walk:
    def __init__(self, program: Program, total: Effects, by_op: dict[Op, Effects], ctx: Context) -> None:
        self.written = total.writes
        self.by_op = by_op
        self.ctx = ctx
        self.removed = 0
        alone = program.lanes == 1
        self.useless = set(SCOPES[:2]) if alone else set()
        if alone and program.grid == (1, 1, 1):
            self.useless.add("grid")

    def block(self, block: Block, is_whole: bool = False) -> None:
        """Remove barriers in `block`; `is_whole` if nothing runs before it or after it."""
        barriers = [op for op in block.ops if op.name == "barrier"]
        if barriers:
            gone = {
                op: "its scope is a single invocation" for op in barriers if op.attrs["scope"] in self.useless
            }
            for scope in reversed(SCOPES):  # a wide barrier that goes no longer ends narrow segments
                self.scope(block, scope, gone, is_whole)
            for op in barriers:
                if op in gone:
                    message = f"the {op.attrs['scope']} barrier is removed: {gone[op]}"
                    self.ctx.remark("applied", message, op.loc, reason=gone[op])
            if gone:
                self.removed += len(gone)
                block.ops = [op for op in block.ops if op not in gone]
        for op in block.ops:
            for inner in op.regions:
                self.block(inner)

    def scope(self, block: Block, scope: str, gone: dict[Op, str], is_whole: bool) -> None:
        """Decide on the barriers of one scope; `gone` has the reason for each that goes."""
        ends = SCOPES[SCOPES.index(scope) :]
        is_open = bool(self.written) and not is_whole
        barriers: list[Op | None] = [None]
        segments = [_Segment(is_open)]
        for op in block.ops:
            if op.name == "barrier":
                if op not in gone and op.attrs["scope"] in ends:
                    barriers.append(op)
                    segments.append(_Segment())
            elif not op.definition.is_pure:
                effects = self.by_op[op] if op.regions else effects_of(op)
                segments[-1].add(effects, self.written)
        segments[-1].is_open |= is_open

        before, first = segments[0], barriers[0]
        for place in range(1, len(barriers)):
            barrier, after = barriers[place], segments[place]
            assert barrier is not None
            if barrier.attrs["scope"] == scope and not before.conflicts(after):
                following = barriers[place + 1] if place + 1 < len(barriers) else None
                gone[barrier] = _reason(before, after, first, following)
                before.merge(after)
            else:
                before, first = after, barrier


def _reason(before: _Segment, after: _Segment, first: Op | None, following: Op | None) -> str:
    what = "no buffer that the program writes is accessed"
    if before.is_empty:
        return f"{what} between it and {'the barrier before' if first else 'the start of the program'}"
    if after.is_empty:
        return f"{what} between it and {'the barrier after' if following else 'the end of the program'}"
    return "no buffer is written on one side of it and used on the other"
