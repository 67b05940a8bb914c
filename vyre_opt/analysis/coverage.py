"""Elements that a workgroup has surely written when it reads a buffer.

One walk over the footprint events keeps three tables of what is surely written at this point:

    visible   by the workgroup, with a barrier since
    pending   by the workgroup, since the last barrier
    own       by the reading lane itself

A copy is written by the wait for it, so what is copied waits in a fourth table until then.  Which lane moves an element of
a matrix is open: such a write is the workgroup's alone, and such a read is of what the workgroup has written.

An entry is a set of elements under a key: the terms of the index that are the same for the whole
workgroup, and those of the loops around (an entry speaks of the current iteration).  At the end of a
loop its entries are spread over its iterations; what happened only in some iterations, or under a
condition that may not hold again, is dropped.  A write under a condition becomes an entry with that
condition, and covers only reads under the same one.

What both arms of an `if` write at equal indices is written whichever arm a lane takes:

    if %p { store %a, @h[%i] } else { store %b, @h[%i] }       at the end, a write of @h[%i] without %p

Entries are only ever added where the write surely happened, so the analysis errs by refusing.

The elements of an entry are values of the affine expression of its index.  An entry therefore keeps
the residue of the index, and covers only reads for which equal expressions mean the same element
(see congruence).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from typing import Any, NamedTuple

from ..ir.program import Op
from ..records import dataclass
from .affine import AffineExpr, Range, Symbol, SymbolKind
from .affine_analysis import LoopCounter, Unknown
from .congruence import Residue, same_element
from .elements import Elements
from .footprint import (
    Barrier,
    BranchEnd,
    BranchStart,
    CopyWait,
    Event,
    Footprints,
    LoopEnd,
    LoopStart,
    MemoryAccess,
    Predicate,
)
from .refusal import Refusal

__all__ = ["CoverageWalk", "covered_accesses"]

GROUP, LOCAL, LOOP, VALUE = SymbolKind
MOST_WRITERS = 8
"""Most writes that are named for a read and a condition."""

Key = tuple[str, frozenset[tuple[Symbol, int]]]
"""A buffer, and terms of an index."""


def covered_accesses(
    footprints: Footprints, buffer: str, before: Iterable[Event], after: Iterable[Event], of_writes: bool
) -> set[Op]:
    """The accesses of `buffer` in `after` whose elements their workgroup has surely written before.

    `before` and `after` are whole parts of the body with a workgroup barrier between.  The result has
    loads of `after`, which earlier stores of `after` may cover too; or, with `of_writes`, stores of
    `after`, which only those of `before` cover.  Atomics and accesses at an index that is loaded data
    are never covered.
    """
    walk = CoverageWalk(footprints, {buffer})
    queried: set[Op] = set()
    for in_after, events in ((False, before), (True, after)):
        for event in events:
            if not isinstance(event, MemoryAccess):
                walk.event(event)
            elif event.buffer != buffer or event.is_atomic or not walk.has_known_index(event):
                continue
            elif in_after and event.is_write is of_writes:
                queried.add(event.op)
                walk.read(event)
            elif event.is_write and not (in_after and of_writes):
                walk.write(event)
        walk.barrier()
    return queried & walk.order.keys()


class _Condition(NamedTuple):
    """Condition under which an entry holds for a read: all its `predicates` hold for the read, the read's lanes are among
    `lanes`, and equal expressions mean the same element."""

    predicates: frozenset[Predicate]
    residue: Residue
    lanes: frozenset[tuple[Symbol, Range]] = frozenset()

    def holds(self, access: MemoryAccess, predicates: frozenset[Predicate], residue: Residue) -> bool:
        """`predicates`, `residue`: those of the access."""
        return (
            self.predicates <= predicates
            and same_element(self.residue, residue)
            and all(_within(access, symbol, limits) for symbol, limits in self.lanes)
        )


class _Read(NamedTuple):
    """The arguments of `_Condition.holds`, computed once for a read."""

    access: MemoryAccess
    predicates: frozenset[Predicate]
    residue: Residue


class _WrittenElements:
    """key -> condition -> elements, with a journal so that the end of a loop can undo its entries."""

    def __init__(self) -> None:
        self.entries: dict[Key, dict[_Condition, Elements]] = {}
        self.journal: list[tuple[Key, _Condition, Elements | None]] = []

    def add(self, key: Key, condition: _Condition, elements: Elements) -> None:
        by_condition = self.entries.setdefault(key, {})
        old = by_condition.get(condition)
        union = elements if old is None else old.union(elements)
        if union is not None:  # otherwise it spans too far, and the old entry stays true
            by_condition[condition] = union
            self.journal.append((key, condition, old))

    def undo(self, mark: int) -> dict[tuple[Key, _Condition], Elements]:
        """Undo all additions since journal position `mark`, and return them merged."""
        entries: dict[tuple[Key, _Condition], Elements] = {}
        for key, condition, old in reversed(self.journal[mark:]):
            by_condition = self.entries[key]
            entries.setdefault((key, condition), by_condition[condition])
            if old is None:
                del by_condition[condition]
            else:
                by_condition[condition] = old
        del self.journal[mark:]
        return entries


class _Pending(NamedTuple):
    key: Key
    condition: _Condition
    elements: Elements


@dataclass(slots=True)
class _LoopFrame:
    """An open loop: the positions in the two journals, in `pending` and in `copies` at which its entries start."""

    visible: int
    by_lane: int
    pending: int
    copies: int


@dataclass(slots=True)
class _Floor:
    """Start of the entries of an open branch or maybe-empty loop in `pending` and in `copies`."""

    pending: int = 0
    copies: int = 0


@dataclass(slots=True)
class _Arm:
    """An open arm of an `if`: what each lane in it surely writes; `loops`: how many are open around it."""

    loops: int
    writes: list[MemoryAccess] = field(default_factory=list)


class CoverageWalk:
    """Goes over the events once.  The results, by buffer or by op:

    `accesses`: in program order.
    `order`: what orders a covered read after its write, `barrier` or `same lane`.
    `written_by`: the writes that cover a read, by the lanes and iterations at which their indices are the element.
    `refused`: why nothing can be said of a buffer.
    `failed`: the first read that is not covered, and whether only a barrier is missing.
    """

    def __init__(self, footprints: Footprints, names: set[str]) -> None:
        self.footprints = footprints
        self.names = names
        self.visible = _WrittenElements()
        self.by_lane = _WrittenElements()
        self.pending: list[_Pending] = []
        self.copies: list[_Pending] = []  # that are not waited for yet
        self.floors: list[_Floor] = []
        self.frames: list[_LoopFrame] = []
        self.arms: list[_Arm] = []
        self.first_arms: dict[Op, _Arm] = {}  # of open ifs whose first arm has ended
        self.accesses: dict[str, list[MemoryAccess]] = {}
        self.order: dict[Op, str] = {}
        self.written_by: dict[Op, list[MemoryAccess]] = {}
        self.writers: dict[tuple[Key, _Condition], list[MemoryAccess]] = {}
        """The writes of entries, by key without counters, since loops go from keys in the end."""
        self.refused: dict[str, Refusal] = {}
        self.failed: dict[str, tuple[MemoryAccess, bool]] = {}

    def run(self) -> None:
        for event in self.footprints.events:
            if not isinstance(event, MemoryAccess):
                self.event(event)
            elif event.buffer in self.names and event.buffer not in self.refused:
                self.access(event)

    def event(self, event: Event) -> None:
        """Process a barrier, a wait, or the start or end of a loop or a branch."""
        if isinstance(event, Barrier):
            if event.scope != "subgroup":
                self.barrier()
        elif isinstance(event, CopyWait):
            if not event.pending:  # else some copies are not waited for
                self.wait()
        elif isinstance(event, LoopStart):
            journals = len(self.visible.journal), len(self.by_lane.journal)
            self.frames.append(_LoopFrame(*journals, len(self.pending), len(self.copies)))
            if event.counter is None or event.counter.min_trips < 1:
                self.floors.append(_Floor(len(self.pending), len(self.copies)))
        elif isinstance(event, LoopEnd):
            self.leave(event)
        elif isinstance(event, BranchStart):
            self.floors.append(_Floor(len(self.pending), len(self.copies)))
            self.arms.append(_Arm(len(self.frames)))
        elif isinstance(event, BranchEnd):
            self.floors.pop()
            self.leave_arm(event)

    def has_known_index(self, access: MemoryAccess) -> bool:
        """Whether the index is affine and independent of loaded data."""
        return isinstance(access.index, AffineExpr) and self.footprints.data_source(access) is None

    # --- events -----------------------------------------------------------------------

    def access(self, access: MemoryAccess) -> None:
        self.accesses.setdefault(access.buffer, []).append(access)
        if access.is_atomic:
            message = f"{access.op.name} on @{access.buffer}: atomics order across workgroups"
            self.refuse(access, "atomic", message)
        elif (source := self.footprints.data_source(access)) is not None:
            message = f"the index of this {access.op.name} depends on data loaded from @{source}"
            self.refuse(access, "data-dependent", message)
        elif isinstance(access.index, Unknown):
            reason = access.index.reason
            self.refuse(access, "not-affine", f"the index of this {access.op.name} is not affine: {reason}")
        elif access.is_write:
            self.write(access)
        elif access.buffer not in self.failed:
            self.read(access)

    def refuse(self, access: MemoryAccess, reason: str, message: str, **facts: Any) -> None:
        self.refused[access.buffer] = Refusal(reason, message, access.buffer, access.op.loc, facts)

    def write(self, access: MemoryAccess) -> None:
        elements = access.elements()
        if elements is None:
            self.refuse(access, "too-large", "the elements this store touches span too far to track")
            return
        # a loop in the arm may not run, and its counter is another one in each arm
        if self.arms and self.arms[-1].loops == len(self.frames):
            self.arms[-1].writes.append(access)
        if not elements:
            return
        condition = _Condition(access.predicates, access.residue)
        lanes = frozenset(access.lanes.items())
        # for the lane itself the key has all terms of the index, so one element (or vector) is left
        is_by_lane = not (access.is_collective or access.is_copy)
        lane_elements = access.first_elements() if is_by_lane else None
        if lane_elements is not None:
            lane_condition = condition._replace(lanes=lanes)
            self.writers.setdefault((_without_counters(access, LOCAL, VALUE), lane_condition), []).append(
                access
            )
            self.by_lane.add((access.buffer, access.expr.key), lane_condition, lane_elements)
        # for the group, every lane must have written: not so under a lane's own condition, and through
        # an unknown value a lane writes one unknown element of the range
        if not access.expr.has_unknown and all(p.kind != "lane" for p in condition.predicates):
            key = (access.buffer, access.expr.terms_of(GROUP, LOOP).key)
            (self.copies if access.is_copy else self.pending).append(_Pending(key, condition, elements))
            self.writers.setdefault((_without_counters(access), condition), []).append(access)

    def barrier(self) -> None:
        """Make the entries visible that are pending since the innermost branch or maybe-empty loop began."""
        # a barrier in a branch that was not taken orders nothing for the entries from before the branch
        floor = self.floors[-1].pending if self.floors else 0
        for entry in self.pending[floor:]:
            self.visible.add(*entry)
        del self.pending[floor:]
        # the remaining entries are older than the branch, so they belong to no loop opened since then
        for frame in self.frames:
            frame.pending = min(frame.pending, floor)

    def wait(self) -> None:
        """Make pending what was copied since the innermost branch or maybe-empty loop began."""
        floor = self.floors[-1].copies if self.floors else 0
        self.pending += self.copies[floor:]
        del self.copies[floor:]
        for frame in self.frames:
            frame.copies = min(frame.copies, floor)

    def leave_arm(self, event: BranchEnd) -> None:
        """Add, after the second arm of an `if`, the writes that every lane has made in one arm or the other."""
        arm = self.arms.pop()
        if event.arm == 0:
            self.first_arms[event.op] = arm
            return
        firsts: dict[tuple[str, AffineExpr, int], list[MemoryAccess]] = {}
        for access in self.first_arms.pop(event.op).writes:
            firsts.setdefault((access.buffer, access.expr, access.width), []).append(access)
        for second in arm.writes:
            for first in firsts.get((second.buffer, second.expr, second.width), ()):
                if same_element(first.residue, second.residue):
                    # behind both arms: a barrier within one does not order it
                    self.write(replace(second, guards=event.guards, lanes=event.lanes))
                    break

    def leave(self, event: LoopEnd) -> None:
        """Replace the entries of an iteration by those of the whole loop."""
        frame = self.frames.pop()
        counter = event.counter
        if counter is None or counter.min_trips < 1:
            counter = None  # its entries go: they hold only if it ran, which nobody knows afterwards
            self.floors.pop()
        for table, mark in ((self.visible, frame.visible), (self.by_lane, frame.by_lane)):
            for (key, condition), elements in table.undo(mark).items():
                spread = self.after_loop(event.op, counter, key, condition, elements)
                if spread is not None:
                    table.add(spread[0], condition, spread[1])
        for entries, start in ((self.pending, frame.pending), (self.copies, frame.copies)):
            remaining: list[_Pending] = []
            for entry in entries[start:]:
                spread = self.after_loop(event.op, counter, *entry)
                if spread is not None:
                    remaining.append(_Pending(spread[0], entry.condition, spread[1]))
            entries[start:] = remaining

    def after_loop(
        self, loop: Op, counter: LoopCounter | None, key: Key, condition: _Condition, elements: Elements
    ) -> tuple[Key, Elements] | None:
        """An entry of the last iteration as one of the whole loop; None if it does not carry over."""
        # a condition that changes from one iteration to the next was true in the last one; the entry spread
        # over the others would say that they wrote too
        if counter is None or any(loop in predicate.loops for predicate in condition.predicates):
            return None
        buffer, terms = key
        invariant: list[tuple[Symbol, int]] = []
        total: Elements | None = elements
        for symbol, coefficient in terms:
            if symbol == counter.symbol:
                # only the iterations that surely ran: with more, elements that nobody wrote would count
                total = total.spread(coefficient, counter.min_trips) if total is not None else None
            elif loop in symbol.loops:
                return None  # its value in the last iteration says nothing of the others
            else:
                invariant.append((symbol, coefficient))
        return None if total is None else ((buffer, frozenset(invariant)), total)

    # --- reads ------------------------------------------------------------------------

    def read(self, access: MemoryAccess) -> None:
        """Look for the read's elements among what is written: first for one iteration, then for all
        iterations of the innermost loop, and so on outwards, since entries from before a loop have no
        terms of its counter."""
        elements = access.elements()
        lane = None if access.is_collective else access.first_elements()
        if elements is not None and not elements:  # no lane gets here
            self.order[access.op] = "same lane"
            return
        query = _Read(access, access.predicates, access.residue)
        group_key, lane_key = access.expr.terms_of(GROUP, LOOP), access.expr
        for counter in (None, *reversed(access.loops)):
            if counter is not None:
                coefficient = access.expr.terms.get(counter.symbol, 0)
                if coefficient:
                    # all iterations that may run: with fewer, a read of an unwritten element would pass
                    elements = (
                        elements.spread(coefficient, counter.max_trips) if elements is not None else None
                    )
                    lane = lane.spread(coefficient, counter.max_trips) if lane is not None else None
                    group_key, lane_key = (expr.without([counter.symbol]) for expr in (group_key, lane_key))
            if lane is not None and not self.uncovered(self.by_lane, query, lane_key, lane):
                self.order[access.op] = "same lane"
                self.written_by[access.op] = self.writers_of(self.by_lane, query, lane_key)
                return
            if elements is not None and not self.uncovered(self.visible, query, group_key, elements):
                self.order[access.op] = "barrier"
                self.written_by[access.op] = self.writers_of(self.visible, query, group_key)
                return
        if elements is None:
            self.refuse(access, "too-large", "the elements this load touches span too far to track")
            return
        missing = elements
        for entry in self.pending:
            if entry.key == (access.buffer, group_key.key) and entry.condition.holds(*query):
                missing = missing.minus(entry.elements)
        missing = self.uncovered(self.visible, query, group_key, missing)
        self.failed[access.buffer] = (access, not missing)

    def uncovered(
        self, table: _WrittenElements, query: _Read, expr: AffineExpr, elements: Elements
    ) -> Elements:
        """`elements` without those that the entries of a table at the key of `expr` cover."""
        for condition, written in table.entries.get((query.access.buffer, expr.key), {}).items():
            if condition.holds(*query):
                elements = elements.minus(written)
        return elements

    def writers_of(self, table: _WrittenElements, query: _Read, expr: AffineExpr) -> list[MemoryAccess]:
        """The writes of the entries by which a read is covered, the first of them where there are many."""
        conditions = table.entries.get((query.access.buffer, expr.key), ())
        kinds = (LOCAL, VALUE) if table is self.by_lane else ()
        key = _without_counters(query.access, *kinds)
        lists = [self.writers.get((key, c), [])[:MOST_WRITERS] for c in conditions if c.holds(*query)]
        return list({write.op: write for writes in lists for write in writes}.values())


def _without_counters(access: MemoryAccess, *kinds: SymbolKind) -> Key:
    """The buffer, and the terms of an index that are the workgroup's, or of one of `kinds`."""
    return access.buffer, access.expr.terms_of(GROUP, *kinds).key


def _within(access: MemoryAccess, symbol: Symbol, limits: Range) -> bool:
    lowest, highest = access.lanes.get(symbol, symbol.range)
    return limits[0] <= lowest and highest <= limits[1]
