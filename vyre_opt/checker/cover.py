"""Whether each element that a workgroup reads was written by it before: one walk over events, in order.

    visible   written by the workgroup, and a barrier has passed since
    pending   written by the workgroup since the last barrier
    own       written by the invocation that asks, at the same index

Behind a loop stands what is written in all its iterations, if there is one; behind a branch what both arms write, and what one arm does
under its condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .elements import Elements, elements
from .terms import GROUP, Terms
from .walk import Access, Barrier, Branch, Event, Loop

__all__ = ["Uncovered", "check_cover"]

Condition = tuple[object, ...]


class Uncovered(Exception):
    """A read of what the workgroup may not have written, or in an order that nothing says."""

    def __init__(self, why: str, access: Access) -> None:
        super().__init__(why)
        self.access = access


@dataclass(frozen=True)
class _Written:
    """Elements covered by stores whose index is of a type, under conditions that all lanes of the workgroup agree on, or that are of the element."""

    elements: Elements
    dtype: str
    when: frozenset[Condition]


@dataclass
class _State:
    visible: list[_Written] = field(default_factory=list)
    pending: list[_Written] = field(default_factory=list)
    own: list[Access] = field(default_factory=list)

    def copy(self) -> _State:
        return _State(list(self.visible), list(self.pending), list(self.own))


def check_cover(terms: Terms, events: Sequence[Event], buffer: str, reads: set[Access] | None = None) -> None:
    """Raises Uncovered unless all reads of a buffer, or those among `reads`, are of what their workgroup has written."""
    _Cover(terms, buffer, reads).block(events, _State(), ())


class _Cover:
    def __init__(self, terms: Terms, buffer: str, reads: set[Access] | None) -> None:
        self.terms, self.buffer, self.reads = terms, buffer, reads

    def block(
        self, events: Sequence[Event], state: _State, when: tuple[tuple[int, bool], ...]
    ) -> list[Access]:
        """Goes through a block; gives the stores that each invocation surely makes which comes to it."""
        sure = list[Access]()
        for event in events:
            if isinstance(event, Access):
                sure += self.access(event, state)
            elif isinstance(event, Barrier):
                if event.scope != "subgroup":
                    state.visible += state.pending
                    state.pending = []
            elif isinstance(event, Branch):
                sure += self.branch(event, state, when)
            else:
                self.loop(event, state, when)
        return sure

    def access(self, access: Access, state: _State) -> list[Access]:
        if access.buffer != self.buffer:
            return []
        if access.kind in ("atomic", "other"):
            raise Uncovered(
                f"{access.op.name} may reach beyond the workgroup, or its elements are not known", access
            )
        if len(access.at) != 1:
            raise Uncovered("the buffer has several dimensions", access)
        is_read = access in self.reads if self.reads is not None else access.kind == "load"
        if is_read:
            self.read(access, state)
        if access.kind == "store":
            self.store(access, state)
            return [access]
        return []

    def store(self, access: Access, state: _State) -> None:
        state.own.append(access)
        conditions = self.conditions(access)
        stored = elements(self.terms, access, access.at[0])
        if conditions is not None and stored is not None:
            state.pending.append(_Written(stored, self.terms.types[access.at[0]], conditions))

    def conditions(self, access: Access) -> frozenset[Condition] | None:
        """Conditions under which all lanes of `elements` make a store; None where lanes may differ in it."""
        conditions = set[Condition]()
        for condition, holds in access.when:
            key = self.condition(condition, holds, access)
            if key is None:
                return None
            if key:
                conditions.add(key)
        return frozenset(conditions)

    def condition(self, condition: int, holds: bool, access: Access) -> Condition | None:
        """A condition as all lanes see it; () of one on local ids, which `elements` has looked at."""
        terms = self.terms
        if terms.lanes(condition) is not None:
            return ()
        if not terms.varies[condition] & ~GROUP:
            return (condition, holds)
        key = terms.keys[condition]
        if key[0] == "not":
            return self.condition(key[3][0], not holds, access)
        if key[0] in ("lt", "eq") and access.width == 1:
            for side, index in enumerate(key[3]):
                other = key[3][1 - side]
                if index == access.at[0] and not terms.varies[other] & ~GROUP:
                    return (key[0], side, other, terms.types[index], holds)
        return None

    def read(self, access: Access, state: _State) -> None:
        conditions = set(access.when)
        for store in state.own:
            is_same = store.at == access.at and store.width >= access.width
            if is_same and set(store.when) <= conditions:
                return
        terms = self.terms
        turns = [loop.turn for loop in access.loops if loop.turn is not None]
        wanted = elements(terms, access, access.at[0], is_read=True)
        if wanted is None:
            raise Uncovered("the elements that are read are not known", access)
        keys = {self.condition(condition, holds, access) for condition, holds in access.when}
        by_place: dict[tuple[tuple[int, int], ...], Elements] = {}
        for written in state.visible:
            if written.dtype == terms.types[access.at[0]] and written.when <= keys:
                known = by_place.get(written.elements.fixed)
                by_place[written.elements.fixed] = (
                    written.elements.union(known) if known else written.elements
                )
        for fixed, written_here in by_place.items():
            missing: Elements | None = wanted
            for turn in turns:
                if missing is not None and turn not in dict(fixed):
                    times, missing = missing.without(turn)
                    low, high = terms.bounds[turn]
                    missing = missing.spread(times, high - low + 1)
            if missing is not None and written_here.covers(missing):
                return
        raise Uncovered(
            "no store of the workgroup before a barrier before this is known to be of all that is read",
            access,
        )

    def branch(self, branch: Branch, state: _State, when: tuple[tuple[int, bool], ...]) -> list[Access]:
        entries, sure = list[_Written](), list[list[Access]]()
        before = len(state.own)
        for arm, events in enumerate(branch.arms):
            inner = replace(state.copy(), own=state.own[:before])
            sure.append(self.block(events, inner, (*when, (branch.condition, arm == 0))))
            # each holds under its own conditions, which do not change before the iteration ends
            state.own += inner.own[before:]
            entries += [
                w
                for w in (*inner.visible, *inner.pending)
                if w not in state.visible and w not in state.pending
            ]
        state.pending += entries
        both = list[Access]()
        for store in sure[0]:
            if any(store.at == other.at and store.width == other.width for other in sure[1]):
                joint = replace(store, when=when)
                both.append(joint)
                self.store(joint, state)
        return both

    def loop(self, loop: Loop, state: _State, when: tuple[tuple[int, bool], ...]) -> None:
        inner = state.copy()
        self.block(loop.events, inner, when)
        if not loop.trips or loop.turn is None:
            return
        known = {*state.visible, *state.pending}
        visible = [w for w in inner.visible if w in known]
        pending = [w for w in inner.pending if w in known]
        for written, behind in [(w, visible) for w in inner.visible if w not in known] + [
            (w, pending) for w in inner.pending if w not in known
        ]:
            times, rest = written.elements.without(loop.turn)
            spread = rest.spread(times, loop.trips)
            if spread is not None:
                behind.append(replace(written, elements=spread))
        state.visible, state.pending = visible, pending
