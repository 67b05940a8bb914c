"""The claim that accesses of single elements may be one of a vector: they are neighbours from a multiple of their number
on, and may move to one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import z3

from ..ir.program import Op, Program
from .accesses import Access, accesses_of, are_apart, are_equal, named
from .in_bounds import shown_at
from .obligations import Obligation, not_seen
from .points import Group, Nesting, Point

__all__ = ["vector"]


def vector(program: Program, lanes: Sequence[Sequence[Op]]) -> Iterator[Obligation]:
    """`lanes`: of each element of the vector, in order, the accesses that it stands for, all in one block."""
    nesting = Nesting(program)
    first = lanes[0][0]
    point = Point.any(nesting, Group(program), "lane")
    *row, start = point.indices(first)
    given = [point.reaches(first)]
    for number, same in enumerate(lanes):
        for op in same:
            yield Obligation(
                f"this {op.name} is element {number} of the vector",
                [op, first],
                [point],
                given,
                are_equal(point.indices(op), [*row, start + number]),
                shown_at(point, first=start, **named("index", point.indices(op))),
            )
    yield Obligation(
        f"the vector starts at a multiple of {len(lanes)}",
        [first],
        [point],
        given,
        _is_multiple(program, first, start, len(lanes)),
        shown_at(point, first=start),
    )
    yield from _moves(nesting, point, [op for same in lanes for op in same])


def _is_multiple(program: Program, op: Op, start: z3.ArithRef, lanes: int) -> z3.BoolRef:
    """Whether the first element is at a multiple of `lanes` in memory: in its row, and the row is."""
    buffer = program.buffers[op.attrs["buffer"]]
    row = 0 if buffer.dimensions == 1 else buffer.shape[-1]
    return z3.And(start % lanes == 0, z3.BoolVal(row is not None and row % lanes == 0))


def _moves(nesting: Nesting, point: Point, members: Sequence[Op]) -> Iterator[Obligation]:
    """Loads move up to the first of them, stores down to the last: over nothing that they may not pass."""
    ops = nesting.block[members[0]].ops
    positions = {op: ops.index(op) for op in members}
    is_store = members[0].name == "store"
    buffer = members[0].attrs["buffer"]
    every = {access.op: access for access in accesses_of(nesting)}
    for op, position in positions.items():
        passed = (
            ops[position + 1 : max(positions.values())]
            if is_store
            else ops[min(positions.values()) + 1 : position]
        )
        for other in (inner for top in passed for inner in top.walk() if inner not in positions):
            access = every.get(other)
            if access is None:
                if other.definition.effects & {"write", "trap", "wait"} or other.name in ("barrier", "call"):
                    yield not_seen(
                        f"this {op.name} may move past a {other.name}",
                        "nothing is known of that",
                        [op, other],
                    )
            elif access.buffer == buffer and (is_store or access.is_write):
                yield _distinct(point, every[op], access)


def _distinct(point: Point, moved: Access, access: Access) -> Obligation:
    """An access that is moved over another one of the same lane is of another element."""
    p, q = point.indices(moved.op), point.indices(access.op)
    return Obligation(
        f"this {moved.op.name} may move past {access}: they are of different elements",
        [moved.op, access.op],
        [point],
        [point.reaches(moved.op), point.reaches(access.op)],
        are_apart(moved, p, access, q),
        shown_at(point, **named("moved", p), **named("passed", q)),
    )
