"""What a workgroup has surely written when it reads a buffer.

One walk over the footprint events keeps three tables of what is surely written at this
point,

    visible   by the workgroup, and ordered before by a barrier
    pending   by the workgroup, since the last barrier
    own       by the lane that asks

as sets of elements under a key: the terms of the index that are the same for the
whole workgroup, and those of the loops around (so that an entry speaks of the current
iteration).  Leaving a loop spreads its entries over its iterations; what only happened
in some iterations, or under a condition that is not known to hold again, is dropped.
A write under a condition is an entry with that condition; it covers a read under the
same one.  Entries are only ever added where the write surely happened, so what the
tables do not show is refused, with the reason.

The elements of an entry are values of the form of its index, so an entry keeps how the index
follows from the form, and covers only reads for which equal forms are the same element
(see congruence).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..ir.diagnostics import Location
from ..ir.program import Op
from .affine import Affine, Range, Symbol, SymbolKind
from .congruence import Residue, same_element
from .elements import Elements
from .footprint import (
    Atom,
    Barrier,
    BranchEnd,
    BranchStart,
    Event,
    Footprints,
    LoopEnd,
    LoopStart,
    MemoryAccess,
)
from .forms import Counter, Unknown

__all__ = ["Refusal", "Walk", "covered"]

GROUP, LOCAL, LOOP, VALUE = SymbolKind
Key = frozenset[tuple[Symbol, int]]
Atoms = frozenset[Atom]


@dataclass(slots=True)
class Refusal:
    """Why the claim is not proven.  `code` is stable, for tests and tools."""

    code: str
    message: str
    loc: Location | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def covered(
    footprints: Footprints, buffer: str, writing: Iterable[Event], asking: Iterable[Event], of_writes: bool
) -> set[Op]:
    """The accesses of `buffer` in `asking` whose elements their workgroup has surely written before.

    `writing` comes before `asking`, both whole parts of the body with a workgroup barrier between.  Asked
    for are the loads, which stores of `asking` before them may cover too; or, `of_writes`, the stores,
    which only those of `writing` cover.  Accesses by atomics, or at an index that is data, are not covered.
    """
    walk = Walk(footprints, {buffer})
    wanted: set[Op] = set()
    for asked, events in ((False, writing), (True, asking)):
        for event in events:
            if not isinstance(event, MemoryAccess):
                walk.event(event)
            elif event.buffer != buffer or event.is_atomic or not walk.follows(event):
                continue
            elif asked and event.is_write is of_writes:
                wanted.add(event.op)
                walk.read(event)
            elif event.is_write and not (asked and of_writes):
                walk.write(event)
        walk.barrier()
    return wanted & walk.order.keys()


class _Condition(NamedTuple):
    """When an entry says something of a read: `atoms` hold for it, its lanes are among `lanes`, and equal
    forms are the same element."""

    atoms: Atoms
    residue: Residue
    lanes: frozenset[tuple[Symbol, Range]] = frozenset()

    def holds(self, access: MemoryAccess, atoms: Atoms, residue: Residue) -> bool:
        """`atoms`, `residue`: those of the access."""
        return (
            self.atoms <= atoms
            and same_element(self.residue, residue)
            and all(_within(access, symbol, limits) for symbol, limits in self.lanes)
        )


class _Asked(NamedTuple):
    """A read, with what `_Condition.holds` asks of it."""

    access: MemoryAccess
    atoms: Atoms
    residue: Residue


class _Table:
    """key -> conditions -> elements, with a journal so that a loop can take its entries back."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, Key], dict[_Condition, Elements]] = {}
        self.journal: list[tuple[tuple[str, Key], _Condition, Elements | None]] = []

    def add(self, key: tuple[str, Key], condition: _Condition, elements: Elements) -> None:
        slot = self.entries.setdefault(key, {})
        old = slot.get(condition)
        merged = elements if old is None else old.union(elements)
        if merged is not None:
            slot[condition] = merged
            self.journal.append((key, condition, old))

    def take_back(self, mark: int) -> dict[tuple[tuple[str, Key], _Condition], Elements]:
        """Undo all since `mark`; what was added, merged by key and condition."""
        added: dict[tuple[tuple[str, Key], _Condition], Elements] = {}
        for key, condition, old in reversed(self.journal[mark:]):
            slot = self.entries[key]
            added.setdefault((key, condition), slot[condition])
            if old is None:
                del slot[condition]
            else:
                slot[condition] = old
        del self.journal[mark:]
        return added


@dataclass(slots=True)
class _Pending:
    key: tuple[str, Key]
    condition: _Condition
    elements: Elements


@dataclass(slots=True)
class _Frame:
    """An open loop: where its entries start."""

    visible: int
    own: int
    pending: int


class Walk:
    """Goes over the events once.  Afterwards, by buffer or by op:

    `accesses`, in order; `order`, what orders a covered read after its write, `barrier` or `same lane`;
    `refused`, why nothing can be said; `failed`, a read that is not covered, and whether only a barrier
    is missing.
    """

    def __init__(self, footprints: Footprints, names: set[str]) -> None:
        self.footprints = footprints
        self.names = names
        self.visible = _Table()
        self.own = _Table()
        self.pending: list[_Pending] = []
        self.floors: list[int] = []
        self.frames: list[_Frame] = []
        self.accesses: dict[str, list[MemoryAccess]] = {}
        self.order: dict[Op, str] = {}
        self.refused: dict[str, Refusal] = {}
        self.failed: dict[str, tuple[MemoryAccess, bool]] = {}

    def run(self) -> None:
        for event in self.footprints.events:
            if not isinstance(event, MemoryAccess):
                self.event(event)
            elif event.buffer in self.names and event.buffer not in self.refused:
                self.access(event)

    def event(self, event: Event) -> None:
        """What is not an access."""
        if isinstance(event, Barrier):
            if event.scope != "subgroup":
                self.barrier()
        elif isinstance(event, LoopStart):
            self.frames.append(_Frame(len(self.visible.journal), len(self.own.journal), len(self.pending)))
            if event.counter is None or event.counter.least < 1:
                self.floors.append(len(self.pending))
        elif isinstance(event, LoopEnd):
            self.leave(event)
        elif isinstance(event, BranchStart):
            self.floors.append(len(self.pending))
        elif isinstance(event, BranchEnd):
            self.floors.pop()

    def follows(self, access: MemoryAccess) -> bool:
        """Whether the index is a form that no data enters."""
        data = access.op.index in self.footprints.forms.loaded
        return isinstance(access.index, Affine) and not data

    # --- events -----------------------------------------------------------------------

    def access(self, access: MemoryAccess) -> None:
        self.accesses.setdefault(access.buffer, []).append(access)
        if access.is_atomic:
            message = f"{access.op.name} on @{access.buffer}: atomics order across workgroups"
            self.refuse(access, "atomic", message)
        elif (source := self.footprints.forms.loaded.get(access.op.index)) is not None:
            message = f"the index of this {access.op.name} depends on data loaded from @{source}"
            self.refuse(access, "data-dependent", message)
        elif isinstance(access.index, Unknown):
            reason = access.index.reason
            self.refuse(access, "not-affine", f"the index of this {access.op.name} is not affine: {reason}")
        elif access.is_write:
            self.write(access)
        elif access.buffer not in self.failed:
            self.read(access)

    def refuse(self, access: MemoryAccess, code: str, message: str, **facts: Any) -> None:
        self.refused[access.buffer] = Refusal(code, message, access.op.loc, facts)

    def write(self, access: MemoryAccess) -> None:
        elements = access.elements()
        if elements is None:
            self.refuse(access, "too-large", "the elements this store touches span too far to track")
            return
        if not elements:
            return
        condition = _Condition(access.atoms, access.residue)
        lanes = frozenset(access.lanes.items())
        lane_elements = Elements.single(access.form.const).spread(1, access.width)
        if lane_elements is not None:
            own = condition._replace(lanes=lanes)
            self.own.add((access.buffer, access.form.key), own, lane_elements)
        if not access.form.part(VALUE).terms and all(atom.kind != "lane" for atom in condition.atoms):
            key = (access.buffer, access.form.part(GROUP, LOOP).key)
            self.pending.append(_Pending(key, condition, elements))

    def barrier(self) -> None:
        """What is pending since the innermost branch or maybe-empty loop began becomes visible."""
        floor = self.floors[-1] if self.floors else 0
        for entry in self.pending[floor:]:
            self.visible.add(entry.key, entry.condition, entry.elements)
        del self.pending[floor:]
        for frame in self.frames:
            frame.pending = min(frame.pending, floor)

    def leave(self, event: LoopEnd) -> None:
        frame = self.frames.pop()
        counter = event.counter
        surely = counter is not None and counter.least >= 1
        if not surely:
            self.floors.pop()
        for table, mark in ((self.visible, frame.visible), (self.own, frame.own)):
            for (key, condition), elements in table.take_back(mark).items():
                spread = self.after_loop(event.op, counter, key, condition, elements) if surely else None
                if spread is not None:
                    table.add(spread[0], condition, spread[1])
        start = min(frame.pending, len(self.pending))
        kept: list[_Pending] = []
        for entry in self.pending[start:]:
            spread = (
                self.after_loop(event.op, counter, entry.key, entry.condition, entry.elements)
                if surely
                else None
            )
            if spread is not None:
                kept.append(_Pending(spread[0], entry.condition, spread[1]))
        self.pending[start:] = kept
        self.floors = [min(floor, len(self.pending)) for floor in self.floors]

    def after_loop(
        self,
        loop: Op,
        counter: Counter | None,
        key: tuple[str, Key],
        condition: _Condition,
        elements: Elements,
    ) -> tuple[tuple[str, Key], Elements] | None:
        """An entry of the last iteration as one of the whole loop; None if it does not carry over."""
        if counter is None or any(loop in atom.loops for atom in condition.atoms):
            return None
        buffer, terms = key
        kept: list[tuple[Symbol, int]] = []
        found: Elements | None = elements
        for symbol, coefficient in terms:
            if symbol == counter.symbol:
                found = found.spread(coefficient, counter.least) if found is not None else None
            elif loop in symbol.loops:
                return None
            else:
                kept.append((symbol, coefficient))
        return None if found is None else ((buffer, frozenset(kept)), found)

    # --- reads ------------------------------------------------------------------------

    def read(self, access: MemoryAccess) -> None:
        """Look for the read's elements among what is written, over more and more of its loops."""
        whole = access.elements()
        lane = Elements.single(access.form.const).spread(1, access.width)
        if whole is not None and not whole:
            self.order[access.op] = "same lane"
            return
        asked = _Asked(access, access.atoms, access.residue)
        group_key, lane_key = access.form.part(GROUP, LOOP), access.form
        for counter in (None, *reversed(access.loops)):
            if counter is not None:
                coefficient = access.form.terms.get(counter.symbol, 0)
                if coefficient:
                    whole = whole.spread(coefficient, counter.most) if whole is not None else None
                    lane = lane.spread(coefficient, counter.most) if lane is not None else None
                    group_key, lane_key = (form.without([counter.symbol]) for form in (group_key, lane_key))
            if lane is not None and not self.left(self.own, asked, lane_key, lane):
                self.order[access.op] = "same lane"
                return
            if whole is not None and not self.left(self.visible, asked, group_key, whole):
                self.order[access.op] = "barrier"
                return
        if whole is None:
            self.refuse(access, "too-large", "the elements this load touches span too far to track")
            return
        unordered = whole
        for entry in self.pending:
            if entry.key == (access.buffer, group_key.key) and entry.condition.holds(*asked):
                unordered = unordered.minus(entry.elements)
        unordered = self.left(self.visible, asked, group_key, unordered)
        self.failed[access.buffer] = (access, not unordered)

    def left(self, table: _Table, asked: _Asked, form: Affine, wanted: Elements) -> Elements:
        """What the entries of a table leave of the elements that are `wanted` at the terms of `form`."""
        for condition, elements in table.entries.get((asked.access.buffer, form.key), {}).items():
            if condition.holds(*asked):
                wanted = wanted.minus(elements)
        return wanted


def _within(access: MemoryAccess, symbol: Symbol, limits: Range) -> bool:
    least, most = access.lanes.get(symbol, symbol.range)
    return limits[0] <= least and most <= limits[1]
