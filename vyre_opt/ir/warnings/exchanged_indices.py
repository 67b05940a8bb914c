"""Indices of a buffer that are exchanged, by the extents that they go along in other buffers of a launch.

%v = load @x[%r, %c]          %r goes along 40 elements, and %c along 24
load @b[%r]                   where @b has 24 elements, as a row of @x: it is to be @b[%c]
store %v, @y[%c, %r]          where @y has 40 rows of 24, too: it is to have 24 rows of 40
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ..diagnostics import Diagnostic, Location, source_text, spelling_at
from ..program import Op, Program
from ..rewrite import constant_value
from .racing_stores import identity, indices_shown

__all__ = ["exchanged_indices"]


def exchanged_indices(
    program: Program, shapes: Mapping[str, Sequence[int]], loc: Location | None
) -> Iterator[Diagnostic]:
    """The warning of a launch at `loc` over arrays of these shapes, by buffers: of the first access whose last two indices both go along other
    extents elsewhere, and along the same ones once they are exchanged."""
    accesses = [
        op
        for op in program.walk()
        if len(op.indices) > 1 and len(op.indices) == len(shapes.get(op.attrs.get("buffer", ""), ()))
    ]
    # a part of the arrays may be meant, of which both have enough
    limited = {
        identity(number)
        for op in program.walk()
        if op.definition.format == "compare"
        for number, limit in (op.operands, op.operands[::-1])
        if constant_value(limit) is not None or getattr(limit.owner, "name", "") == "param"
    }
    along: dict[object, dict[str, set[int]]] = {}
    for op in accesses:
        name = op.attrs["buffer"]
        for index, extent in zip(op.indices, shapes[name], strict=True):
            if constant_value(index) is None:
                along.setdefault(identity(index), {}).setdefault(name, set()).add(extent)
    for op in sorted(accesses, key=lambda op: op.definition.format not in ("store", "slice_store")):
        name = op.attrs["buffer"]
        rows, columns = shapes[name][-2:]
        others = [
            {e for other, extents in along.get(identity(index), {}).items() if other != name for e in extents}
            for index in op.indices[-2:]
        ]
        is_limited = any(identity(index) in limited for index in op.indices[-2:])
        if rows != columns and others == [{columns}, {rows}] and not is_limited:
            yield _exchanged(program, op, rows, columns, loc)
            return
    yield from _rows_for_columns(program, shapes, accesses, limited, loc)


def _rows_for_columns(
    program: Program,
    shapes: Mapping[str, Sequence[int]],
    accesses: Sequence[Op],
    limited: Collection[object],
    loc: Location | None,
) -> Iterator[Diagnostic]:
    """The warning of an element that a row takes of an array which has as many elements as a row, and more than there are rows."""
    rows = {identity(op.indices[-2]): op for op in accesses if constant_value(op.indices[-2]) is None}
    flat = [
        op
        for op in program.walk()
        if op.name in ("load", "slice_load")
        and len(op.indices) == 1
        and len(shapes.get(op.attrs["buffer"], ())) == 1
    ]
    for op in flat if rows else ():
        (length,), index = shapes[op.attrs["buffer"]], identity(op.index)
        beside = rows.get(index)
        if op.name != "load" or op.result.type.is_vec or beside is None or index in limited:
            continue
        height, width = shapes[beside.attrs["buffer"]][-2:]
        others = [each for each in flat if each.attrs["buffer"] == op.attrs["buffer"]]
        if not 1 < height < width == length or any(identity(each.index) != index for each in others):
            continue
        spelling, name = spelling_at(op.loc), op.attrs["buffer"]
        column = indices_shown(beside)[-1]
        if beside.name.startswith("slice_"):
            column = ":"
        message = (
            f"{spelling.buffer(name)} has {length} elements, as many as a row of {spelling.buffer(beside.attrs['buffer'])}, and its index "
            f"here goes along the {height} rows"
        )
        warning = Diagnostic("warning", message, op.loc, help=f"write {spelling.element(name, [column])}")
        yield warning.note("it is launched here", loc)
        return


def _exchanged(program: Program, op: Op, rows: int, columns: int, loc: Location | None) -> Diagnostic:
    name, spelling = op.attrs["buffer"], spelling_at(op.loc)
    shown, text = (
        spelling.buffer(name),
        source_text(op.loc),
    )
    is_store = op.definition.format in ("store", "slice_store")
    message = (
        f"{shown} has {rows} rows of {columns} elements, and its indices here go along {columns} and {rows} elements of other arrays: "
        "they are exchanged"
    )
    indices = indices_shown(op)
    plain = spelling.element(name, [*indices[:-2], indices[-1], indices[-2]])
    swapped = spelling.exchanged(text, name) or plain
    help = f"write {swapped}"
    if is_store:
        help = f"for a transposed result, give {shown} {columns} rows of {rows} elements; otherwise write {swapped}"
    return Diagnostic("warning", message, op.loc, help=help).note("it is launched here", loc)
