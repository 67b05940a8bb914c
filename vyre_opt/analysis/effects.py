"""Side effects of ops: the buffers they read and write, and whether they order memory.

An op with regions has the effects of all ops inside; `summarize` computes them for a whole body in one walk.
"""

from __future__ import annotations

from dataclasses import field

from ..ir.program import AccessMode, Block, Op
from ..records import dataclass

__all__ = ["Effects", "effects_of", "summarize"]


@dataclass(slots=True)
class Effects:
    """`reads` and `writes` name buffers; atomics do both.

    `orders`: has a barrier or an ordered atomic, after which other invocations' writes are visible.
    `waits`: has a copy_wait, after which this invocation's copies are in their places.
    `atomics`: has an atomic of any order.  `stops`: may trap or not terminate.  `prints`: prints lines.
    """

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    orders: bool = False
    waits: bool = False
    atomics: bool = False
    stops: bool = False
    prints: bool = False

    def include(self, other: Effects) -> None:
        self.reads |= other.reads
        self.writes |= other.writes
        self.orders |= other.orders
        self.waits |= other.waits
        self.atomics |= other.atomics
        self.stops |= other.stops
        self.prints |= other.prints


def effects_of(op: Op) -> Effects:
    """The effects of one op, without its regions."""
    effects = Effects(stops=op.name == "while" or "trap" in op.definition.effects)
    row = op.definition
    if row.is_pure:
        return effects
    if row.kernel is not None:
        for name, role in row.kernel.with_roles(op.attrs["buffers"]):
            if role.access is not AccessMode.WRITE:
                effects.reads.add(name)
            if role.access is not AccessMode.READ:
                effects.writes.add(name)
        return effects
    if "read" in row.effects:
        effects.reads.add(op.attrs["buffer"])
    if "write" in row.effects:
        effects.writes.add(op.attrs["buffer"])
    effects.prints = "print" in row.effects
    effects.atomics = "atomic" in row.effects
    effects.waits = "wait" in row.effects
    is_ordered_atomic = effects.atomics and op.attrs["order"] != "relaxed"
    effects.orders = "sync" in row.effects or effects.waits or is_ordered_atomic
    return effects


def summarize(body: Block) -> tuple[Effects, dict[Op, Effects]]:
    """The effects of a body, and of every op in it with regions."""
    by_op: dict[Op, Effects] = {}
    return _block(body, by_op), by_op


def _block(block: Block, by_op: dict[Op, Effects]) -> Effects:
    total = Effects()
    for op in block.ops:
        if op.regions:
            effects = effects_of(op)
            for inner in op.regions:
                effects.include(_block(inner, by_op))
            by_op[op] = effects
            total.include(effects)
        elif not op.definition.is_pure:
            total.include(effects_of(op))
    return total
