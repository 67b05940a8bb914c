"""Slices: rows and blocks of a workgroup, whose only invocation computes with them.

A slice is an array with one entry, its first axis, for the invocation; its extents follow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...execution.dispatcher import ProgramError
from ...execution.faults import out_of_bounds
from ...ir import arith
from ...ir.program import Op
from ...ir.types import DataType
from .elementwise import compute
from .frame import Frame
from .machine import Handler, Machine
from .memory import Storage
from .memory_ops import check_race, check_written, indices_at
from .registers import constant_register, from_storage, to_storage

Array = np.ndarray

FOLDED = 4096
"""Positions of a sum that are one another's multiple of it apart are folded first."""


def _extents(machine: Machine, frame: Frame, op: Op, dtype: DataType, storage: Storage) -> tuple[int, ...]:
    """The extents of the box that a load or store touches, with what is beyond the edge.

    Raises ProgramError where it lies outside of the buffer and may not.
    """
    starts, shape = indices_at(frame, op, 0), storage.shape
    outer = len(shape) - len(dtype.extents)
    extents = [
        max(0, shape[outer + axis] - starts[outer + axis]) if extent is None else extent
        for axis, extent in enumerate(dtype.extents)
    ]
    for axis, (start, length) in enumerate(zip(starts, shape, strict=True)):
        extent = extents[axis - outer] if axis >= outer else 1
        may_end = axis >= outer and op.attrs["edge"] != "checked"
        is_open = axis >= outer and dtype.extents[axis - outer] is None
        last = length if may_end or is_open else length - extent
        if not 0 <= start <= last:
            invocation = machine.invocation_at(frame, 0)
            covered = extent if axis == len(shape) - 1 else 1
            place = tuple(
                s + (extents[k - outer] - 1 if k >= outer and k < len(shape) - 1 else 0)
                for k, s in enumerate(starts)
            )
            raise out_of_bounds(machine.program, op, place, covered, shape, invocation)
    return tuple(extents)


def _offsets(frame: Frame, op: Op, extents: Sequence[int], storage: Storage) -> tuple[Array, Array]:
    """The offsets of the elements of a box, and which of them are in the buffer; both have the box's extents."""
    shape, starts = storage.shape, indices_at(frame, op, 0)
    outer = len(shape) - len(extents)
    offsets, inside = np.zeros(extents, np.int64), np.ones(extents, np.bool_)
    for axis, (start, length) in enumerate(zip(starts, shape, strict=True)):
        at = np.asarray(start, np.int64)
        if axis >= outer:
            k = axis - outer
            at = (start + np.arange(extents[k])).reshape([-1 if n == k else 1 for n in range(len(extents))])
        inside &= at < length
        offsets = offsets * length + at
    return offsets, inside


def load(machine: Machine, frame: Frame, op: Op) -> None:
    result = op.results[0]
    storage = machine.storages[op.attrs["buffer"]]
    extents = _extents(machine, frame, op, result.type, storage)
    offsets, inside = _offsets(frame, op, extents, storage)
    touched = offsets[inside][None]
    check_written(machine, frame, op, storage, touched)
    check_race(machine, frame, op, storage, touched, "read")
    loaded = from_storage(storage.data[touched], result.type)
    filled = frame.get(op.operands[-1]) if op.attrs["edge"] == "filled" else np.zeros(1, loaded.dtype)
    values = np.full((1, *extents), filled[0], loaded.dtype)
    values[0][inside] = loaded[0]
    frame.values[result] = values


def store(machine: Machine, frame: Frame, op: Op) -> None:
    value = op.operands[0]
    storage, values = machine.storages[op.attrs["buffer"]], frame.get(value)
    extents = _extents(machine, frame, op, value.type, storage)
    if values.shape[1:] != extents:
        raise _other_extents(machine, frame, op, values.shape[1:], extents)
    offsets, inside = _offsets(frame, op, extents, storage)
    touched = offsets[inside][None]
    check_race(machine, frame, op, storage, touched, "write")
    storage.data[touched] = to_storage(values[0][inside][None], value.type)
    if storage.written is not None:
        storage.written[touched] = True


def broadcast(machine: Machine, frame: Frame, op: Op) -> None:
    value, result = frame.get(op.operands[0]), op.results[0]
    if len(op.operands) == 2:
        extents = frame.get(op.operands[1]).shape[1:]
    else:
        extents = tuple(extent or 0 for extent in result.type.extents)
    mine = value.shape[1:]
    types = op.operands[0].type.extents
    for number, (extent, has) in enumerate(zip(types[::-1], mine[::-1], strict=True)):
        if extent != 1 and has != extents[-1 - number]:
            raise _other_extents(machine, frame, op, mine, extents)
    frame.values[result] = np.broadcast_to(
        value.reshape(1, *[1] * (len(extents) - len(mine)), *mine), (1, *extents)
    )


def of_same_extents(handler: Handler) -> Handler:
    """The handler of an op that takes slices of the same extents.  It raises ProgramError for others."""

    def run(machine: Machine, frame: Frame, op: Op) -> None:
        if op.results[0].type.is_slice:
            shapes = [frame.get(value).shape[1:] for value in op.operands if value.type.is_slice]
            for shape in shapes[1:]:
                if shape != shapes[0]:
                    raise _other_extents(machine, frame, op, shapes[0], shape)
        handler(machine, frame, op)

    return run


def _other_extents(
    machine: Machine, frame: Frame, op: Op, one: tuple[int, ...], other: tuple[int, ...]
) -> ProgramError:
    texts = [" x ".join(map(str, extents)) for extents in (one, other)]
    message = f"{op.name} takes slices of the same extents, not {texts[0]} and {texts[1]}"
    return machine.fault("assert", op, f"{message}, by {machine.invocation_at(frame, 0)}")


def length(machine: Machine, frame: Frame, op: Op) -> None:
    extent = frame.get(op.operands[0]).shape[1 + op.attrs["axis"]]
    frame.values[op.results[0]] = np.array([extent], np.uint32)


def reduce(machine: Machine, frame: Frame, op: Op) -> None:
    value, result, axis = op.operands[0], op.results[0], op.attrs["axis"]
    total = fold(np.moveaxis(frame.get(value), 1 + axis, -1), op.attrs["combine"], value.type)
    kept = len(result.type.extents) == len(value.type.extents)
    frame.values[result] = np.expand_dims(total, 1 + axis) if kept else total


def fold(values: Array, combine: str, dtype: DataType) -> Array:
    """Elements along the last axis combined, in the order that language.md gives."""

    def both(a: Array, b: Array) -> Array:
        return compute(combine, [a, b], dtype)

    neutral = constant_register(arith.neutral(combine, dtype.element), dtype.element)[0]
    blocks = max(1, -(-values.shape[-1] // FOLDED))
    padded = np.full((*values.shape[:-1], blocks * FOLDED), neutral, values.dtype)
    padded[..., : values.shape[-1]] = values
    total = padded[..., :FOLDED]
    for block in range(1, blocks):
        total = both(total, padded[..., block * FOLDED : (block + 1) * FOLDED])
    for _ in range(2):
        total = both(total[..., ::2], total[..., 1::2])
    while (half := total.shape[-1] // 2) > 0:
        total = both(total[..., :half], total[..., half:])
    return total[..., 0]
