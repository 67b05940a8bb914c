"""Plain accesses of workgroup memory beside atomics of its elements, with no barrier between the two.

    store 0, @bins[%l]                %l = local_id x
    atomic_add @bins[%v], 1           %v = load @x[%i]: any element, which its own invocation may set to 0 afterwards
    %n = load @bins[%l]               others may still count

Atomics order themselves, and nothing else.  An exchange is left out, since it may be a lock, which a store gives back; so is a load
that decides whether there is an atomic at all, `if v > best[0]: atomic_max(best, 0, v)`, and one that a loop waits by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..program import Block, Op, Program, Value
from .data_conditions import IDS, leaves, varies
from .racing_stores import UPDATES
from .touched_elements import Access, Place, Touch

__all__ = ["Counted"]

COUNTS = (*UPDATES.values(), "atomic_sub")
"""Atomics that change what is there."""
_MOST_TERMS = 50
"""Ops of a condition that are looked at."""


Pair = tuple[Touch, Touch]
"""Accesses of one element, the later one first."""


class Counted:
    """Elements of workgroup memory that atomics have changed since the last barrier.  `meets`: whether an access of now and one before are of two
    invocations that nothing orders.  `at`: by buffer and element, the atomics of two invocations; `anywhere`: by buffer, those of which
    the contents of an array say the element."""

    def __init__(self, program: Program, meets: Callable[[Touch, Touch], bool]) -> None:
        self.meets = meets
        self.at: dict[str, dict[Place, list[Touch]]] = {}
        self.anywhere: dict[str, list[Touch]] = {}
        counted = {op.attrs["buffer"] for op in program.walk() if op.name in COUNTS}
        self.asked: set[Op] = set()
        """Loads that decide whether there is an atomic, or how long a loop waits."""
        if counted:
            self.buffers_of(program.body)

    def clear(self) -> None:
        """Forget the atomics before a barrier."""
        self.at.clear()
        self.anywhere.clear()

    def buffers_of(self, block: Block) -> set[str]:
        """Buffers that atomics of a block change; the loads that decide these are noted."""
        found = {op.attrs["buffer"] for op in block.ops if op.name in COUNTS}
        for op in block.ops:
            inner = {name for region in op.regions for name in self.buffers_of(region)}
            if op.name == "if":
                self.asked |= {load for load in _loads(op.operands[0]) if load.attrs["buffer"] in inner}
            elif op.name == "while" and (end := op.regions[0].terminator) is not None:
                self.asked |= {load for value in end.operands for load in _loads(value)}
            found |= inner
        return found

    def plain(self, name: str, access: Access, touched: Iterable[tuple[int, Place]]) -> Pair | None:
        """The first load or store of an element that meets an atomic."""
        at, anywhere = self.at.get(name, {}), self.anywhere.get(name, [])
        if access.op in self.asked or not (at or anywhere):
            return None
        for lane, place in touched:
            touch = lane, access
            for other in (*at.get(place, ()), *anywhere):
                if self.meets(touch, other):
                    return touch, other
        return None

    def atomic(
        self,
        name: str,
        access: Access,
        touched: Iterable[tuple[int, Place]],
        stores: Mapping[Place, Touch],
        loads: Mapping[Place, Sequence[Touch]],
    ) -> Pair | None:
        """Note atomics of elements; the first that meets a load or a store."""
        if access.op.name not in COUNTS:
            return None
        at = self.at.setdefault(name, {})
        for lane, place in touched:
            touch = lane, access
            for other in self.before(place, stores, loads):
                if self.meets(touch, other):
                    return touch, other
            at[place] = [*(each for each in at.get(place, ())[-1:] if each[0] != lane), touch]
        return None

    def of_data(
        self,
        name: str,
        access: Access,
        lanes: Sequence[int],
        stores: Mapping[Place, Touch],
        loads: Mapping[Place, Sequence[Touch]],
    ) -> Pair | None:
        """Note atomics of elements that the contents of an array say, of several invocations; the first that meets a load or a store."""
        if access.op.name not in COUNTS or not any(map(_is_data, access.op.indices)) or len(lanes) < 2:
            return None
        ends = [(lane, access) for lane in (lanes[0], lanes[-1])]
        for place in {**stores, **loads}:
            for other in self.before(place, stores, loads):
                for touch in ends:
                    if self.meets(touch, other):
                        return touch, other
        self.anywhere[name] = ends
        return None

    def before(
        self, place: Place, stores: Mapping[Place, Touch], loads: Mapping[Place, Sequence[Touch]]
    ) -> Sequence[Touch]:
        """The accesses of an element before an atomic that may be told."""
        store = stores.get(place)
        found = [] if store is None else [store]
        return [*found, *(load for load in loads.get(place, ()) if load[1].op not in self.asked)]


def _is_data(index: Value) -> bool:
    """Whether an index is computed from what each invocation loads, and not from ids, which give each a part of its own."""
    found = leaves(index)
    loads = [leaf for leaf in found or () if isinstance(leaf, Op) and leaf.name == "load"]
    has_ids = any(not isinstance(leaf, Op) or leaf.name in IDS for leaf in found or ())
    return not has_ids and any(map(varies, loads))


def _loads(condition: Value) -> set[Op]:
    """Loads that a condition is computed from."""
    found, pending = set[Op](), [condition]
    for _ in range(_MOST_TERMS):
        if not pending:
            break
        op = pending.pop().owner
        if not isinstance(op, Op):
            continue
        if op.name == "load":
            found.add(op)
        pending += (*op.operands, *(v for r in op.regions if r.terminator for v in r.terminator.operands))
    return found
