"""Memory round trips in a block: a load of an available value, a store that is overwritten.

    store %v, @b[%i]                store %v, @b[%i]
    %x = load @b[%i]   ->  %v       store %w, @b[%i]   the first one goes

An index is taken as a base value plus a constant; two indexes of one base differ
where their constants do.  Any other write to the buffer may hit any element.  A
barrier or an ordered atomic makes the writes of other invocations visible, so only
values of read-only buffers stay available across it; without one, such a write would be a race.
Values are available within a block: not in a nested loop or `if`, nor after one that writes.
A removed store leaves a check of its index, unless it is proven in bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field
from typing import Generic, TypeVar

from ..analysis.effects import Effects, effects_of, summarize
from ..fusion.bounds_checks import add_checks
from ..fusion.result_check import check_stores, refuse_result
from ..ir.program import AccessMode, Block, Module, Op, Program, Value
from ..ir.rewrite import constant_value
from ..ir.uniformity import Uniformity
from ..records import dataclass
from ..rewriting.cloning import copy_program
from ..rewriting.walker import Walker
from .manager import PassContext
from .registry import Pass, register


@register
class StoreForward(Pass):
    name = "store_forward"
    summary = "Replace loads of known elements, and remove stores that are overwritten."
    per_item = True
    needs_core_ops = True

    def run(self, module: Module, ctx: PassContext) -> bool:
        changed = 0
        for program in ctx.programs(module):
            before, _ = copy_program(program, None)
            ops = list(program.walk())
            forwarder = _Forwarder(program, ctx)
            forwarder.walk_block(program.body)
            if forwarder.dead_stores:
                ctx.count("checks of bounds", add_checks(program, forwarder.dead_stores))
                _remove(program.body, forwarder.dead_stores)
            refusal = check_stores(before, ops, program) if forwarder.stores else None
            if refusal is not None:
                refuse_result(ctx, [program.name], refusal, program.loc)
                ctx.put_back(program, before)
                continue
            ctx.count("loads replaced", forwarder.loads)
            ctx.count("stores removed", forwarder.stores)
            changed += forwarder.loads + forwarder.stores
        return changed > 0


@dataclass(frozen=True, slots=True)
class _ElementRange:
    """`lanes` elements from `base + offset` on, the sum modulo `modulus`; a base of None is 0.

    In a buffer of several dimensions, that is along the last one, and `base` also has the indices of the row.
    """

    base: Base
    offset: int
    lanes: int
    modulus: int
    wraps: bool


Base = object
"""A value or None; of several dimensions, a tuple with those of each, and the constants of all but the last."""

T = TypeVar("T")


@dataclass(slots=True)
class _Elements(Generic[T]):
    """Notes on elements of one buffer, keyed by the elements of an access.

    `by_base`: base value -> offset -> (lanes, note).  `widest`: the most lanes of any note.
    """

    by_base: dict[Base, dict[int, tuple[int, T]]] = field(default_factory=dict)
    widest: int = 1

    def get(self, span: _ElementRange) -> T | None:
        """The note on exactly these elements."""
        entry = self.by_base.get(span.base, {}).get(span.offset)
        return entry[1] if entry is not None and entry[0] == span.lanes else None

    def put(self, span: _ElementRange, note: T) -> None:
        self.by_base.setdefault(span.base, {})[span.offset] = (span.lanes, note)
        self.widest = max(self.widest, span.lanes)

    def invalidate(self, span: _ElementRange) -> None:
        """Drop the notes on elements that may overlap `span`."""
        notes = self.by_base.get(span.base)
        if not notes:
            self.by_base = {}
            return
        self.by_base = {span.base: notes}  # an index of another base may be any element
        for distance in range(1 - self.widest, span.lanes):
            at = span.offset + distance
            # base + offset wraps with the index type; a constant index is the number itself
            at = at % span.modulus if span.wraps else at
            if at in notes and (distance >= 0 or notes[at][0] > -distance):
                del notes[at]


@dataclass(frozen=True, slots=True)
class _AvailableValue:
    """Value of an element, and the load or store that made it available."""

    value: Value
    source: Op


class _Forwarder(Walker):
    def __init__(self, program: Program, ctx: PassContext) -> None:
        super().__init__()
        self.constant_buffers = {b.name for b in program.buffers.values() if b.access is AccessMode.READ}
        _, self.by_op = summarize(program.body)
        # A value less uniform than the load it replaces could leave a barrier in divergent control flow
        self.facts = ctx.analyses.get(Uniformity, program) if _has_nested_sync(program, self.by_op) else None
        self.ctx = ctx
        self.sums: dict[Value, tuple[Value, int]] = {}
        """Index -> (value, constant) whose sum it is."""
        self.numbers: dict[Op, int] = {}
        """Numbers of the ops so far, in program order before the pass."""
        self.program_name = program.name
        self.available: dict[str, _Elements[_AvailableValue]] = {}
        """Buffer -> the elements whose values are available at this point of the block."""
        self.unread_stores: dict[str, _Elements[Op]] = {}
        """Buffer -> the elements stored in this block that nothing has read since."""
        self.dead_stores: set[Op] = set()
        """Stores to remove; they stay in their blocks until `add_checks` has put checks of their indices there."""
        self.loads = 0
        self.stores = 0

    def walk_block(self, block: Block) -> None:
        outer = self.available, self.unread_stores
        self.available, self.unread_stores = {}, {}
        out: list[Op] = []
        self.walk_ops(block.ops, out)
        block.ops = out
        self.available, self.unread_stores = outer

    def visit(self, op: Op, out: list[Op]) -> None:
        self.numbers[op] = len(self.numbers)
        if op.definition.is_pure:
            if op.definition.name in ("add", "sub"):
                self.record_sum(op)
        elif op.name == "load":
            if self.forward(op):
                return
        elif op.name == "store":
            self.store(op)
        else:
            self.clobber(effects_of(op))
        out.append(op)

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        self.numbers[op] = len(self.numbers)
        for block in op.regions:
            self.walk_block(block)
        self.clobber(self.by_op[op])
        out.append(op)

    def forward(self, op: Op) -> bool:
        """Replace a load by the available value of its element; return whether there is one."""
        buffer, span = op.attrs["buffer"], self.span_of(op.indices, op.result)
        elements = self.available.setdefault(buffer, _Elements())
        available = elements.get(span)
        # one buffer may be accessed by scalars and by vectors: `get` compares lanes, this the element type
        if (
            available is not None
            and available.value.type is op.result.type
            and self.is_as_uniform(available.value, op.result)
        ):
            self.replaced[op.result] = available.value
            self.loads += 1
            message = f"this load of @{buffer} gives a value that is known here"
            self.remark(message, op, "forward", source=available.source)
            return True
        if self.ctx.is_debugging:
            problem = (
                f"of %{available.value.name} it is not known that it is as uniform, or its type is another"
                if available is not None
                else f"nothing is known of this element of @{buffer}"
            )
            self.ctx.debug("{} stays: {}", op, problem, loc=op.loc)
        if buffer in self.unread_stores:
            self.unread_stores[buffer].invalidate(span)
        if available is None:
            elements.put(span, _AvailableValue(op.result, op))
        return False

    def store(self, op: Op) -> None:
        """Remove a store if it changes nothing; otherwise an unread store that it overwrites."""
        value = op.operands[0]
        buffer, span = op.attrs["buffer"], self.span_of(op.indices, value)
        elements = self.available.setdefault(buffer, _Elements())
        available = elements.get(span)
        if available is not None and available.value is value:
            self.stores += 1
            self.dead_stores.add(op)
            message = f"this store is removed: @{buffer} already holds this value here"
            self.remark(message, op, "forward", source=available.source)
            return
        pending = self.unread_stores.setdefault(buffer, _Elements())
        earlier = pending.get(span)
        if earlier is not None:
            self.dead_stores.add(earlier)
            self.stores += 1
            message = f"this store is removed: @{buffer} is overwritten before anything reads it"
            self.remark(message, earlier, "overwrite", by=op)
        pending.invalidate(span)
        pending.put(span, op)
        elements.invalidate(span)
        elements.put(span, _AvailableValue(value, op))

    def remark(self, message: str, op: Op, claim: str, **others: Op) -> None:
        """Remark that an access goes, with the numbers of the ops that are the reason."""
        numbers = {name: self.numbers[other] for name, other in others.items()}
        facts = {"program": self.program_name, "op": self.numbers[op], **numbers}
        self.ctx.remark("applied", message, op.loc, claim=claim, buffer=op.attrs["buffer"], **facts)

    def clobber(self, effects: Effects) -> None:
        """Drop values that an op may change, and unread stores that it may observe."""
        # the host sees the last store before a trap, and other lanes see the last one before a barrier
        if effects.orders or effects.stops:
            self.unread_stores.clear()
        if effects.orders:
            for name in list(self.available):
                if name not in self.constant_buffers:
                    del self.available[name]
        for name in effects.writes:
            self.available.pop(name, None)
        for name in effects.reads:
            self.unread_stores.pop(name, None)

    # --- indexes ------------------------------------------------------------------------

    def span_of(self, indices: Sequence[Value], value: Value) -> _ElementRange:
        """The elements that a load or a store of `value` at `indices` accesses."""
        *outer, index = indices
        modulus = 1 << (index.type.bits or 1)
        base, offset = self.sum_of(index)
        # rows whose indices are computed in two ways get two bases, so they may or may not be the same row
        row = tuple([self.sum_of(each) for each in outer])
        return _ElementRange(
            (*row, base) if row else base, offset, value.type.lanes, modulus, base is not None
        )

    def sum_of(self, index: Value) -> tuple[Value | None, int]:
        """Return an index as base value plus constant; the base is None for 0."""
        constant = constant_value(index)
        if constant is not None:
            return None, constant
        base, offset = self.sums.get(index, (index, 0))
        return base, offset % (1 << (index.type.bits or 1))

    def record_sum(self, op: Op) -> None:
        """Record an index that is another value plus or minus a constant."""
        if not op.result.type.is_int:
            return
        a, b = op.operands
        offset = constant_value(b)
        if offset is None and op.name == "add":
            a, offset = b, constant_value(a)
        if offset is not None:
            base, inner = self.sums.get(a, (a, 0))
            self.sums[op.result] = base, inner + (offset if op.name == "add" else -offset)

    def is_as_uniform(self, value: Value, loaded: Value) -> bool:
        return self.facts is None or self.facts.level(value) <= self.facts.level(loaded)


def _remove(block: Block, dead: Collection[Op]) -> None:
    if any(op in dead for op in block.ops):
        block.ops = [op for op in block.ops if op not in dead]
    for op in block.ops:
        for inner in op.regions:
            _remove(inner, dead)


def _has_nested_sync(program: Program, by_op: dict[Op, Effects]) -> bool:
    """Whether control flow surrounds a barrier or an op of a subgroup, which all its lanes must reach together."""
    return any(effects.orders for effects in by_op.values()) or any(
        "subgroup" in inner.definition.effects for op in by_op for block in op.regions for inner in block.ops
    )
