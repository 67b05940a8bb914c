"""Workgroups with fewer invocations than a row has elements, of which each reads one.

%l = local_id x
%inside = lt %l, (len @x, 1)      a workgroup of 64, and rows of 100
%v = load @x[%r, %l]              the others are in no sum
%s = workgroup_reduce<add> %v
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..diagnostics import Diagnostic, Location, spelling_at
from ..ops import AXES, SUBGROUP_SIZE
from ..program import Op, Program, Value

__all__ = ["short_workgroups"]

_MOST_LANES = 1024


def short_workgroups(
    program: Program, shapes: Mapping[str, Sequence[int]], loc: Location | None
) -> Iterator[Diagnostic]:
    """The first warning of a launch at `loc` over arrays of these shapes, by buffers."""
    ops = [*program.walk()]
    if not any(op.name == "workgroup_reduce" for op in ops):
        return
    limited = {  # ids that are compared with a length, and so stand for all elements along it
        number: length.owner
        for op in ops
        if op.definition.format == "compare"
        for number, length in (op.operands, op.operands[::-1])
        if isinstance(length.owner, Op) and length.owner.name == "len"
    }
    loads = [op for op in ops if op.name == "load"]
    axes: dict[tuple[str, int], set[int | None]] = {}
    for op in loads:
        for dimension, index in enumerate(op.indices):
            axes.setdefault((op.attrs["buffer"], dimension), set()).add(_axis(index))
    ends = {axis: end for id, end in limited.items() if (axis := _axis(id)) is not None}
    for op in loads:
        name, shape = op.attrs["buffer"], shapes.get(op.attrs["buffer"], ())
        for dimension, index in enumerate(op.indices if len(shape) == len(op.indices) else ()):
            axis = _axis(index)
            length = None if axis is None else ends.get(axis)
            if axis is None or length is None or _extent(length, shapes) != shape[dimension]:
                continue
            if program.workgroup[axis] < shape[dimension] and axes[name, dimension] == {axis}:
                yield _short(program, op, dimension, axis, shape[dimension], loc)
                return


def _axis(value: Value) -> int | None:
    """The axis of a local_id; None for another value."""
    op = value.owner
    return AXES.index(op.attrs["axis"]) if isinstance(op, Op) and op.name == "local_id" else None


def _extent(length: Op, shapes: Mapping[str, Sequence[int]]) -> int | None:
    shape, dimension = shapes.get(length.attrs["buffer"], ()), length.attrs.get("dimension") or 0
    return shape[dimension] if dimension < len(shape) else None


def _short(
    program: Program, op: Op, dimension: int, axis: int, extent: int, loc: Location | None
) -> Diagnostic:
    name, spelling, lanes = op.attrs["buffer"], spelling_at(op.loc), program.workgroup[axis]
    along = f" along dimension {dimension}" if len(op.indices) > 1 else ""
    message = f"a workgroup has {lanes} invocations, and {spelling.buffer(name)} has {extent} elements{along}: those from {lanes} on are not read"
    end = spelling.extent(name, dimension if len(op.indices) > 1 else None)
    id = spelling.id("local_id", axis)
    several = (
        f"for k in range({id}, {end}, {lanes})"
        if spelling.name == "PYTHON"
        else f"a for from {id} to {end} step {lanes}"
    )
    help = f"let each go over several, {several}"
    if extent <= _MOST_LANES and program.lanes == lanes:
        help = f"write {spelling.lanes(-(-extent // SUBGROUP_SIZE) * SUBGROUP_SIZE)}, or {help}"
    return Diagnostic("warning", message, op.loc, help=help).note("it is launched here", loc)
