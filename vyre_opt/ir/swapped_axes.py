"""Launches over a grid whose axes are exchanged: they leave elements out that the same extents in the other order would reach.

%r = global_id x        launched over grid(ceil_div(columns, 16), ceil_div(rows, 16))
%c = global_id y
store %v, @y[%r, %c]    rows go along x, and the grid has as many as columns need
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from .access_extents import access_extents
from .diagnostics import Diagnostic, Location, spelling_at
from .grids import Extent
from .ops import AXES
from .program import Op, Program

__all__ = ["swapped_axes", "wrong_extent"]


def swapped_axes(
    program: Program, grid: Sequence[Extent], shapes: Mapping[str, Sequence[int]], loc: Location | None
) -> Iterator[Diagnostic]:
    """The warning of a launch at `loc` on buffers of known shapes, if it is one."""
    extents = [extent for extent in grid if isinstance(extent, int)]
    if len(extents) < len(grid):
        return
    for op in program.walk():
        shape = shapes.get(op.attrs.get("buffer", ""))
        if op.name != "store" or shape is None or len(shape) != len(op.indices):
            continue
        along = {d: _axis(index.owner) for d, index in enumerate(op.indices)}
        for d, e in combinations([d for d, axis in along.items() if axis is not None], 2):
            a, b = along[d], along[e]
            assert a is not None and b is not None
            lanes = [extent * size for extent, size in zip(extents, program.workgroup, strict=True)]
            other = [*extents]
            other[a], other[b] = other[b], other[a]
            reached = [extent * size for extent, size in zip(other, program.workgroup, strict=True)]
            is_whole = lanes[a] >= shape[d] and lanes[b] >= shape[e]
            if a != b and not is_whole and reached[a] >= shape[d] and reached[b] >= shape[e]:
                yield _warning(
                    program,
                    op,
                    other,
                    (d, a, lanes[a], shape[d]) if lanes[a] < shape[d] else (e, b, lanes[b], shape[e]),
                    loc,
                )
                return


def wrong_extent(
    program: Program,
    grid: Sequence[Extent],
    shapes: Mapping[str, Sequence[int]],
    loc: Location | None,
    is_whole: bool = False,
) -> Iterator[Diagnostic]:
    """The warning of a launch at `loc` that counts invocations where a grid counts workgroups, or is too small for the array whose
    length the program compares its id with.  `is_whole`: for any that it stores to at its id, since all of it is shown."""
    extent, lanes = grid[0], program.workgroup[0]
    if not isinstance(extent, int) or extent < 1 or any(e != 1 for e in (*grid[1:], *program.workgroup[1:])):
        return
    if lanes == 1:
        yield from _too_few_rows(program, extent, shapes, loc)
        return
    lengths = _compared_lengths(program)
    for op in program.walk():
        name = op.attrs.get("buffer", "")
        is_told = op.name == "store" and (is_whole or name in lengths)
        if is_told and access_extents(op, program.buffers[name])[-1] > 1:
            return  # an invocation stores several elements, from where the index says
        if not is_told or len(shapes.get(name, ())) != 1 or _axis(op.indices[0].owner) != 0:
            continue
        count, spelling = shapes[name][0], spelling_at(op.loc)
        needed = -(-count // lanes)
        if extent == count and needed * 4 <= extent:
            message = f"this launch has {extent} workgroups of {lanes} invocations for the {count} elements of {spelling.buffer(name)}: a grid counts workgroups"
        elif extent * lanes < count:
            message = f"this launch has {extent * lanes} invocations for the {count} elements of {spelling.buffer(name)}: the others stay as they are"
        else:
            return
        help = f"write {spelling.grid(program.name, str(needed))}, {spelling.blocks(name, lanes)} workgroups"
        if extent * lanes < count:
            help += f"; where the first alone are meant, {spelling.part(name, extent * lanes)}"
        yield Diagnostic("warning", message, loc, help=help).note("it is stored here", op.loc)
        return


def _compared_lengths(program: Program) -> set[str]:
    """Buffers whose length a program compares its global_id along x with."""
    found: set[str] = set()
    for op in program.walk():
        if op.name in ("lt", "ge", "gt", "le"):
            owners = [operand.owner for operand in op.operands]
            if any(_axis(owner) == 0 for owner in owners):
                found |= {
                    owner.attrs["buffer"] for owner in owners if isinstance(owner, Op) and owner.name == "len"
                }
    return found


def _axis(op: object) -> int | None:
    """The axis of a global_id; None for another op."""
    return AXES.index(op.attrs["axis"]) if isinstance(op, Op) and op.name == "global_id" else None


def _warning(
    program: Program, op: Op, grid: Sequence[int], lack: tuple[int, int, int, int], loc: Location | None
) -> Diagnostic:
    dimension, axis, reached, extent = lack
    spelling, name = spelling_at(op.loc), op.attrs["buffer"]
    extents = [*grid]
    while extents and extents[-1] == 1:
        extents.pop()
    message = (
        f"this launch has {reached} invocations along {AXES[axis]}, and {spelling.buffer(name)} has {extent} elements along dimension {dimension}, "
        f"which goes along {AXES[axis]}: the others stay as they are"
    )
    help = (
        f"exchange the extents of the grid: write {spelling.grid(program.name, ', '.join(map(str, extents)))}"
    )
    warning = Diagnostic("warning", message, loc, help=help)
    return warning.note(
        f"{spelling.id('global_id', axis)} is the index along dimension {dimension} here", op.loc
    )


def _too_few_rows(
    program: Program, extent: int, shapes: Mapping[str, Sequence[int]], loc: Location | None
) -> Iterator[Diagnostic]:
    """The warning of a launch of a program of slices over fewer workgroups than the rows that each of them stores one of."""
    for op in program.walk():
        name = op.attrs.get("buffer", "")
        first = op.indices[0].owner if op.name in ("store", "slice_store") else None
        if not isinstance(first, Op) or first.name != "workgroup_id" or first.attrs["axis"] != AXES[0]:
            continue
        shape, moved = shapes.get(name, ()), op.operands[0].type
        is_row = len(op.indices) > len(
            moved.extents
        )  # the workgroup's number is that of a row, and not of an element of a block
        if not is_row or len(shape) != len(op.indices) or extent >= shape[0]:
            continue
        spelling = spelling_at(op.loc)
        rows, length = (
            "rows" if len(shape) > 1 else "elements",
            spelling.extent(name, 0 if len(shape) > 1 else None),
        )
        message = f"this launch has {extent} workgroups for the {shape[0]} {rows} of {spelling.buffer(name)}: the others stay as they are"
        help = f"write {spelling.grid(program.name, length)}; where the first alone are meant, {spelling.part(name, extent)}"
        yield Diagnostic("warning", message, loc, help=help).note("it is stored here", op.loc)
        return
