"""What ops do besides giving values: the buffers they touch, and whether they order memory.

An op with regions has the effects of all ops inside; `summarize` finds them
for a whole body in one walk.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.program import AccessMode, Block, Op

__all__ = ["Effects", "effects_of", "summarize"]


@dataclass(slots=True)
class Effects:
    """`reads` and `writes` name buffers; atomics do both.

    `orders`: holds a barrier or an ordered atomic, after which other invocations' writes show.
    `atomics`: holds an atomic of any order.  `stops`: may trap, or loop without an end in sight.
    """

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    orders: bool = False
    atomics: bool = False
    stops: bool = False

    def include(self, other: Effects) -> None:
        self.reads |= other.reads
        self.writes |= other.writes
        self.orders |= other.orders
        self.atomics |= other.atomics
        self.stops |= other.stops


def effects_of(op: Op) -> Effects:
    """The effects of one op, without those of ops in its regions."""
    found = Effects(stops=op.name in ("while", "trap"))
    row = op.definition
    if row.is_pure:
        return found
    if row.kernel is not None:
        for name, role in zip(op.attrs["buffers"], row.kernel.roles, strict=True):
            (found.reads if role.access is AccessMode.READ else found.writes).add(name)
        return found
    if "read" in row.effects:
        found.reads.add(op.attrs["buffer"])
    if "write" in row.effects:
        found.writes.add(op.attrs["buffer"])
    found.atomics = "atomic" in row.effects
    found.orders = "sync" in row.effects or (found.atomics and op.attrs["order"] != "relaxed")
    return found


def summarize(body: Block) -> tuple[Effects, dict[Op, Effects]]:
    """The effects of a body, and those of every op in it that has regions."""
    by_op: dict[Op, Effects] = {}
    return _block(body, by_op), by_op


def _block(block: Block, by_op: dict[Op, Effects]) -> Effects:
    total = Effects()
    for op in block.ops:
        if op.regions:
            found = effects_of(op)
            for inner in op.regions:
                found.include(_block(inner, by_op))
            by_op[op] = found
            total.include(found)
        elif not op.definition.is_pure:
            total.include(effects_of(op))
    return total
