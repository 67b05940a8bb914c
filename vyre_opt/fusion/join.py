"""Joins programs that are launched one after the other over one grid into one program.

    launch @a (@x, @mid)            program @a_then_b {
    launch @b (@mid, @y)   ->         buffer @x, @mid, @y      one for each buffer of the pipeline
                                      body of @a
                                      barrier workgroup        where values are handed over
                                      body of @b
                                    }

Whether that computes the same is not checked here; see pair_legality and group_legality.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..ir.grids import length_key
from ..ir.joined_locations import locate_member
from ..ir.ops import OPS
from ..ir.program import AccessMode, Block, Buffer, Dim3, Op, Program
from ..ir.rewrite import clone, fresh_name
from ..records import dataclass
from ..rewriting.value_numbering import merge_equal
from .bound_program import BoundProgram
from .bounds_checks import add_checks
from .halo_recompute import HaloTile, rebase, recompute

__all__ = ["JoinPlan", "barrier", "join", "joined_name"]

MAX_NAME = 48


def joined_name(members: Sequence[BoundProgram], existing: Container[str]) -> str:
    """`a_then_b`; `a_to_z` if that is too long."""
    names = [member.program.name for member in members]
    name = "_then_".join(names)
    if len(name) > MAX_NAME:
        name = f"{names[0]}_to_{names[-1]}"
    return fresh_name(name, existing)


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """All inputs of a join: equal plans give programs that are equal except for the name.

    `lengths`: elements of the pipeline's buffers, sorted by name.  `barriers`: members that get a barrier before them.
    `internal`: buffers that nothing else uses; they become transient buffers of the program.
    `initialized`: buffers that are read only where the program itself wrote before, so they are not live-in.
    `private`: initialized buffers that nothing else uses and that the pipeline sizes: they stay bound, but unobserved.
    `tiles`: hand-offs that each workgroup computes itself, including elements of its neighbours.
    `rewritten`: buffers that launches between the members write: loads of one index before and after a
    barrier of `barriers` are then not merged into one value.
    `equal`: length of a buffer (see ir/grids.py) -> the equal length that replaces it.
    """

    members: tuple[BoundProgram, ...]
    lengths: tuple[tuple[str, int | None], ...]
    grid: Dim3 | None
    barriers: frozenset[int]
    internal: tuple[str, ...] = ()
    initialized: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    tiles: tuple[HaloTile, ...] = ()
    rewritten: frozenset[str] = frozenset()
    equal: tuple[tuple[str, str], ...] = ()


def join(name: str, plan: JoinPlan, owners: dict[Op, int] | None = None) -> Program:
    """The bodies of the members in one program, which belongs to no module yet.

    `owners` gets the number of the member that each op comes from.
    """
    members, lengths, equal = plan.members, dict(plan.lengths), dict(plan.equal)
    by_buffer = {tile.buffer: tile for tile in plan.tiles}
    first = members[0].program
    preferences = {member.program.prefer_shared for member in members}
    preference = first.prefer_shared if len(preferences) == 1 else None
    program = Program(name, first.workgroup, plan.grid, prefer_shared=preference, loc=first.loc)
    formals_of: dict[str, list[Buffer]] = {}
    for member in members:
        for formal, actual in member.bindings:
            formals_of.setdefault(actual, []).append(formal)
    for actual, formals in formals_of.items():
        buffer = _merge_buffers(actual, formals, lengths, actual in plan.initialized)
        if actual in by_buffer:
            buffer.shape, buffer.access = (by_buffer[actual].size,), AccessMode.WORKGROUP
        if actual in by_buffer or actual in plan.internal or actual in plan.private:
            buffer.live_in = buffer.live_out = False
        if actual not in by_buffer and actual not in plan.internal:
            buffer.binding = len(program.bound_buffers)
        if actual in plan.internal:
            buffer.access = AccessMode.READ_WRITE
        program.buffers[actual] = buffer
    boundaries: dict[Op, Collection[str]] = {}
    for number, member in enumerate(members):
        if number in plan.barriers:
            boundary = barrier(member.program)
            locate_member([boundary], number, member.program, "both")
            program.body.ops.append(boundary)
            boundaries[boundary] = plan.rewritten
        ops = _body(member, number, program, by_buffer, equal)
        program.body.ops += ops
        if owners is not None:
            owners.update(dict.fromkeys(Block((), ops).walk(), number))
        for spec in member.program.specs.values():
            program.specs.setdefault(spec.name, replace(spec))
        for param in member.program.params.values():
            program.params.setdefault(param.name, replace(param))
    # two loads at one index are then one value, and indices built on them one expression: proofs need that
    merge_equal(program, boundaries)
    return program


def barrier(before: Program) -> Op:
    """A workgroup barrier to stand before the body of a program, with its location."""
    return Op(OPS["barrier"], attrs={"scope": "workgroup"}, loc=before.loc)


def _merge_buffers(
    name: str, formals: Sequence[Buffer], lengths: Mapping[str, int | None], is_initialized: bool
) -> Buffer:
    """One buffer in place of those of several programs, with the union of their accesses."""
    shape = [
        next(
            (extent for extent in (lengths.get(length_key(name, number)), *extents) if extent is not None),
            None,
        )
        for number, extents in enumerate(zip(*(b.shape for b in formals), strict=True))
    ]
    if len(shape) == 1 and lengths[name] is not None:
        shape = [lengths[name]]
    is_input = any(b.live_in for b in formals)
    reads = any(b.access is AccessMode.READ for b in formals)
    modes = {b.access for b in formals}
    access = modes.pop() if len(modes) == 1 else AccessMode.READ_WRITE
    is_output = any(b.live_out or b.access is AccessMode.WRITE for b in formals)
    if access is AccessMode.READ_WRITE:
        # a member that only reads sees earlier contents, unless the joined program wrote all elements first
        live_in, live_out = is_input or (reads and not is_initialized), is_output
    else:
        live_in, live_out = is_input, any(b.live_out for b in formals)
    return Buffer(
        name, formals[0].dtype, shape, access, None, live_in=live_in, live_out=live_out, loc=formals[0].loc
    )


def _body(
    member: BoundProgram,
    number: int,
    program: Program,
    tiles: Mapping[str, HaloTile],
    equal: Mapping[str, str],
) -> list[Op]:
    """A copy of the member's body with the joined program's buffers; the member's own buffers are added to it."""
    names = {formal.name: actual for formal, actual in member.bindings}
    for buffer in member.program.buffers.values():
        if buffer.binding is None:
            tile_buffer = replace(buffer, name=fresh_name(buffer.name, program.buffers))
            program.buffers[tile_buffer.name] = tile_buffer
            names[buffer.name] = tile_buffer.name
    ops = clone(member.program.body.ops, {})
    ids = "neither" if any(tile.producer == number for tile in tiles.values()) else member.ids
    locate_member(Block((), ops).walk(), number, member.program, ids)
    for op in Block((), ops).walk():
        if "buffer" in op.attrs:
            op.attrs = {**op.attrs, "buffer": names[op.attrs["buffer"]]}
            if op.name == "len":
                op.attrs = _length(op.attrs, equal)
    _check_bounds(ops, member, program, tiles)
    for tile in tiles.values():
        if tile.producer == number:  # first: `rebase` adds workgroup ids, which must stay the real ones
            ops = recompute(ops, tile, member.program)
        if tile.buffer in member.buffers:
            ops = rebase(ops, tile)
    return ops


def _check_bounds(
    ops: list[Op], member: BoundProgram, program: Program, tiles: Mapping[str, HaloTile]
) -> None:
    """Keep the faults of a member's accesses out of bounds of buffers that become tiles."""
    member_tiles = [tile for tile in tiles.values() if tile.buffer in member.buffers]
    if not member_tiles:
        return
    body = Block((), ops)
    buffers = program.buffers | {
        tile.buffer: replace(program.buffers[tile.buffer], shape=(tile.length,)) for tile in member_tiles
    }
    program_with_storage = replace(member.program, grid=program.grid, buffers=buffers, body=body)
    tile_names = {tile.buffer for tile in member_tiles}
    accesses = {op for op in body.walk() if op.operands and op.attrs.get("buffer") in tile_names}
    add_checks(program_with_storage, accesses)
    ops[:] = body.ops


def _length(attrs: dict[str, Any], equal: Mapping[str, str]) -> dict[str, Any]:
    """Attributes of a `len` of the buffer that represents all buffers of equal length."""
    key = equal.get(length_key(attrs["buffer"], attrs.get("dimension")))
    if key is None:
        return attrs
    name, comma, dimension = key.partition(",")
    return {"buffer": name, "dimension": int(dimension)} if comma else {"buffer": name}
