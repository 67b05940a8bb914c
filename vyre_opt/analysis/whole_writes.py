"""Buffers that a launch surely writes from the first element to the last, so that what they held before is gone.

Two forms are known along each dimension, which most programs have that map elements:

    store %v, @y[%g]                                     each invocation writes the element of its number, under
                                                         conditions `lt %g, N`, an `and` of such, or none
    for %i = %g to N step %s { store %v, @y[%i] }        all invocations together stride over the elements

%g is `global_id x`, %s `global_size x`, and N a constant or the `len` of a buffer, so that where a launch comes to the
end, the elements below all its bounds are written.  Each dimension has an axis of its own:

    store %v, @y[%gy, %gx]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..ir import loops
from ..ir.ops import AXES
from ..ir.program import Block, Op, Program, Value
from ..ir.written_elements import Bound, WholeWrite, WrittenDimension

__all__ = ["whole_writes"]


def whole_writes(program: Program) -> dict[str, list[WholeWrite]]:
    """The forms found, by the buffer that they write.  A buffer that is also read, or of atomics, has none."""
    writes: dict[str, list[WholeWrite]] = {}
    for store, around in _stores(program.body, ()):
        write = _whole_write(program, store, around)
        if write is not None:
            writes.setdefault(store.attrs["buffer"], []).append(write)
    for op in program.walk():
        if "buffer" in op.attrs and op.name not in ("store", "len"):
            writes.pop(op.attrs["buffer"], None)
    return writes


def _stores(block: Block, around: tuple[Op, ...]) -> Iterator[tuple[Op, tuple[Op, ...]]]:
    """Stores with the ops around them, where these are regions, loops and the first arms of ifs."""
    for op in block.ops:
        if op.name == "store":
            yield op, around
        elif op.name in ("if", "for", "region"):
            yield from _stores(op.regions[0], (*around, op))


def _whole_write(program: Program, store: Op, around: tuple[Op, ...]) -> WholeWrite | None:
    buffer = program.buffers[store.attrs["buffer"]]
    if buffer.is_workgroup or store.operands[0].type is not buffer.dtype:
        return None
    axes: list[int] = []
    strides: dict[Op, int] = {}
    for index in store.indices:
        loop = next((op for op in around if op.name == "for" and op.regions[0].args[0] is index), None)
        axis = _axis(index, "global_id") if loop is None else _stride_axis(loop)
        if axis is None or axis in axes:  # two dimensions of one axis have a diagonal written
            return None
        axes.append(axis)
        if loop is not None:
            strides[loop] = axis
    bounds = _bounds(around, strides, [axis for axis in axes if axis not in strides.values()])
    if bounds is None:
        return None
    return WholeWrite(
        tuple(
            WrittenDimension(
                axis,
                frozenset(bound for other, bound in bounds if other == axis),
                None if axis in strides.values() else program.workgroup[axis],
            )
            for axis in axes
        )
    )


def _bounds(
    around: tuple[Op, ...], strides: Mapping[Op, int], axes: Sequence[int]
) -> list[tuple[int, Bound]] | None:
    """The bounds along each axis that the ops around a store set; None if one of them sets another condition.

    `strides`: the loops over the indices along an axis.  `axes`: the axes of which each invocation has one index, so
    that a condition on its number leaves out that index alone.
    """
    result: list[tuple[int, Bound]] = []
    for op in around:
        if op.name == "region":
            continue
        if op in strides:
            pairs = [(strides[op], _bound(loops.bounds(op)[1]))]
        elif op.name == "if":
            pairs = _condition_bounds(op.operands[0])
        else:
            return None  # a loop that may run no round
        for axis, bound in pairs:
            if bound is None or (op.name == "if" and axis not in axes):
                return None
            result.append((axis, bound))
    return result


def _bound(value: Value | int) -> Bound | None:
    """A constant as it is, the length of a buffer as its name and dimension."""
    if isinstance(value, int):
        return value
    op = value.owner
    if isinstance(op, Op) and op.name == "const":
        return int(op.attrs["value"])
    if isinstance(op, Op) and op.name == "len":
        return str(op.attrs["buffer"]), int(op.attrs.get("dimension", 0))
    return None


def _condition_bounds(condition: Value) -> list[tuple[int, Bound | None]]:
    """The axis and the bound of `lt %g, bound`, or of an `and` of such; no bound for a condition of another kind."""
    op = condition.owner
    if isinstance(op, Op) and op.name == "and":
        return [pair for operand in op.operands for pair in _condition_bounds(operand)]
    if isinstance(op, Op) and op.name == "lt":
        axis = _axis(op.operands[0], "global_id")
        if axis is not None:
            return [(axis, _bound(op.operands[1]))]
    return [(0, None)]


def _stride_axis(loop: Op) -> int | None:
    """The axis of `for %i = %g to bound step %s`."""
    lower, _, step = loops.bounds(loop)
    if not isinstance(lower, Value) or not isinstance(step, Value):
        return None
    axis = _axis(lower, "global_id")
    return axis if axis == _axis(step, "global_size") else None


def _axis(value: Value, name: str) -> int | None:
    """The axis of an id or a size of that name; None for another value."""
    op = value.owner
    return AXES.index(op.attrs["axis"]) if isinstance(op, Op) and op.name == name else None
