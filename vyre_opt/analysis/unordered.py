"""Accesses of workgroup memory that nothing orders: a lane loads what another one stores.

    store %v, @t[%l]
                            no barrier: which comes first is not said
    %r = load @t[%mirror]

This looks for a store and a load of different elements' places with no barrier on the way from one to
the other, once through the body or once around a loop.  It warns and proves nothing: an index that
cannot be followed is taken at its word, and the interpreter tells for sure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..ir.program import Op
from ..ir.uniformity import Level
from .affine import SymbolKind
from .affine_analysis import Unknown
from .clamped import clamped_expr
from .dependence import DependenceTest
from .footprint import Barrier, BranchEnd, BranchStart, Event, Footprints, LoopEnd, LoopStart, MemoryAccess

__all__ = ["unordered_loads"]


def unordered_loads(footprints: Footprints) -> Iterator[tuple[MemoryAccess, MemoryAccess]]:
    """A store and a load of a workgroup buffer that no barrier orders, the first such store for each load."""
    buffers = footprints.program.buffers
    events = [_near(footprints, event) for event in footprints.events]
    dependence = DependenceTest(footprints, (1, 1, 1))
    told: set[Op] = set()
    for store, load in _unparted(events):
        if buffers[load.buffer].is_workgroup and load.op not in told and _may_meet(dependence, store, load):
            told.add(load.op)
            yield store, load


def _near(footprints: Footprints, event: Event) -> Event:
    """An access, at an index that is looked into where it is clamped."""
    expr = clamped_expr(footprints.affine, event.op.index) if isinstance(event, MemoryAccess) else None
    return replace(event, index=expr) if isinstance(event, MemoryAccess) and expr is not None else event


@dataclass(slots=True)
class _Branches:
    """An `if` on the way: the stores before it, and those after each of its blocks."""

    op: Op
    before: list[MemoryAccess]
    after: list[list[MemoryAccess]] = field(default_factory=list)

    def merged(self) -> list[MemoryAccess]:
        ways = self.after if len(self.after) > 1 else [self.before, *self.after]
        return list({id(store): store for way in ways for store in way}.values())


def _unparted(events: list[Event]) -> Iterator[tuple[MemoryAccess, MemoryAccess]]:
    """Stores, and loads of the same buffer with no barrier between, on some way from one to the other.

    A loop is walked twice, so that what a round stores meets what the next one loads.
    """
    stores: list[MemoryAccess] = []
    branches: list[_Branches] = []
    open_loops: list[int] = []
    again: set[int] = set()
    at = 0
    while at < len(events):
        event = events[at]
        if isinstance(event, Barrier):
            stores = []  # of any scope: who writes one within a subgroup, means to exchange there
        elif isinstance(event, BranchStart):
            if not branches or branches[-1].op is not event.op:
                branches.append(_Branches(event.op, stores))
            stores = list(branches[-1].before)
        elif isinstance(event, BranchEnd):
            branches[-1].after.append(stores)
            if len(branches[-1].after) == len(event.op.regions):
                stores = branches.pop().merged()
        elif isinstance(event, LoopStart):
            open_loops.append(at)
        elif isinstance(event, LoopEnd):
            start = open_loops.pop()
            if start not in again:
                again.add(start)
                at = start
                continue
        elif isinstance(event, MemoryAccess) and not event.is_atomic:
            if event.is_write:
                stores.append(event)
            else:
                yield from ((store, event) for store in stores if store.buffer == event.buffer)
        at += 1


def _may_meet(dependence: DependenceTest, store: MemoryAccess, load: MemoryAccess) -> bool:
    """Whether different lanes touch one element, as far as the indices tell."""
    if _exclude(store, load):
        return False
    if store.op.index is load.op.index and _is_data(store):
        return False  # a lane's own place, wherever it is
    if isinstance(store.index, Unknown) or isinstance(load.index, Unknown):
        return not (store.lanes or load.lanes or store.guards or load.guards)
    return not dependence.disjoint_between_lanes(store, load)


def _is_data(access: MemoryAccess) -> bool:
    return isinstance(access.index, Unknown) or bool(access.expr.terms_of(SymbolKind.VALUE).terms)


def _exclude(store: MemoryAccess, load: MemoryAccess) -> bool:
    """Whether a workgroup makes one of the two at most: under a condition, and under its opposite."""
    taken = {(guard.value, guard.holds) for guard in store.guards if guard.level <= Level.WORKGROUP}
    return any((guard.value, not guard.holds) in taken for guard in load.guards)
