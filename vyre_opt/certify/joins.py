"""The claim that launches may be one: that of `launch_fusion`.

Launches run one after the other.  Joined, nothing orders different workgroups any more, and in a workgroup only a
barrier orders different lanes.  So wherever two of the launches meet in memory, one of them writing, it must be the same
workgroup; and the same lane, where no barrier is put between them.

A race in one of the launches is an error of the program, so none is assumed to be: where a launch stores, the lane of
another workgroup that the other access is made by does not store the same element.

What memory holds is a function of the element.  Launches of the group that write a buffer leave another function behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import z3

from ..ir.grids import GridError
from ..ir.pipeline import Launch, Pipeline
from ..ir.program import Dim3, Module
from .accesses import Access, accesses_of
from .in_bounds import shown_at
from .obligations import Obligation
from .points import Group, Nesting, Point

__all__ = ["joined"]


@dataclass(frozen=True)
class _Member:
    """A launch of the group.  `names`: the pipeline's buffer for each of the program's; `grid`: its workgroups, None
    if that depends on lengths that are not known."""

    nesting: Nesting
    names: dict[str, str]
    grid: Dim3 | None
    contents: dict[str, str]
    lengths: dict[str, int]

    def point(self, group: str, name: str) -> Point:
        """Any lane of any workgroup of the launch."""
        return Point.any(
            self.nesting, Group(self.nesting.program, group, self.grid, self.lengths), name, self.contents
        )


def joined(
    module: Module,
    pipeline: Pipeline,
    launches: Sequence[Launch],
    barriers: Sequence[int],
    halos: Sequence[str],
) -> Iterator[Obligation]:
    """`barriers`: the launches that get a barrier before them, by their place.  `halos`: buffers that are made anew by
    each workgroup that reads them, of which this says nothing."""
    members = list(_members(module, pipeline, launches))
    for i, j in combinations(range(len(members)), 2):
        has_barrier = any(i < place <= j for place in barriers)
        for a in accesses_of(members[i].nesting):
            for b in accesses_of(members[j].nesting):
                buffer = members[i].names.get(a.buffer)
                if (
                    buffer is not None
                    and buffer not in halos
                    and buffer == members[j].names.get(b.buffer)
                    and (a.is_write or b.is_write)
                ):
                    yield _meet_in_one(members[i], members[j], a, b, has_barrier)


def _members(module: Module, pipeline: Pipeline, launches: Sequence[Launch]) -> Iterator[_Member]:
    counts = {name: buffer.count for name, buffer in pipeline.buffers.items()}
    version: dict[str, int] = {}
    for launch in launches:
        program = module.programs[launch.program]
        formals = [buffer.name for buffer in program.bound_buffers]
        names = dict(zip(formals, launch.buffers, strict=True))
        nesting = Nesting(program)
        written = {access.buffer for access in accesses_of(nesting) if access.is_write}
        contents = {
            formal: f"{actual}.{version.get(actual, 0)}"
            for formal, actual in names.items()
            if formal not in written
        }
        lengths = {formal: count for formal in formals if (count := counts[names[formal]]) is not None}
        yield _Member(nesting, names, _grid(launch, counts), contents, lengths)
        for formal in written & names.keys():
            version[names[formal]] = version.get(names[formal], 0) + 1


def _grid(launch: Launch, counts: Mapping[str, int | None]) -> Dim3 | None:
    try:
        return launch.workgroups(counts)
    except GridError:
        return None


def _meet_in_one(one: _Member, other: _Member, a: Access, b: Access, has_barrier: bool) -> Obligation:
    p, q = one.point("first", "first"), other.point("second", "second")
    at, to = p.integer(a.op.index).term, q.integer(b.op.index).term
    apart = z3.Or(at + a.width <= to, to + b.width <= at)
    pairs = [(p.group.workgroup_id(axis).term, q.group.workgroup_id(axis).term) for axis in range(3)]
    who = "workgroup"
    if not has_barrier:
        who, pairs = "lane", [*pairs, *zip(p.local, q.local, strict=True)]
    given = [p.reaches(a.op), q.reaches(b.op)]
    for access, member, index in ((a, one, at), (b, other, to)):
        if access.buffer in member.lengths:  # out of bounds it would be an error of the program
            given.append(z3.And(index >= 0, index + access.width <= member.lengths[access.buffer]))
    given += _no_race(one, a, p, q, apart_of=at) + _no_race(other, b, q, p, apart_of=to)
    return Obligation(
        f"{a} of @{one.nesting.program.name} and {b} of @{other.nesting.program.name} meet in one {who} only",
        [a.op, b.op],
        [p, q],
        given,
        z3.Or(apart, z3.And([x == y for x, y in pairs])),
        {**shown_at(p, **{"first element": at}), **shown_at(q, **{"second element": to})},
    )


def _no_race(
    member: _Member, store: Access, here: Point, there: Point, apart_of: z3.ArithRef
) -> list[z3.BoolRef]:
    """A launch does not store one element both `here` and by the lane `there`, if that is of another workgroup."""
    if not store.is_write or store.is_atomic:
        return []
    group = Group(member.nesting.program, there.group.name, member.grid, member.lengths)
    loops = [op for op in member.nesting.ops if op.name == "for"]
    iterations = dict(zip(loops, [*there.iterations.values(), *[z3.IntVal(0)] * len(loops)], strict=False))
    twin = Point(member.nesting, group, f"{there.name} twin", there.local, iterations, member.contents)
    index = twin.integer(store.op.index).term
    differs = [group.workgroup_id(axis).term != here.group.workgroup_id(axis).term for axis in range(3)]
    meets = z3.And(index < apart_of + store.width, apart_of < index + store.width)
    race = z3.And(twin.reaches(store.op), z3.Or(differs), meets)
    return [] if twin.free else [z3.Not(race)]
