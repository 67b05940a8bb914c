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
from ...ir.unlike_extents import unlike_extents
from .convert import cast
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
        last = length if is_open else length - extent
        if not may_end and not 0 <= start <= last:
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
        if axis < outer:
            at = np.asarray(start, np.int64)
        else:
            k = axis - outer
            bits = max(
                32, op.indices[axis].type.bits or 32
            )  # an index below 0 is one that has wrapped around
            positions = np.arange(extents[k], dtype=np.uint64) + np.uint64(start % 2**64)
            within = np.minimum(positions & np.uint64(2**bits - 1), np.uint64(length)).astype(np.int64)
            at = within.reshape([-1 if n == k else 1 for n in range(len(extents))])
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


def gather(machine: Machine, frame: Frame, op: Op) -> None:
    result, storage = op.results[0], machine.storages[op.attrs["buffer"]]
    indices = [frame.get(index) for index in op.operands]
    slices = [each for each, index in zip(indices, op.operands, strict=True) if index.type.is_slice]
    for other in slices[1:]:
        if other.shape != slices[0].shape:
            raise _other_extents(machine, frame, op, slices[0].shape[1:], other.shape[1:])
    extents, offsets = slices[0].shape[1:], np.zeros(slices[0].shape[1:], np.int64)
    wide = [each.astype(object).reshape(-1) for each in indices]
    for number in range(offsets.size):
        place = tuple(int(each[number % len(each)]) for each in wide)
        if any(not 0 <= at < length for at, length in zip(place, storage.shape, strict=True)):
            invocation = machine.invocation_at(frame, 0)
            raise out_of_bounds(machine.program, op, place, 1, storage.shape, invocation)
        offsets.flat[number] = np.ravel_multi_index(place, storage.shape)
    touched = offsets.reshape(-1)[None]
    check_written(machine, frame, op, storage, touched)
    check_race(machine, frame, op, storage, touched, "read")
    frame.values[result] = from_storage(storage.data[touched], result.type).reshape(1, *extents)


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
    message = unlike_extents(op, f", not {texts[0]} and {texts[1]}")
    by = machine.invocation_at(frame, 0)
    return machine.fault("assert", op, f"{message}, by {by}", by=by)


def iota(machine: Machine, frame: Frame, op: Op) -> None:
    dtype, start = op.results[0].type, frame.get(op.operands[0])
    extents = [int(frame.get(op.operands[1])[0]) if extent is None else extent for extent in dtype.extents]
    counted = np.arange(np.prod(extents)).astype(start.dtype)
    frame.values[op.results[0]] = compute("add", [start, counted], dtype).reshape(1, *extents)


def length(machine: Machine, frame: Frame, op: Op) -> None:
    extent = frame.get(op.operands[0]).shape[1 + op.attrs["axis"]]
    frame.values[op.results[0]] = np.array([extent], np.uint32)


def reduce(machine: Machine, frame: Frame, op: Op) -> None:
    value, result, axis = op.operands[0], op.results[0], op.attrs["axis"]
    total = fold(np.moveaxis(frame.get(value), 1 + axis, -1), op.attrs["combine"], value.type)
    kept = len(result.type.extents) == len(value.type.extents)
    frame.values[result] = np.expand_dims(total, 1 + axis) if kept else total


def scan(machine: Machine, frame: Frame, op: Op) -> None:
    """Scan groups of 4 one by one, of 32 groups and of 32 such chunks by doubling distances, of blocks one by one."""
    value, result, axis = op.operands[0], op.results[0], 1 + op.attrs["axis"]
    combine, dtype = op.attrs["combine"], value.type
    values = np.moveaxis(frame.get(value), axis, -1)
    padded = _in_whole_blocks(values, combine, dtype)

    def both(a: Array, b: Array) -> Array:
        return compute(combine, [a, b], dtype)

    def one_by_one(terms: Array) -> Array:
        terms = terms.copy()
        for k in range(1, terms.shape[-1]):
            terms[..., k] = both(terms[..., k - 1], terms[..., k])
        return terms

    def doubling(terms: Array) -> Array:
        for distance in (1, 2, 4, 8, 16):
            changed = terms.copy()
            changed[..., distance:] = both(terms[..., :-distance], terms[..., distance:])
            terms = changed
        return terms

    def before(terms: Array) -> Array:
        shifted = np.full_like(terms, _neutral(combine, dtype))
        shifted[..., 1:] = terms[..., :-1]
        return shifted

    groups = one_by_one(padded.reshape(*padded.shape[:-1], -1, 32, 32, 4))
    chunks = doubling(groups[..., -1])
    blocks = doubling(chunks[..., -1])
    totals = one_by_one(blocks[..., -1])
    first = before(chunks)[..., None]
    if op.attrs["mode"] == "exclusive":
        inner = np.concatenate([first, both(first, groups[..., :-1])], -1)
    else:
        inner = both(first, groups)
    inner = both(before(blocks)[..., None, None], inner)
    inner = both(before(totals)[..., None, None, None], inner)
    flat = inner.reshape(padded.shape)[..., : values.shape[-1]]
    frame.values[result] = np.ascontiguousarray(np.moveaxis(flat, -1, axis))


def transpose(machine: Machine, frame: Frame, op: Op) -> None:
    frame.values[op.results[0]] = np.ascontiguousarray(np.swapaxes(frame.get(op.operands[0]), 1, 2))


def dot(machine: Machine, frame: Frame, op: Op) -> None:
    """Products added in the order of the depth, each with one rounding, to a block if there is one."""
    result = op.results[0]
    element = result.type.element
    a, b, *sums = (cast(frame.get(v)[0], v.type.element, element) for v in op.operands)
    total = sums[0] if sums else np.full((a.shape[0], b.shape[1]), _neutral("add", element))
    for k in range(a.shape[1]):
        factors = [a[:, k : k + 1], b[k : k + 1], total]
        if element.is_float:
            total = compute("fma", factors, element)
        else:
            total = compute("add", [total, compute("mul", factors[:2], element)], element)
    frame.values[result] = total[None]


def fold(values: Array, combine: str, dtype: DataType) -> Array:
    """Elements along the last axis combined, in the order that language.md gives."""

    def both(a: Array, b: Array) -> Array:
        return compute(combine, [a, b], dtype)

    padded = _in_whole_blocks(values, combine, dtype)
    total = padded[..., :FOLDED]
    for start in range(FOLDED, padded.shape[-1], FOLDED):
        total = both(total, padded[..., start : start + FOLDED])
    for _ in range(2):
        total = both(total[..., ::2], total[..., 1::2])
    while (half := total.shape[-1] // 2) > 0:
        total = both(total[..., :half], total[..., half:])
    return total[..., 0]


def _in_whole_blocks(values: Array, combine: str, dtype: DataType) -> Array:
    """Values with the neutral element after the last of the last axis, up to whole blocks of FOLDED, one at least."""
    length = values.shape[-1]
    padded = np.full(
        (*values.shape[:-1], max(1, -(-length // FOLDED)) * FOLDED), _neutral(combine, dtype), values.dtype
    )
    padded[..., :length] = values
    return padded


def _neutral(combine: str, dtype: DataType) -> np.generic:
    neutral: np.generic = constant_register(arith.neutral(combine, dtype.element), dtype.element)[0]
    return neutral
