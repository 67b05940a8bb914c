"""Elements behind the last whole vector of an array, which a launch leaves out.

%e = mul %i, 4                       the kernel goes up to len(@y) / 4, and of 259 elements
store %v, @y[%e] : vec<4 x f32>      the last three are in no vector
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ..diagnostics import Diagnostic, Location, spelling_at
from ..grids import Extent
from ..program import Op, Program, Value
from ..rewrite import constant_value
from .invocation_runs import Lanes, Run, Supposed

__all__ = ["vector_tails"]

_MOST_TERMS = 50
"""Ops of an index that are looked at."""


def vector_tails(
    program: Program,
    grid: Sequence[Extent],
    shapes: Mapping[str, Sequence[int]],
    params: Mapping[str, int],
    loc: Location | None,
) -> Iterator[Diagnostic]:
    """The warning of a launch at `loc` whose kernel goes over the whole vectors of an array, and over none of its other elements.  `shapes`: of
    the arrays that are passed, by buffers."""
    accesses: dict[str, list[Op]] = {}
    for op in program.walk():
        if "buffer" in op.attrs and op.indices:
            accesses.setdefault(op.attrs["buffer"], []).append(op)
    tails = [
        (ops, *tail)
        for name, ops in accesses.items()
        if (tail := _tail(program, name, ops, shapes.get(name, ()))) is not None
    ]
    tails.sort(key=lambda tail: not any(op.name == "store" for op in tail[0]))
    for ops, extent, width in tails:
        op = next((each for each in ops if each.name == "store"), ops[0])
        is_last = _is_counted(program, extent, width, shapes)
        if is_last or (
            len(op.indices) == 1 and _is_reached(program, grid, shapes, params, op, extent, width)
        ):
            yield _left_out(program, op, extent, width, loc)
            return


def _tail(program: Program, name: str, ops: Sequence[Op], shape: Sequence[int]) -> tuple[int, int] | None:
    """The last extent of an array, and the width of the vectors that are all its accesses, where elements are left."""
    buffer = program.buffers.get(name)
    if buffer is None or buffer.is_on_chip or buffer.dtype.is_vec or not shape:
        return None
    extent = prod(shape) if buffer.dimensions == 1 else shape[-1]
    widths = {(op.results or op.operands)[0].type.lanes for op in ops}
    if len(widths) != 1 or any(op.name not in ("load", "store") for op in ops):
        return None
    (width,) = widths
    is_whole = width > 1 and all(_is_multiple(op.indices[-1], width) for op in ops)
    return (extent, width) if is_whole and extent % width and extent > width else None


def _is_multiple(value: Value, width: int) -> bool:
    """Whether an index is a number of vectors times their width, as its ops say it."""
    known, op = constant_value(value), value.owner
    if known is not None:
        return isinstance(known, int) and known % width == 0
    if not isinstance(op, Op):
        return False
    if op.name == "mul":
        return any(_is_multiple(each, width) for each in op.operands if constant_value(each) is not None)
    return op.name == "add" and all(
        isinstance(each.owner, Op) and each.owner.name == "mul" and _is_multiple(each, width)
        for each in op.operands
    )


def _is_counted(program: Program, extent: int, width: int, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether a program computes how many whole vectors there are: `len(x) // 4`."""
    for op in program.walk():
        length = op.operands[0].owner if op.name == "div" else None
        if not isinstance(length, Op) or length.name != "len" or constant_value(op.operands[1]) != width:
            continue
        shape = shapes.get(length.attrs["buffer"], ())
        dimension = length.attrs.get("dimension")
        if extent == (prod(shape) if dimension is None else [*shape, 0][dimension]):
            return True
    return False


class _Last(Run):
    """A run of the invocation that has the last whole vector, if each has the one of its number.  `stored`: the places of an access."""

    def __init__(self, op: Op, program: Program, supposed: Supposed) -> None:
        super().__init__(program, supposed)
        self.wanted, self.places_met = op, set[int]()

    def access(self, op: Op, lanes: Lanes) -> None:
        place = self.column(op.indices[-1]) if op is self.wanted and lanes else None
        self.places_met |= {place} if isinstance(place, int) else set()


def _is_reached(
    program: Program,
    grid: Sequence[Extent],
    shapes: Mapping[str, Sequence[int]],
    params: Mapping[str, int],
    op: Op,
    extent: int,
    width: int,
) -> bool:
    extents = tuple(each for each in grid if isinstance(each, int))
    group, place = divmod(extent // width - 1, program.workgroup[0])
    if (
        len(extents) < len(grid)
        or not extents
        or group >= extents[0]
        or program.workgroup[0] != program.lanes
    ):
        return False
    run = _Last(op, program, Supposed(extents, ((group, 0, 0),), ((place, 0, 0),), shapes, params))
    run.run()
    return extent - extent % width - width in run.places_met


def _left_out(program: Program, op: Op, extent: int, width: int, loc: Location | None) -> Diagnostic:
    name, spelling = op.attrs["buffer"], spelling_at(op.loc)
    rest, is_store, rank = extent % width, op.name == "store", len(op.indices)
    what = "elements" if rank == 1 else "elements a row"
    left = "stay as they are" if is_store else "are not read"
    last = (
        f"the last {rest} {left}"
        if rest > 1
        else f"the last one {left.replace('are not', 'is not').replace('stay', 'stays')}"
    )
    message = f"{spelling.buffer(name)} has {extent} {what}, and its vectors of {width} end at {extent - rest}: {last}"
    text = ("", 0, 0) if op.loc is None else (op.loc.source.text, op.loc.start, op.loc.end)
    help = (
        spelling.tail(*text, name, width)
        if rank == 1
        else f"pass arrays whose rows have a multiple of {width} elements"
    )
    return Diagnostic("warning", message, loc, help=help).note(
        f"it is {'stored' if is_store else 'read'} here", op.loc
    )
