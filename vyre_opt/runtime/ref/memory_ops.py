"""load, store and len."""

from __future__ import annotations

import numpy as np

from ...ir.program import Op
from ...ir.types import DataType
from .frame import Frame
from .machine import Machine
from .memory import Storage, scalar_offsets, uninitialised_lane
from .registers import from_storage, register_type, to_storage

Array = np.ndarray


def locate(machine: Machine, frame: Frame, op: Op, index: Array, dtype: DataType) -> tuple[Storage, Array]:
    """The buffer that an op names, and the offsets of the scalars that it accesses.  Raises ProgramError."""
    storage = machine.storages[op.attrs["buffer"]]
    offsets, outside = scalar_offsets(storage, frame, op, index, dtype)
    if outside is not None:
        raise machine.out_of_bounds(storage, frame, op, dtype, outside)
    return storage, offsets


def check_written(
    machine: Machine, frame: Frame, op: Op, storage: Storage, offsets: Array, index: Array
) -> None:
    """Raises ProgramError for a read of an uninitialised scalar."""
    lane = uninitialised_lane(storage, offsets)
    if lane is not None:
        raise machine.uninitialised(storage, frame, op, int(index[lane % len(index)]), lane)


def load(machine: Machine, frame: Frame, op: Op) -> None:
    dtype, index = op.results[0].type, frame.get(op.operands[0])
    storage, offsets = locate(machine, frame, op, index, dtype)
    check_written(machine, frame, op, storage, offsets, index)
    if storage.shadow is not None:
        collision = storage.shadow.read(frame, frame.spread(offsets), machine.number(op))
        if collision is not None:
            raise machine.race(storage, frame, op, collision)
    frame.values[op.results[0]] = from_storage(storage.data[offsets], dtype)


def store(machine: Machine, frame: Frame, op: Op) -> None:
    value, index = op.operands
    dtype = value.type
    storage, offsets = locate(machine, frame, op, frame.get(index), dtype)
    offsets = frame.spread(offsets)
    if storage.shadow is not None:
        collision = storage.shadow.write(frame, offsets, machine.number(op))
        if collision is not None:
            raise machine.race(storage, frame, op, collision)
    storage.data[offsets] = to_storage(frame.get(value), dtype)
    if storage.written is not None:
        storage.written[offsets] = True


def length(machine: Machine, frame: Frame, op: Op) -> None:
    result = op.results[0]
    count = machine.storages[op.attrs["buffer"]].count
    frame.values[result] = np.array([count]).astype(register_type(result.type))  # wraps
