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

from dataclasses import dataclass, field

from ..ir.loops import trip_count
from ..ir.program import AccessMode, Block, Func, Module, Op, Program, Value
from .manager import Context
from .registry import Pass, register

_STOPPED = 1 << 30
"""A floor deeper than any loop."""


@register
class Licm(Pass):
    name = "licm"
    summary = "Move loop-invariant pure ops and loads of read-only buffers in front of their loops."

    def run(self, module: Module, ctx: Context) -> bool:
        moved = 0
        for item in module.order:
            if isinstance(item, Program | Func):
                walk = _Walk(item)
                walk.block(item.body, 0)
                moved += walk.moved
        ctx.count("ops moved", moved)
        return moved > 0


@dataclass(slots=True)
class _Loop:
    """An open loop.  Loads stay at `load_floor` or deeper; `moved` goes in front of the loop."""

    load_floor: int
    moved: list[Op] = field(default_factory=list)


class _Walk:
    def __init__(self, item: Program | Func) -> None:
        buffers = item.buffers.values() if isinstance(item, Program) else ()
        self.constant_buffers = {b.name for b in buffers if b.access is AccessMode.READ}
        self.levels: dict[Value, int] = {}
        self.loops: list[_Loop] = []
        self.moved = 0

    def block(self, block: Block, floor: int) -> None:
        """Move what may move out of `block`, but not further out than level `floor`."""
        here = len(self.loops)
        for arg in block.args:
            self.levels[arg] = here
        kept: list[Op] = []
        for op in block.ops:
            if op.regions:
                self.structured(op, floor, kept)
                kept.append(op)
            elif (level := self.level(op, floor, here)) < here:
                self.loops[level].moved.append(op)
                self.moved += 1
            else:
                level = here
                kept.append(op)
                if op.name == "trap":
                    self.stop()
            for result in op.results:
                self.levels[result] = here if op.regions else level
        block.ops = kept

    def level(self, op: Op, floor: int, here: int) -> int:
        """The level where `op` is best computed."""
        if not op.definition.is_pure:
            if op.name != "load" or op.attrs["buffer"] not in self.constant_buffers or not self.loops:
                return here
            floor = max(floor, self.loops[-1].load_floor)
        levels = self.levels
        for operand in op.operands:
            if levels[operand] > floor:
                floor = levels[operand]
        return floor

    def structured(self, op: Op, floor: int, kept: list[Op]) -> None:
        here = len(self.loops)
        if op.name not in ("for", "while"):
            for inner in op.regions:
                self.block(inner, here if op.name == "if" else floor)
            return
        outer = min(self.loops[-1].load_floor, here) if self.loops else 0
        sure = op.name == "for" and (trip_count(op) or 0) > 0
        self.loops.append(_Loop(max(outer, floor) if sure else here + 1))
        for inner in op.regions:
            self.block(inner, floor)
        loop = self.loops.pop()
        kept += loop.moved
        if op.name == "while" or loop.load_floor == _STOPPED:
            self.stop()

    def stop(self) -> None:
        """From here on, no load moves out of the loops around."""
        if self.loops:
            self.loops[-1].load_floor = _STOPPED
