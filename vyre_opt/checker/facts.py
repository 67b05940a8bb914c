"""Facts proven about a program by itself: accesses that lie in their buffers, and buffers that workgroups do not race for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .apart import in_one_workgroup
from .claims import groups_of, launches_of
from .reader import Module, Program, walk_ops
from .terms import AXES, Form, Terms
from .walk import Access, Side, Walk, accesses

__all__ = ["Facts", "axes_of", "facts_of", "is_in_bounds", "is_race_free"]

Multiples = Sequence[tuple[int, int]]
"""Multiple of each fact, by its number among those of an access."""


_OF_GRIDS = ("workgroup_id", "global_id", "num_workgroups", "global_size")


@dataclass
class Facts:
    """The accesses of a program, in order, and the walk that found them."""

    program: Program
    walk: Walk
    side: Side
    accesses: list[Access]

    def buffers(self) -> list[str]:
        """Written buffers in storage, on which workgroups could race."""
        written = {a.buffer for a in self.accesses if a.writes}
        return [
            b.name for b in self.program.buffers.values() if b.name in written and b.access != "workgroup"
        ]


def facts_of(module: Module, name: str) -> Facts:
    """Raises Mismatch."""
    program = module.programs[name]
    axes = axes_of(module, program)
    groups = groups_of(module, program) if axes is None else [None if axis in axes else 1 for axis in AXES]
    terms = Terms(program.workgroup, groups)
    side = Side(program, {buffer: buffer for buffer in program.buffers})
    walk = Walk(terms, [side])
    walk.run()
    return Facts(program, walk, side, list(accesses(walk.events[0])))


def axes_of(module: Module, program: Program) -> str | None:
    """Axes whose ids or sizes of the grid a program asks for, if its text says of no grid; else None.

    Such a program is supposed to run over one workgroup along the other axes: more of them would do the same again, in a race.
    """
    if program.grid is not None or any(launches_of(module, program.name)):
        return None
    axes = {op.attrs["axis"] for op in walk_ops(program.body) if op.name in _OF_GRIDS}
    return "".join(axis for axis in AXES if axis in axes)


def is_in_bounds(facts: Facts, access: Access, low: Sequence[Multiples], high: Sequence[Multiples]) -> bool:
    """Whether an access lies in its buffer: along each dimension what is left below the index, and above it, less multiples of facts, is
    not negative."""
    if access.kind == "other" or len(low) != len(access.at) or len(high) != len(access.at):
        return False
    rooms = zip(room_below(facts, access), room_above(facts, access), low, high, strict=True)
    return all(
        holds(facts.walk.terms, access, *each)
        for one, other, a, b in rooms
        for each in ((one, a), (other, b))
    )


def room_below(facts: Facts, access: Access) -> list[Form]:
    return [facts.walk.terms.exact(index) for index in access.at]


def room_above(facts: Facts, access: Access) -> list[Form]:
    """Along each dimension, by how much the index may grow."""
    terms, rooms = facts.walk.terms, []
    for dimension, index in enumerate(access.at):
        width = access.width if dimension == len(access.at) - 1 else 1
        extent = terms.exact(facts.walk.extent(facts.side, access.op, dimension))
        rooms.append(extent.plus(terms.exact(index), -1).plus(Form(-width, {})))
    return rooms


def holds(terms: Terms, access: Access, room: Form, multiples: Multiples) -> bool:
    """Whether a sum, less multiples of facts that hold at the access, is not negative."""
    for times, number in multiples:
        if type(times) is not int or times < 0 or not 0 <= number < len(access.facts):
            return False
        room = room.plus(access.facts[number], -times)
    return terms.range(room)[0] >= 0


def is_race_free(facts: Facts, buffer: str) -> bool:
    """Whether no two workgroups touch one element of a buffer, unless both read it or both by atomics."""
    touching = [access for access in facts.accesses if access.buffer == buffer]
    return all(in_one_workgroup(facts.walk.terms, one, other) for one, other in _pairs(touching))


def _pairs(touching: Sequence[Access]) -> Iterator[tuple[Access, Access]]:
    for at, one in enumerate(touching):
        for other in touching[at:]:
            is_harmless = not (one.writes or other.writes) or one.kind == other.kind == "atomic"
            if not is_harmless:
                yield one, other
