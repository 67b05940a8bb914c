"""The claim that loads and stores may go: those of `store_forward`.

    store %v, @b[%i]                          a load gives what an access before it has stored or loaded there
    %x = load @b[%i]     ->  %v
    store %v, @b[%i]     ->                   a store of the value that is there already changes nothing
    store %w, @b[%i]                          a store is overwritten before anything reads it

All of it within one block: between the two accesses nothing writes the element, or for the last nothing reads it, and
nothing lets other lanes in.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import lru_cache

import z3

from ..ir.program import Op, Program
from .accesses import Access, accesses_of, are_apart, are_equal, named
from .in_bounds import shown_at
from .obligations import Obligation, not_seen
from .points import Group, Nesting, Point

__all__ = ["Removed", "forwarded", "lets_others_in", "overwritten"]

Removed = Mapping[Op, Op | None]
"""The accesses that go, each with the one that has its value, None for one that is overwritten."""


def forwarded(program: Program, op: Op, source: Op, removed: Removed) -> Iterator[Obligation]:
    """The load `op` gives what `source` stored or loaded, or the store `op` stores that once more."""
    # stores of values that are there already change nothing, by decisions of their own
    idle = [other for other, has_value in removed.items() if has_value is not None]
    yield from _Between(program, source, op).obligations(is_read=False, removed=idle)


def overwritten(program: Program, op: Op, by: Op, removed: Removed) -> Iterator[Obligation]:
    """Nothing reads what the store `op` stores before the store `by`."""
    if removed.get(by) is not None:
        yield not_seen(f"what this {op.name} stores is overwritten", f"this {by.name} goes too", [by, op])
    yield from _Between(program, op, by).obligations(is_read=True, removed=removed)


@lru_cache(maxsize=2)
def _accesses(program: Program) -> tuple[Nesting, dict[Op, Access]]:
    """All of a program, in which many may go."""
    nesting = Nesting(program)
    return nesting, {access.op: access for access in accesses_of(nesting)}


class _Between:
    """Two accesses of one block, `first` and `second`, and the accesses between them."""

    def __init__(self, program: Program, first: Op, second: Op) -> None:
        self.nesting, self.every = _accesses(program)
        self.first, self.second = first, second
        self.point = Point.any(self.nesting, Group(program), "lane")
        self.premises = [self.point.reaches(second)]

    def obligations(self, is_read: bool, removed: Container[Op] = ()) -> Iterator[Obligation]:
        """`is_read`: whether it is reads between them that count, but for those `removed`, or writes."""
        first, second = self.every[self.first], self.every[self.second]
        for op in (self.first, self.second):
            if op.name not in ("load", "store"):
                yield not_seen(
                    "a value stays where it is accessed",
                    f"this {op.name} moves it for others, or later",
                    [op],
                )
                return
        ops = self.nesting.block[self.second].ops
        if self.first not in ops or ops.index(self.first) > ops.index(self.second):
            yield not_seen(
                "one comes before the other in its block", "it does not", [self.first, self.second]
            )
            return
        one, other = (self.point.indices(access.op) for access in (first, second))
        types = [(a.op.operands[0] if a.op.name == "store" else a.op.result).type for a in (first, second)]
        yield Obligation(
            f"{first} and {second} are of the same elements",
            [self.second, self.first],
            [self.point],
            self.premises,
            z3.And(are_equal(one, other), z3.BoolVal(first.buffer == second.buffer and types[0] is types[1])),
            shown_at(self.point, **named("first", one), **named("second", other)),
        )
        is_shared = any(access.is_write and access.buffer == first.buffer for access in self.every.values())
        between = ops[ops.index(self.first) + 1 : ops.index(self.second)]
        for op in (inner for top in between for inner in top.walk()):
            access = self.every.get(op)
            if is_shared and (lets_others_in(op) or (is_read and may_stop(op))):
                yield not_seen(f"nothing comes between {first} and {second}", f"this {op.name} does", [op])
            elif access is None or access.buffer != first.buffer or op in removed:
                continue
            elif access.is_atomic or access.is_write is not is_read:
                yield self._distinct(second, access)

    def _distinct(self, second: Access, access: Access) -> Obligation:
        p, q = self.point.indices(second.op), self.point.indices(access.op)
        return Obligation(
            f"{access} between them is of other elements",
            [access.op, self.second],
            [self.point],
            [*self.premises, self.point.reaches(access.op)],
            are_apart(second, p, access, q),
            shown_at(self.point, **named("element", p), **named("other", q)),
        )


def may_stop(op: Op) -> bool:
    """Whether what comes after an op may never run."""
    return op.name == "while" or "trap" in op.definition.effects


def lets_others_in(op: Op) -> bool:
    """Whether other lanes may see the memory at an op, or change it."""
    is_ordered = "atomic" in op.definition.effects and op.attrs["order"] != "relaxed"
    is_wait = bool(op.definition.effects & {"sync", "wait"})
    return is_ordered or is_wait or op.definition.kernel is not None
