"""Loop-invariant code: an op whose operands a loop does not change is computed before it.

Each value has a level, the number of loops around the place where it is computed.
An op moves out to the level of its deepest operand in one step, in front of the
loop there, so the pass is linear however deep loops nest.

    for %i ... {           level 1      %k is of level 0, so both ops move
      for %j ... {         level 2      in front of the outer loop; with %i
        %a = mul %k, %k                 among its operands, the second would
        %b = add %a, %k                 stop in front of the inner one.

Pure ops are total, so computing one that a loop would not reach changes nothing.
An op in an `if` stays in it, though: it may never be needed.  A load may fault, so
it moves only from a loop that runs it at once: one with a constant trip count above
zero, with nothing before the load that may stop the program.
"""

from __future__ import annotations

from dataclasses import field

from ..ir.loops import trip_count
from ..ir.program import AccessMode, Func, Module, Op, Program, Value
from ..records import dataclass
from ..rewriting.walker import Walker
from .manager import PassContext
from .registry import Pass, register

_PINNED = 1 << 30
"""A level deeper than any loop."""


@register
class Licm(Pass):
    name = "licm"
    summary = "Move loop-invariant pure ops and loads of read-only buffers in front of their loops."
    per_item = True

    def run(self, module: Module, ctx: PassContext) -> bool:
        move_count = 0
        for item in ctx.items(module):
            hoister = _Hoister(item, ctx)
            hoister.walk_block(item.body)
            move_count += hoister.changes
        ctx.count("ops moved", move_count)
        return move_count > 0


@dataclass(slots=True)
class _LoopLevel:
    """A loop being visited.  Loads stay at level `load_floor` or deeper; `hoisted` goes in front of the loop."""

    load_floor: int
    hoisted: list[Op] = field(default_factory=list)


class _Hoister(Walker):
    """Moves ops out as the walk meets them.  `floor`: the outermost level that ops of the current block may move to."""

    def __init__(self, item: Program | Func, ctx: PassContext) -> None:
        super().__init__()
        self.ctx = ctx
        self.is_debugging = ctx.is_debugging
        buffers = item.buffers.values() if isinstance(item, Program) else ()
        self.constant_buffers = {b.name for b in buffers if b.access is AccessMode.READ}
        self.levels: dict[Value, int] = {}
        """The level of each value that is computed in a loop; all others are of level 0."""
        self.loops: list[_LoopLevel] = []
        self.floor = 0

    def visit(self, op: Op, out: list[Op]) -> None:
        depth = len(self.loops)
        if not depth:
            out.append(op)
            return
        levels, level = self.levels, self.floor
        is_pure = op.definition.is_pure
        if not is_pure:
            level = max(level, self.loops[-1].load_floor) if self.is_constant_load(op) else depth
        for operand in op.operands:
            if operand in levels and levels[operand] > level:
                level = levels[operand]
        if level < depth:
            self.ctx.debug("{} moves from level {} to level {}", op, depth, level, loc=op.loc)
            self.loops[level].hoisted.append(op)
            self.changes += 1
        else:
            if self.is_debugging:
                self.explain(op, depth)
            out.append(op)
            # `is_pure` first: it is a flag, where `effects` is a set to look into
            if not is_pure and "trap" in op.definition.effects:
                self.pin_loads()
        if level:  # without an entry the level is 0
            for result in op.results:
                levels[result] = level

    def explain(self, op: Op, depth: int) -> None:
        """Write to the debug output why a movable op stays in its loop."""
        if not op.definition.is_pure and not self.is_constant_load(op):
            return
        varying = next((v for v in op.operands if self.levels.get(v, 0) == depth), None)
        if varying is not None:
            reason = f"%{varying.name} is computed in this loop"
        elif self.is_constant_load(op):
            reason = "the load may fault where the loop would not run it"
        else:
            reason = "it is in an if"
        self.ctx.debug("{} stays at level {}: {}", op, depth, reason, loc=op.loc)

    def is_constant_load(self, op: Op) -> bool:
        return op.name == "load" and op.attrs["buffer"] in self.constant_buffers

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        depth, floor = len(self.loops), self.floor
        is_loop = op.name in ("for", "while")
        if is_loop:
            # a load may leave this loop only if the loop runs at least once: otherwise hoisting adds a fault
            outer = min(self.loops[-1].load_floor, depth) if self.loops else 0
            always_runs = op.name == "for" and (trip_count(op) or 0) > 0
            self.loops.append(_LoopLevel(max(outer, floor) if always_runs else depth + 1))
        elif op.name == "if":
            self.floor = depth
        for block in op.regions:
            self.levels.update(dict.fromkeys(block.args, len(self.loops)))
            self.walk_block(block)
        self.floor = floor
        if is_loop:
            loop = self.loops.pop()
            out += loop.hoisted
            # a while may not end, and a trap in a loop stops the program too: later ops may never run
            if op.name == "while" or loop.load_floor == _PINNED:
                self.pin_loads()
        out.append(op)
        self.levels.update(dict.fromkeys(op.results, depth))

    def pin_loads(self) -> None:
        """Let no later load move out of the loops around: the program may stop before it."""
        if self.loops:
            self.loops[-1].load_floor = _PINNED
