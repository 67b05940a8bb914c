"""Possible races in workgroup memory: a lane loads what another one stores, with no barrier between.

    store %v, @t[%l]
                            no barrier: the order of these two is undefined
    %r = load @t[%mirror]

This looks for a store and a load that may touch one element, with no barrier on a path from one to the
other, through the body or around a loop.  It is for a warning and proves nothing: a data-dependent
index is assumed to be right.  The interpreter detects races for certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace

from ..ir.program import Op
from ..ir.uniformity import Level
from ..records import dataclass
from .affine import AffineExpr, SymbolKind
from .affine_analysis import Unknown
from .clamped import clamped_expr
from .dependence import DependenceTest
from .footprint import Barrier, BranchEnd, BranchStart, Event, Footprints, LoopEnd, LoopStart, MemoryAccess

__all__ = ["unordered_loads"]


def unordered_loads(footprints: Footprints) -> Iterator[tuple[MemoryAccess, MemoryAccess]]:
    """A store and a load of a workgroup buffer that no barrier orders, the first such store for each load."""
    buffers = footprints.program.buffers
    events = [_resolve_clamp(footprints, event) for event in footprints.events]
    dependence = DependenceTest(footprints, (1, 1, 1))
    reported_loads: set[Op] = set()
    for store, load in _unordered_pairs(events):
        if (
            buffers[load.buffer].is_workgroup
            and load.op not in reported_loads
            and _may_race(dependence, store, load)
        ):
            reported_loads.add(load.op)
            yield store, load


def _resolve_clamp(footprints: Footprints, event: Event) -> Event:
    """An access with a clamped index as one with an affine index, if possible; other events as they are."""
    if not isinstance(event, MemoryAccess):
        return event
    expr = footprints.index(event.op, lambda index: clamped_expr(footprints.affine, index), event.guards)
    return replace(event, index=expr) if isinstance(expr, AffineExpr) else event


@dataclass(slots=True)
class _Branches:
    """An open `if`: the unordered stores before it, and those after each of its blocks."""

    op: Op
    before: list[MemoryAccess]
    after: list[list[MemoryAccess]] = field(default_factory=list)

    def merged(self) -> list[MemoryAccess]:
        # without an else, the stores before the if may reach its end directly
        paths = self.after if len(self.after) > 1 else [self.before, *self.after]
        return list({id(store): store for path in paths for store in path}.values())


def _unordered_pairs(events: list[Event]) -> Iterator[tuple[MemoryAccess, MemoryAccess]]:
    """Stores, and loads of the same buffer after them, with no barrier on some path between.

    A loop is walked twice, to pair the stores of an iteration with the loads of the next one.
    """
    stores: list[MemoryAccess] = []
    branches: list[_Branches] = []
    open_loops: list[int] = []
    repeated: set[int] = set()  # starts of the loops in their second walk
    at = 0
    while at < len(events):
        event = events[at]
        if isinstance(event, Barrier):
            # a barrier of any scope: one within a subgroup is there for an exchange within it
            stores = []
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
            if start not in repeated:
                repeated.add(start)
                at = start
                continue
        elif isinstance(event, MemoryAccess) and not event.is_atomic:
            if event.is_write:
                stores.append(event)
            else:
                yield from ((store, event) for store in stores if store.buffer == event.buffer)
        at += 1


def _may_race(dependence: DependenceTest, store: MemoryAccess, load: MemoryAccess) -> bool:
    """Whether different lanes may touch one element, as far as the indices tell."""
    if _are_exclusive(store, load):
        return False
    if store.op.indices == load.op.indices and _is_data(store):
        return False  # taken as the lane's own element, wherever it is
    if isinstance(store.index, Unknown) or isinstance(load.index, Unknown):
        return not (store.lanes or load.lanes or store.guards or load.guards)
    return not dependence.disjoint_between_lanes(store, load)


def _is_data(access: MemoryAccess) -> bool:
    return isinstance(access.index, Unknown) or bool(access.expr.terms_of(SymbolKind.VALUE).terms)


def _are_exclusive(store: MemoryAccess, load: MemoryAccess) -> bool:
    """Whether a workgroup makes only one of the two: they are under opposite uniform conditions."""
    conditions = {(guard.value, guard.holds) for guard in store.guards if guard.level <= Level.WORKGROUP}
    return any((guard.value, not guard.holds) in conditions for guard in load.guards)
