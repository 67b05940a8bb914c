"""Matrices of a subgroup.

    lane          0                 1      ...        31
    slot 0   element 0         element 1          element 31       elements are numbered row by row
    slot 1   element 32        element 33         element 63

A register has the slots of a lane, as it has the elements of a vector.
"""

from __future__ import annotations

import numpy as np

from ...execution.faults import outside_of_matrix
from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op
from ...ir.types import DataType
from .frame import Frame
from .machine import Machine
from .memory import Storage
from .memory_ops import check_race, check_written, indices_at
from .registers import from_storage, to_storage
from .subgroups import SubgroupTable

Array = np.ndarray


def load(machine: Machine, frame: Frame, op: Op) -> None:
    dtype = op.results[0].type
    SubgroupTable(machine, frame, op)
    storage, offsets = _locate(machine, frame, op, dtype)
    check_written(machine, frame, op, storage, offsets)
    check_race(machine, frame, op, storage, offsets, "read", is_collective=True)
    values = from_storage(storage.data[offsets], dtype)
    frame.values[op.results[0]] = round_tf32(values) if dtype.element is DataType.TF32 else values


def store(machine: Machine, frame: Frame, op: Op) -> None:
    value = op.operands[0]
    SubgroupTable(machine, frame, op)
    storage, offsets = _locate(machine, frame, op, value.type)
    check_race(machine, frame, op, storage, offsets, "write", is_collective=True)
    storage.data[offsets] = to_storage(frame.spread(frame.get(value)), value.type)
    if storage.written is not None:
        storage.written[offsets] = True


def mul_add(machine: Machine, frame: Frame, op: Op) -> None:
    """Integers modulo 2^32; floats as if summed exactly, and rounded twice: to f64, and to f32."""
    table = SubgroupTable(machine, frame, op)
    is_float = op.results[0].type.element.is_float
    a, b, c = (
        _whole(table, frame.spread(frame.get(value)), value.type).astype(np.float64 if is_float else np.int64)
        for value in op.operands
    )
    total = a @ b + c
    kind = np.float32 if is_float else np.int32
    slots = total.astype(kind).reshape(len(total), -1, SUBGROUP_SIZE).transpose(0, 2, 1)
    frame.values[op.results[0]] = table.take(slots)


def unpack(machine: Machine, frame: Frame, op: Op) -> None:
    table, dtype = SubgroupTable(machine, frame, op), op.operands[0].type
    matrices = _whole(table, frame.spread(frame.get(op.operands[0])), dtype)
    rows, columns = _places(dtype.shape)
    frame.values[op.results[0]] = table.take(matrices[:, rows, columns])


def pack(machine: Machine, frame: Frame, op: Op) -> None:
    table, dtype = SubgroupTable(machine, frame, op), op.results[0].type
    given = table.arrange(frame.spread(frame.get(op.operands[0])))
    matrices = np.zeros((len(given), *dtype.shape), given.dtype)
    rows, columns = _places(dtype.shape)
    matrices[:, rows, columns] = given
    frame.values[op.results[0]] = table.take(
        matrices.reshape(len(given), -1, SUBGROUP_SIZE).transpose(0, 2, 1)
    )


def _places(shape: tuple[int, int]) -> tuple[Array, Array]:
    """The row and the column of each element that a lane gets, (lanes, elements): of blocks of 16 rows, in these of blocks of 8 columns,
    2 neighbours of the upper 8 rows and 2 of the lower ones; a row of 8 belongs to 4 lanes."""
    rows, columns = shape
    strip, part, half, neighbour = (
        axis.ravel() for axis in np.mgrid[0 : rows // 16, 0 : columns // 8, 0:2, 0:2]
    )
    lane = np.arange(SUBGROUP_SIZE)[:, None]
    return 16 * strip + 8 * half + lane // 4, 8 * part + neighbour + lane % 4 * 2


def round_tf32(values: Array) -> Array:
    """f32 to the nearest number with 10 bits of fraction; of two, the one away from 0."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isnan(values), values, rounded)


def _whole(table: SubgroupTable, values: Array, dtype: DataType) -> Array:
    """(lanes, slots) -> (subgroups, rows, columns)."""
    return table.arrange(values).transpose(0, 2, 1).reshape(-1, *dtype.shape)


def _locate(machine: Machine, frame: Frame, op: Op, dtype: DataType) -> tuple[Storage, Array]:
    """The buffer that an op names, and the offset of each slot of each lane.  Raises ProgramError."""
    storage = machine.storages[op.attrs["buffer"]]
    columns = dtype.shape[1]
    elements = (frame.locals % SUBGROUP_SIZE)[:, None] + SUBGROUP_SIZE * np.arange(dtype.lanes)
    steps = np.divmod(elements, columns)
    if op.attrs["layout"] == "column_major":
        steps = steps[::-1]
    starts = [frame.spread(frame.get(index)).astype(np.int64)[:, None] for index in op.indices]
    moves = [0] * (len(starts) - 2) + list(steps[-len(starts) :])
    offsets = np.zeros(elements.shape, np.int64)
    for start, move, extent in zip(starts, moves, storage.shape, strict=True):
        at = start + move
        outside = (at < 0) | (at >= extent)
        if outside.any():
            lane = int(np.argmax(outside.any(axis=1)))
            indices = list(indices_at(frame, op, lane))
            invocation = machine.invocation_at(frame, lane)
            raise outside_of_matrix(machine.program, op, dtype, indices, storage.shape, invocation)
        offsets = offsets * extent + at
    if storage.rows is not None and frame.batch.rows > 1:
        offsets = offsets + (frame.rows * storage.scalars)[:, None]
    return storage, offsets
