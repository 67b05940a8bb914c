"""Zeros beyond the edge of an array that count in a maximum, a minimum, or a sum of exponentials.

%row = slice_load<filled> @x[%r, 0], 0.0 : slice<64xf32>      @x has rows of 50: fourteen zeros
%m = slice_reduce<max> %row[0]                                0 where all of the row are below it
%e = exp %row, then slice_reduce<add> %e[0]                   fourteen too much
div (slice_reduce<add> %row[0]), 64.0                         a mean of 50 elements
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..arith import decode_float
from ..diagnostics import Diagnostic, Location, source_text, spelling_at
from ..loops import bounds
from ..program import Block, Op, Program, Value
from ..rewrite import constant_value
from .reduction_identities import neutral

__all__ = ["padded_reductions"]

_MOST_TERMS = 50
"""Ops that a slice is computed from which are looked at."""
_EXPONENTIALS = ("exp", "exp2")


def padded_reductions(
    program: Program, shapes: Mapping[str, Sequence[int]], loc: Location | None
) -> Iterator[Diagnostic]:
    """The first warning of a launch at `loc` over arrays of these shapes, by buffers."""
    ops = [*program.walk()]
    if not any(op.name == "slice_load" and op.attrs["edge"] == "filled" for op in ops):
        return
    loops = {op.regions[0].args[0]: op for op in ops if op.name == "for"}
    for op in ops:
        reduction, is_mean = op, False
        if op.name == "div" and isinstance(op.operands[0].owner, Op):
            reduction, is_mean = op.operands[0].owner, True
        if reduction.name != "slice_reduce":
            continue
        combine, axis = reduction.attrs["combine"], reduction.attrs["axis"]
        load, has_exponential = _loaded(reduction.operands[0])
        counts = combine in ("max", "min") or (combine == "add" and has_exponential)
        if load is None or not (counts or (is_mean and combine == "add")):
            continue
        extent, length = _padded(load, axis, shapes, loops)
        is_lowest = combine == "max" and _is_above_zero(reduction.operands[0])
        if not extent or is_lowest:
            continue
        if is_mean and _is_number(op.operands[1], extent):
            yield _mean(op, load, axis, extent, length, loc)
            return
        if counts and not is_mean:
            yield _counted(op, load, combine, extent, length, loc)
            return


def _loaded(value: Value) -> tuple[Op | None, bool]:
    """The load that is 0 beyond the edge from which alone a slice is computed element by element, and whether by an exponential."""
    has_exponential = False
    pending, loads = [value], list[Op]()
    for _ in range(_MOST_TERMS):
        if not pending:
            return (loads[0], has_exponential) if len({*loads}) == 1 else (None, False)
        op = pending.pop().owner
        if not isinstance(op, Op):
            return None, False
        if op.name == "slice_load":
            if op.attrs["edge"] != "filled" or constant_value(op.operands[-1]) != 0:
                return None, False
            loads.append(op)
        elif op.name == "slice_broadcast":
            continue
        elif (
            op.definition.is_pure
            and not op.regions
            and not op.name.startswith("slice_")
            and op.name != "select"
        ):
            has_exponential |= op.name in _EXPONENTIALS
            pending += [each for each in op.operands if each.type.is_slice]
        else:
            return None, False
    return None, False


def _is_above_zero(value: Value) -> bool:
    """Whether no element is below 0: of an unsigned type, an absolute value, or a square."""
    op = value.owner
    is_square = isinstance(op, Op) and op.name == "mul" and op.operands[0] is op.operands[1]
    return value.type.element.kind == "uint" or is_square or (isinstance(op, Op) and op.name == "abs")


def _padded(
    load: Op, axis: int, shapes: Mapping[str, Sequence[int]], loops: Mapping[Value, Op]
) -> tuple[int, int]:
    """The extent of a block along an axis that goes beyond the edge, and that of the array there; zeros for one that does not."""
    shape, extents = shapes.get(load.attrs["buffer"], ()), load.results[0].type.extents
    if len(shape) != len(load.indices) or axis >= len(extents):
        return 0, 0
    dimension = len(shape) - len(extents) + axis
    extent, length, start = extents[axis], shape[dimension], load.indices[dimension]
    if extent is None or extent < 2:
        return 0, 0
    first = constant_value(start)
    if isinstance(first, int):
        return (extent, length) if 0 <= first < length < first + extent else (0, 0)
    return (extent, length) if length % extent and _is_multiple(start, extent, loops) else (0, 0)


def _is_multiple(start: Value, extent: int, loops: Mapping[Value, Op]) -> bool:
    """Whether a block begins at a multiple of its extent, as the one of a loop or of a workgroup."""
    owner = start.owner
    if isinstance(owner, Block):
        return start in loops and bounds(loops[start])[2] == extent
    return isinstance(owner, Op) and owner.name == "mul" and extent in map(constant_value, owner.operands)


def _is_number(value: Value, number: int) -> bool:
    known, dtype = constant_value(value), value.type.element
    return isinstance(known, int) and (decode_float(known, dtype) if dtype.is_float else known) == number


def _beyond(load: Op, extent: int, length: int) -> str:
    name = spelling_at(load.loc).buffer(load.attrs["buffer"])
    return f"a block of {extent} goes beyond the {length} elements of {name} here"


def _counted(op: Op, load: Op, combine: str, extent: int, length: int, loc: Location | None) -> Diagnostic:
    spelling, element = spelling_at(load.loc), load.results[0].type.element
    what = {"max": "this maximum", "min": "this minimum"}.get(combine, "this sum of exponentials")
    message = f"{_beyond(load, extent, length)}, and the zeros behind them count in {what}"
    fill = neutral(combine if combine == "min" else "max", element, load.loc)
    text = source_text(load.loc)
    written = spelling.refilled(text, fill) or f"slice_load<filled> with {fill}"
    warning = Diagnostic("warning", message, op.loc, help=f"write {written}")
    return warning.note("it is read here", load.loc).note("it is launched here", loc)


def _mean(op: Op, load: Op, axis: int, extent: int, length: int, loc: Location | None) -> Diagnostic:
    spelling, name = spelling_at(load.loc), load.attrs["buffer"]
    dimension = len(load.indices) - len(load.results[0].type.extents) + axis
    own = spelling.extent(name, dimension if len(load.indices) > 1 else None)
    message = f"{_beyond(load, extent, length)}, and this divides by {extent}"
    help = f"divide by f32({own})" if spelling.name == "PYTHON" else f"divide by {own}, as a float"
    warning = Diagnostic("warning", message, op.loc, help=help)
    return warning.note("it is read here", load.loc).note("it is launched here", loc)
