"""load, store and len."""

from __future__ import annotations

import numpy as np

from ...ir.program import Op
from ...ir.types import DataType
from ..faults import out_of_bounds
from .frame import Frame
from .machine import Machine
from .memory import Storage, scalar_offsets, uninitialised_lane
from .registers import from_storage, register_type, to_storage

Array = np.ndarray


def locate(machine: Machine, frame: Frame, op: Op, index: Array, dtype: DataType) -> tuple[Storage, Array]:
    """The buffer that an op names, and the offsets of the scalars that it accesses.  Raises ProgramError."""
    storage = machine.storages[op.attrs["buffer"]]
    offsets, lane = scalar_offsets(storage, frame, op, index, dtype)
    if lane is not None:
        covered, invocation = dtype.lanes // storage.buffer.dtype.lanes, machine.invocation_at(frame, lane)
        raise out_of_bounds(machine.program, op, int(index[lane]), covered, storage.count, invocation)
    return storage, offsets


def check_written(
    machine: Machine, frame: Frame, op: Op, storage: Storage, offsets: Array, index: Array
) -> None:
    """Raises ProgramError for a read of an uninitialised scalar."""
    lane = uninitialised_lane(storage, offsets)
    if lane is not None:
        raise machine.uninitialised(storage, frame, op, int(index[lane % len(index)]), lane)


def check_race(machine: Machine, frame: Frame, op: Op, storage: Storage, offsets: Array, kind: str) -> None:
    """Record an access (see `Shadow.access`).  Raises ProgramError if it races with another."""
    if storage.shadow is not None:
        collision = storage.shadow.access(frame, frame.spread(offsets), machine.number(op), kind)
        if collision is not None:
            raise machine.race(storage, frame, op, collision)


def load(machine: Machine, frame: Frame, op: Op) -> None:
    dtype, index = op.results[0].type, frame.get(op.operands[0])
    storage, offsets = locate(machine, frame, op, index, dtype)
    check_written(machine, frame, op, storage, offsets, index)
    check_race(machine, frame, op, storage, offsets, "read")
    frame.values[op.results[0]] = from_storage(storage.data[offsets], dtype)


def store(machine: Machine, frame: Frame, op: Op) -> None:
    value, index = op.operands
    dtype = value.type
    storage, offsets = locate(machine, frame, op, frame.get(index), dtype)
    offsets = frame.spread(offsets)
    check_race(machine, frame, op, storage, offsets, "write")
    storage.data[offsets] = to_storage(frame.get(value), dtype)
    if storage.written is not None:
        storage.written[offsets] = True


def length(machine: Machine, frame: Frame, op: Op) -> None:
    result = op.results[0]
    count = machine.storages[op.attrs["buffer"]].count
    frame.values[result] = np.array([count]).astype(register_type(result.type))  # wraps
