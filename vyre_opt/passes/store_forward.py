"""Memory round trips in a block: a load of what is known, a store that is overwritten.

    store %v, @b[%i]                store %v, @b[%i]
    %x = load @b[%i]   ->  %v       store %w, @b[%i]   the first one goes

An index is taken as a base value plus a constant; two indexes of one base differ
where their constants do.  Any other write to the buffer may hit any element.  A
barrier or an ordered atomic lets the writes of other invocations in, so only
read-only buffers are known across it; without one, such a write would be a race.
What is known stays within a block: not into a loop or an `if`, nor past one that writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ..analysis.effects import Effects, effects_of, summarize
from ..ir.program import AccessMode, Block, Module, Op, Program, Value
from ..ir.rewrite import constant_value, substitute
from ..ir.uniformity import Uniformity
from .manager import Context
from .registry import Pass, register


@register
class StoreForward(Pass):
    name = "store_forward"
    summary = "Replace loads of known elements, and remove stores that are overwritten."

    def run(self, module: Module, ctx: Context) -> bool:
        changed = 0
        for program in module.programs.values():
            walk = _Walk(program, ctx)
            walk.block(program.body)
            ctx.count("loads replaced", walk.loads)
            ctx.count("stores removed", walk.stores)
            changed += walk.loads + walk.stores
        return changed > 0


@dataclass(frozen=True, slots=True)
class _Place:
    """`lanes` elements from `base + offset` on, the sum modulo `modulus`; a base of None is 0."""

    base: Value | None
    offset: int
    lanes: int
    modulus: int


T = TypeVar("T")


@dataclass(slots=True)
class _Elements(Generic[T]):
    """Something noted of elements of one buffer, by the place of the access."""

    by_base: dict[Value | None, dict[int, tuple[int, T]]] = field(default_factory=dict)
    widest: int = 1

    def get(self, place: _Place) -> T | None:
        """What is noted of exactly these elements."""
        noted = self.by_base.get(place.base, {}).get(place.offset)
        return noted[1] if noted is not None and noted[0] == place.lanes else None

    def put(self, place: _Place, what: T) -> None:
        self.by_base.setdefault(place.base, {})[place.offset] = (place.lanes, what)
        self.widest = max(self.widest, place.lanes)

    def touch(self, place: _Place) -> None:
        """Forget all that may share an element with `place`."""
        noted = self.by_base.get(place.base)
        if not noted:
            self.by_base = {}
            return
        self.by_base = {place.base: noted}
        for distance in range(1 - self.widest, place.lanes):
            at = place.offset + distance
            at = at % place.modulus if place.base is not None else at
            if at in noted and (distance >= 0 or noted[at][0] > -distance):
                del noted[at]


class _Walk:
    def __init__(self, program: Program, ctx: Context) -> None:
        self.buffers = program.buffers
        self.constant_buffers = {b.name for b in program.buffers.values() if b.access is AccessMode.READ}
        _, self.by_op = summarize(program.body)
        # A value less uniform than the load it replaces could leave a barrier in divergent control flow
        self.facts = ctx.analyses.get(Uniformity, program) if _has_nested_sync(program, self.by_op) else None
        self.ctx = ctx
        self.replaced: dict[Value, Value] = {}
        self.sums: dict[Value, tuple[Value, int]] = {}
        self.loads = 0
        self.stores = 0

    def block(self, block: Block) -> None:
        known: dict[str, _Elements[Value]] = {}
        unread: dict[str, _Elements[Op]] = {}
        gone: set[Op] = set()
        for op in block.ops:
            if self.replaced:
                substitute(op, self.replaced)
            if op.definition.is_pure:
                self.note_sum(op)
            elif op.name == "load":
                self.load(op, known, unread, gone)
            elif op.name == "store":
                self.store(op, known, unread, gone)
            else:
                for inner in op.regions:
                    self.block(inner)
                self.forget(self.by_op[op] if op.regions else effects_of(op), known, unread)
        if gone:
            block.ops = [op for op in block.ops if op not in gone]

    def load(
        self, op: Op, known: dict[str, _Elements[Value]], unread: dict[str, _Elements[Op]], gone: set[Op]
    ) -> None:
        buffer, place = op.attrs["buffer"], self.place(op.operands[0], op.result)
        elements = known.setdefault(buffer, _Elements())
        value = elements.get(place)
        if value is not None and value.type is op.result.type and self.is_as_uniform(value, op.result):
            self.replaced[op.result] = value
            gone.add(op)
            self.loads += 1
            self.ctx.remark("applied", f"this load of @{buffer} gives a value that is known here", op.loc)
            return
        if buffer in unread:
            unread[buffer].touch(place)
        if value is None:
            elements.put(place, op.result)

    def store(
        self, op: Op, known: dict[str, _Elements[Value]], unread: dict[str, _Elements[Op]], gone: set[Op]
    ) -> None:
        value, index = op.operands
        buffer, place = op.attrs["buffer"], self.place(index, value)
        elements = known.setdefault(buffer, _Elements())
        if elements.get(place) is value:
            self.remove(op, gone, f"@{buffer} already holds this value here")
            return
        pending = unread.setdefault(buffer, _Elements())
        earlier = pending.get(place)
        if earlier is not None:
            self.remove(earlier, gone, f"@{buffer} is overwritten before anything reads it")
        pending.touch(place)
        pending.put(place, op)
        elements.touch(place)
        elements.put(place, value)

    def remove(self, op: Op, gone: set[Op], why: str) -> None:
        gone.add(op)
        self.stores += 1
        self.ctx.remark("applied", f"this store is removed: {why}", op.loc, buffer=op.attrs["buffer"])

    def forget(
        self, effects: Effects, known: dict[str, _Elements[Value]], unread: dict[str, _Elements[Op]]
    ) -> None:
        """Drop what an op other than a load or store of this block may change or see."""
        if effects.orders or effects.stops:
            unread.clear()
        if effects.orders:
            for name in list(known):
                if name not in self.constant_buffers:
                    del known[name]
        for name in effects.writes:
            known.pop(name, None)
        for name in effects.reads:
            unread.pop(name, None)

    # --- indexes ------------------------------------------------------------------------

    def place(self, index: Value, moved: Value) -> _Place:
        assert index.type.bits is not None
        lanes, modulus = moved.type.lanes, 1 << index.type.bits
        known = constant_value(index)
        if known is not None:
            return _Place(None, known, lanes, modulus)
        base, offset = self.sums.get(index, (index, 0))
        return _Place(base, offset % modulus, lanes, modulus)

    def note_sum(self, op: Op) -> None:
        """Remember an index that is another one plus or minus a constant."""
        if op.name not in ("add", "sub") or not op.result.type.is_int:
            return
        a, b = op.operands
        offset = constant_value(b)
        if offset is None and op.name == "add":
            a, offset = b, constant_value(a)
        if offset is not None:
            base, before = self.sums.get(a, (a, 0))
            self.sums[op.result] = base, before + (offset if op.name == "add" else -offset)

    def is_as_uniform(self, value: Value, loaded: Value) -> bool:
        return self.facts is None or self.facts.level(value) <= self.facts.level(loaded)


def _has_nested_sync(program: Program, by_op: dict[Op, Effects]) -> bool:
    """Whether control flow surrounds an op that a whole group must reach together."""
    return any(effects.orders for effects in by_op.values()) or any(
        "subgroup" in inner.definition.effects for op in by_op for block in op.regions for inner in block.ops
    )
