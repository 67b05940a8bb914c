"""The claim that a barrier may go: no two lanes that it parts meet in memory, one of them writing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import z3

from ..ir.ops import BEYOND_WORKGROUP, SCOPES
from ..ir.program import Block, Op, Program
from .accesses import Access, accesses_of, are_apart, named
from .in_bounds import shown_at
from .obligations import Obligation, not_seen
from .points import Group, Nesting, Point

__all__ = ["removed_barrier"]


def removed_barrier(program: Program, barrier: Op, removed: Sequence[Op]) -> Iterator[Obligation]:
    """Obligations for each access that may come before the barrier and each behind it: different lanes do not meet there.

    `removed`: all barriers that go together.  Accesses reach to the next barrier that stays; where none stays in the
    barrier's own block and that is not the whole body, accesses of other blocks may come first, and none may be here.
    """
    nesting = Nesting(program)
    if program.lanes == 1 and barrier.attrs["scope"] in ("subgroup", "workgroup"):
        yield _closed(barrier, "its scope is one invocation", True)
        return
    block = nesting.block[barrier]
    staying = [op for op in block.ops if op.name == "barrier" and _orders(op, barrier) and op not in removed]
    at = block.ops.index(barrier)
    starts = [block.ops.index(op) for op in staying if block.ops.index(op) < at]
    ends = [block.ops.index(op) for op in staying if block.ops.index(op) > at]
    first, last = max(starts, default=-1), min(ends, default=len(block.ops))
    spans = (first + 1, at), (at + 1, last)
    before, behind = (_accesses(nesting, block, *span) for span in spans)
    # a copy is written by the wait for it, wherever it began, so such a side may be of any elements too
    is_open = [
        (block is not program.body and not known) or any(op.name == "copy_wait" for op in _walk(block, *span))
        for known, span in zip((starts, ends), spans, strict=True)
    ]
    if any(is_open):
        sides = ((before, is_open[0]), (behind, is_open[1]))
        nothing = any(not accesses and not opened for accesses, opened in sides)
        yield _closed(barrier, "nothing is accessed between it and the next barrier that stays", nothing)
        return
    if not before or not behind:
        yield _closed(barrier, "nothing is accessed between it and the next barrier that stays", True)
    for a, b in product(before, behind):
        if a.buffer == b.buffer and (a.is_write or b.is_write):
            yield _apart(nesting, barrier, a, b)


def _orders(op: Op, barrier: Op) -> bool:
    """Whether a barrier that stays orders all that the removed one did: its scope is as wide, or wider."""
    return SCOPES.index(op.attrs["scope"]) >= SCOPES.index(barrier.attrs["scope"])


def _accesses(nesting: Nesting, block: Block, start: int, stop: int) -> list[Access]:
    """The accesses in a part of a block, of buffers that the program writes."""
    every = accesses_of(nesting)
    written = {access.buffer for access in every if access.is_write}
    inside = set(_walk(block, start, stop))
    return [access for access in every if access.op in inside and access.buffer in written]


def _walk(block: Block, start: int, stop: int) -> Iterator[Op]:
    return (op for top in block.ops[start:stop] for op in top.walk())


def _closed(barrier: Op, what: str, holds: bool) -> Obligation:
    if not holds:
        return not_seen(
            f"the barrier may go: {what}", "that is not so, and nothing else is looked at", [barrier]
        )
    return Obligation(f"the barrier may go: {what}", [barrier], [], [], z3.BoolVal(True))


def _apart(nesting: Nesting, barrier: Op, a: Access, b: Access) -> Obligation:
    program = nesting.program
    is_grid = barrier.attrs["scope"] in BEYOND_WORKGROUP and not program.buffers[a.buffer].is_workgroup
    one = Point.any(nesting, Group(program), "one")
    group = Group(program, "other") if is_grid else one.group
    other = Point.any(nesting, group, "other")
    differs = [x != y for x, y in zip(one.local, other.local, strict=True)]
    if is_grid:
        ids = [(one.group.workgroup_id(axis).term, group.workgroup_id(axis).term) for axis in range(3)]
        differs += [x != y for x, y in ids]
    # which lanes touch an element of a collective access is open, and they may be two even where the points are one
    lanes = [] if a.is_collective or b.is_collective else [z3.Or(differs)]
    if barrier.attrs["scope"] == "subgroup":
        lanes.append(one.subgroup() == other.subgroup())
    p, q = one.indices(a.op), other.indices(b.op)
    return Obligation(
        f"{a} before the barrier and {b} behind it are of different elements, or of one lane",
        [barrier, a.op, b.op],
        [one, other],
        [one.reaches(a.op), other.reaches(b.op), *lanes],
        are_apart(a, p, b, q),
        {**shown_at(one, **named("one element", p)), **shown_at(other, **named("other element", q))},
    )
