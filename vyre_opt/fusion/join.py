"""Joining: programs that are launched one after the other over one grid become one program.

    launch @a (@x, @mid)            program @a_then_b {
    launch @b (@mid, @y)   ->         buffer @x, @mid, @y      one for each buffer of the pipeline
                                      body of @a
                                      barrier workgroup        where values are handed over
                                      body of @b
                                    }

Whether that is the same is not asked here; see join_proofs.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir.equal_values import merge_equal
from ..ir.ops import OPS
from ..ir.program import AccessMode, Block, Buffer, Dim3, Op, Program
from ..ir.rewrite import clone
from .halo_recompute import Tile, rebase, recompute

__all__ = ["BoundProgram", "barrier", "fresh_name", "join", "joined_name"]

MAX_NAME = 48


@dataclass(frozen=True, slots=True)
class BoundProgram:
    """A launch to be joined: its program, and what it passes, in the order of the bindings."""

    program: Program
    buffers: tuple[str, ...]

    @property
    def bindings(self) -> list[tuple[Buffer, str]]:
        """The program's bound buffers, each with the name of what is passed for it."""
        return list(zip(self.program.bound_buffers, self.buffers, strict=True))

    @property
    def workgroup_bytes(self) -> int:
        return sum(b.size_bytes or 0 for b in self.program.buffers.values() if b.is_workgroup)


def joined_name(members: Sequence[BoundProgram], taken: Container[str]) -> str:
    """`a_then_b`; of many or long names the first and the last."""
    names = [member.program.name for member in members]
    name = "_then_".join(names)
    if len(name) > MAX_NAME:
        name = f"{names[0]}_to_{names[-1]}"
    return fresh_name(name, taken)


def fresh_name(name: str, taken: Container[str]) -> str:
    number, found = 0, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def join(
    name: str,
    members: Sequence[BoundProgram],
    lengths: Mapping[str, int | None],
    grid: Dim3 | None,
    barriers: Collection[int],
    *,
    internal: Collection[str] = (),
    initialized: Collection[str] = (),
    tiles: Iterable[Tile] = (),
    rewritten: Collection[str] = (),
) -> Program:
    """The bodies of `members` in one program, which no module knows yet.

    `lengths`: elements of the pipeline's buffers.  `barriers`: the members before which one stands.
    `internal`: buffers that nobody else touches, which become transient ones of the program.
    `initialized`: those that are read only where the program itself wrote before.
    `tiles`: the hand-offs that a workgroup computes for itself, neighbours' elements included.
    `rewritten`: buffers that launches between the members write; a load before a barrier of
    `barriers` and one after it are two values then.
    """
    by_buffer = {tile.buffer: tile for tile in tiles}
    program = Program(name, members[0].program.workgroup, grid, loc=members[0].program.loc)
    passed: dict[str, list[Buffer]] = {}
    for member in members:
        for formal, actual in member.bindings:
            passed.setdefault(actual, []).append(formal)
    for actual, bindings in passed.items():
        buffer = _merged(actual, bindings, lengths[actual], actual in initialized)
        if actual in by_buffer:
            buffer.count, buffer.access = by_buffer[actual].size, AccessMode.WORKGROUP
        if actual in by_buffer or actual in internal:
            buffer.live_in = buffer.live_out = False
        else:
            buffer.binding = len(program.bound_buffers)
        if actual in internal:
            buffer.access = AccessMode.READ_WRITE
        program.buffers[actual] = buffer
    borders: dict[Op, Collection[str]] = {}
    for place, member in enumerate(members):
        if place in barriers:
            program.body.ops.append(barrier(member.program))
            borders[program.body.ops[-1]] = rewritten
        program.body.ops += _body(member, place, program, by_buffer)
        for spec in member.program.specs.values():
            program.specs.setdefault(spec.name, replace(spec))
    merge_equal(program, borders)
    return program


def barrier(before: Program) -> Op:
    """The workgroup barrier between two parts, located at the second."""
    return Op(OPS["barrier"], attrs={"scope": "workgroup"}, loc=before.loc)


def _merged(name: str, bindings: Sequence[Buffer], length: int | None, is_initialized: bool) -> Buffer:
    """One buffer for what several programs call theirs: it may be used in all of their ways."""
    count = next((b.count for b in bindings if b.count is not None), None) if length is None else length
    holds = any(b.live_in for b in bindings)
    reads = any(b.access is AccessMode.READ for b in bindings)
    alike = {b.access for b in bindings}
    access = alike.pop() if len(alike) == 1 else AccessMode.READ_WRITE
    is_output = any(b.live_out or b.access is AccessMode.WRITE for b in bindings)
    if access is AccessMode.READ_WRITE:
        live_in, live_out = holds or (reads and not is_initialized), is_output
    else:
        live_in, live_out = holds, any(b.live_out for b in bindings)
    return Buffer(
        name, bindings[0].dtype, count, access, None, live_in=live_in, live_out=live_out, loc=bindings[0].loc
    )


def _body(member: BoundProgram, place: int, program: Program, tiles: Mapping[str, Tile]) -> list[Op]:
    """A copy of the member's body that speaks of the joined program's buffers, its own ones added."""
    names = {formal.name: actual for formal, actual in member.bindings}
    for buffer in member.program.buffers.values():
        if buffer.binding is None:
            own = replace(buffer, name=fresh_name(buffer.name, program.buffers))
            program.buffers[own.name] = own
            names[buffer.name] = own.name
    ops = clone(member.program.body.ops, {})
    for op in Block((), ops).walk():
        if "buffer" in op.attrs:
            op.attrs = {**op.attrs, "buffer": names[op.attrs["buffer"]]}
    for tile in tiles.values():
        if tile.producer == place:  # before the tile is found by the workgroup's own id
            ops = recompute(ops, tile, member.program)
        if tile.buffer in member.buffers:
            ops = rebase(ops, tile)
    return ops
