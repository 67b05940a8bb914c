"""Axes of a launch along which all do the same, since the program never asks where it is.

    program @double workgroup(256) { %i = global_id x ... store %v, @y[%i] }      launched over grid(4, 256)

Each of the 256 workgroups along y does all of the work, a race that is surely not meant.  Programs with atomics, prints or calls,
and those that ask for the size of the grid along the axis, may mean it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..diagnostics import Diagnostic, Location, spelling_at
from ..grids import Extent
from ..loops import bounds
from ..ops import AXES
from ..program import Op, Program
from .racing_stores import racing_launches

__all__ = ["ignored_axes"]

_OF_GRID = ("global_id", "workgroup_id", "num_workgroups", "global_size")
_OF_LANES = ("global_id", "local_id", "workgroup_size", "global_size")
_LINEAR = ("lane_id", "subgroup_id")


def ignored_axes(program: Program, grid: Sequence[Extent], loc: Location | None) -> Iterator[Diagnostic]:
    """The warning of a launch at `loc`, if it has such an axis."""
    axes = range(len(AXES))
    if 0 in grid or all(extent == 1 for extent in (*grid, *program.workgroup)):
        return
    ops = list(program.walk())
    yield from racing_launches(program, grid, loc)
    if any(map(_may_repeat, ops)) or not any(_stores(op, program) for op in ops):
        return
    asked = {(op.name, op.attrs.get("axis")) for op in ops}
    same_groups = [
        a for a in axes if _is_several(grid[a]) and not asked & {(name, AXES[a]) for name in _OF_GRID}
    ]
    same_lanes = [
        a
        for a in axes
        if program.workgroup[a] > 1
        and not asked & {*((name, AXES[a]) for name in _OF_LANES), *((name, None) for name in _LINEAR)}
    ]
    zero = next(_always_zero(program, grid, asked), None)
    if not same_groups and zero is None and _is_of_groups(program, ops, asked):
        spelling = spelling_at(program.loc)
        message = f"all {program.lanes} invocations of a workgroup do the same: {program.name} has no {spelling.id('global_id', 0)}"
        help = f"write {spelling.lanes(1)}, where a workgroup is for one element or row; or {spelling.id('global_id', 0)} for an element of each invocation"
        yield Diagnostic("warning", message, program.loc, help=help).note("it is launched here", loc)
    if not same_groups and (zero is None or not same_lanes):
        return
    axis = [*same_groups, *same_lanes][0]
    extent, kind = (grid[axis], "workgroups") if same_groups else (program.workgroup[axis], "invocations")
    spelling = spelling_at(program.loc)
    message = f"all {extent} {kind} along axis {axis} do the same: {program.name} has no {spelling.id('global_id', axis)}"
    help = _help(program, grid, ops, axis, same_groups, same_lanes, asked)
    if zero is not None:
        name, other = zero
        help = f"write {spelling.id(name, axis)}: {spelling.id(name, other)} is always 0 in this launch"
    warning = Diagnostic("warning", message, loc, help=help)
    if loc is not program.loc:
        warning.note(f"{program.name} is declared here", program.loc)
    yield warning


def _help(
    program: Program,
    grid: Sequence[Extent],
    ops: Sequence[Op],
    axis: int,
    same_groups: Sequence[int],
    same_lanes: Sequence[int],
    asked: set[tuple[str, str | None]],
) -> str:
    """Remedy for an axis along which all do the same."""
    spelling = spelling_at(program.loc)
    help = f"leave this extent out: a grid counts workgroups, and one has its invocations already; or use {spelling.id('workgroup_id', axis)}"
    extents = [*grid]
    extents[axis] = 1
    while extents[1:] and extents[-1] == 1:
        extents.pop()
    launch = spelling.grid(program.name, ", ".join(map(str, extents)))
    if same_groups and axis == 0:
        help = f"write {launch}, where one workgroup does all; or use {spelling.id('workgroup_id', axis)}, for a row or a block of each"
    names = {name for name, _ in asked}
    if same_groups and ("local_id", AXES[axis]) in asked:
        ids = [spelling.id(name, axis) for name in ("global_id", "local_id")]
        help = f"write {ids[0]}, which counts in the whole launch, for {ids[1]}, which counts in a workgroup; or {launch}, where one is enough"
    elif same_groups and program.lanes > 1 and not names.intersection((*_OF_GRID, *_OF_LANES, *_LINEAR)):
        one = spelling.grid(program.name, "1")
        help = f"write {spelling.lanes(1)} and {one}, one invocation that does all; or {spelling.id('global_id', 0)} for an element of each"
    loops = (
        op
        for op in ops
        if op.name == "for" and getattr(getattr(bounds(op)[1], "owner", None), "name", "") == "len"
    )
    loop = next(loops, None)
    if loop is not None and loop.loc is not None and 0 in same_groups and 0 in same_lanes:
        help = f"write {spelling.lanes(1)}, and {spelling.grid(program.name, '1')}: a round of the loop needs the one before it"
        if not loop.results:
            help = spelling.loop_as_id(loop.loc.text) or help
    return help


def _is_of_groups(program: Program, ops: Sequence[Op], asked: set[tuple[str, str | None]]) -> bool:
    """Whether a program asks which workgroup it is, and nothing in it tells invocations of one apart."""
    names = {name for name, _ in asked}
    apart = ("global_id", "local_id", *_LINEAR, "copy_async", "slice_load", "slice_store")
    return (
        program.lanes > 1
        and "workgroup_id" in names
        and not names.intersection(apart)
        and not any(op.definition.effects & {"subgroup", "workgroup"} for op in ops)
    )


def _is_several(extent: Extent) -> bool:
    """One that is computed may always be 0 or 1, a switch."""
    return isinstance(extent, int) and extent > 1


def _always_zero(
    program: Program, grid: Sequence[Extent], asked: set[tuple[str, str | None]]
) -> Iterator[tuple[str, int]]:
    """Ids that the program asks for along axes of one invocation, with their axes."""
    for axis, word in enumerate(AXES):
        if grid[axis] == program.workgroup[axis] == 1:
            yield from ((n, axis) for n in ("global_id", "workgroup_id", "local_id") if (n, word) in asked)


def _stores(op: Op, program: Program) -> bool:
    """Whether an op writes memory that workgroups share."""
    buffer = program.buffers.get(op.attrs.get("buffer", ""))
    return "write" in op.definition.effects and not (buffer is not None and buffer.is_on_chip)


def _may_repeat(op: Op) -> bool:
    """Whether an op has an effect that may be meant once for each workgroup."""
    return (
        "atomic" in op.definition.effects
        or op.name in ("debug_print", "call")
        or op.definition.kernel is not None
    )
