"""Locations of ops in programs that were joined of several, by which a message tells what its author wrote.

    launch @a grid(4) (@x, @mid)          launch @a_then_b grid(4) (@x, @y)      its `members`: the two launches
    launch @b grid(4) (@mid, @y)    ->      store %v, @y[%i]                     a MemberLocation: of @b, member 1, @y is its @to

Passes hand locations on from op to op, so an op keeps its member wherever it goes.
"""

from __future__ import annotations

from collections.abc import Iterable

from .declarations import Buffer
from .diagnostics import Location
from .pipeline import Launch
from .program import Op, Program

__all__ = [
    "IDS",
    "MemberLocation",
    "declared_buffer",
    "launch_at",
    "locate_member",
    "member_at",
    "written_program",
]


IDS = ("both", "local", "neither")
"""Ids of an invocation that stay what they are when programs are joined: the workgroup's goes where one does the work of several, and
both where each computes again what its neighbours do."""


class MemberLocation(Location):
    """A location, and the program that its op was a part of before that was joined with others.

    `path`: number of its launch among the `members` of the launch of the joined program, and so on in that one, if its program was
    joined itself.  `buffer`: declaration there of the buffer that the op accesses, if it accesses one; `argument`: its
    number among the launch's buffers, if it is passed.  `ids`: one of IDS, those of an invocation that it had there, too.
    """

    __slots__ = ("path", "program", "buffer", "argument", "ids")

    def __init__(
        self,
        loc: Location,
        path: tuple[int, ...],
        program: str,
        buffer: Buffer | None,
        argument: int | None,
        ids: str,
    ) -> None:
        super().__init__(loc.source, loc.start, loc.end)
        self.path, self.program = path, program
        self.buffer, self.argument, self.ids = buffer, argument, ids


def locate_member(ops: Iterable[Op], number: int, program: Program, ids: str) -> None:
    """Give ops of a copy of `program`, which is member `number` of a joined one, locations that say so."""
    arguments = {buffer.name: at for at, buffer in enumerate(program.bound_buffers)}
    for op in ops:
        loc = op.loc
        if isinstance(loc, MemberLocation):
            fewest = max(ids, loc.ids, key=IDS.index)
            op.loc = MemberLocation(loc, (number, *loc.path), loc.program, loc.buffer, loc.argument, fewest)
        elif loc is not None:
            name = op.attrs.get("buffer", "")
            buffer, argument = program.buffers.get(name), arguments.get(name)
            op.loc = MemberLocation(loc, (number,), program.name, buffer, argument, ids)


def member_at(op: Op) -> MemberLocation | None:
    """The location of an op, if its program was joined with others."""
    return op.loc if isinstance(op.loc, MemberLocation) else None


def written_program(program: Program, op: Op) -> str:
    """The name of the program that an op of `program` was written in."""
    member = member_at(op)
    return program.name if member is None else member.program


def declared_buffer(program: Program, op: Op) -> Buffer | None:
    """The buffer that an op accesses, or checks the bounds of, as the program that it was written in declares it."""
    member = member_at(op)
    if member is not None and member.buffer is not None:
        return member.buffer
    return program.buffers.get(op.attrs.get("of") or op.attrs.get("buffer", ""))


def launch_at(launch: Launch, loc: Location | None) -> Launch:
    """The launch that an op of a launch's program, located there, was launched by before launches were joined."""
    for number in loc.path if isinstance(loc, MemberLocation) else ():
        if number >= len(launch.members):
            break
        launch = launch.members[number]
    return launch
