"""Indices of a buffer that are exchanged, by the extents that they go along in other buffers of a launch.

%v = load @x[%r, %c]          %r goes along 40 elements, and %c along 24
store %v, @y[%c, %r]          where @y has 40 rows of 24, too: it is to have 24 rows of 40
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..diagnostics import Diagnostic, Location, spelling_at
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


def _exchanged(program: Program, op: Op, rows: int, columns: int, loc: Location | None) -> Diagnostic:
    name, spelling = op.attrs["buffer"], spelling_at(op.loc)
    shown, text = (
        spelling.buffer(name),
        "" if op.loc is None else op.loc.source.text[op.loc.start : op.loc.end],
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
