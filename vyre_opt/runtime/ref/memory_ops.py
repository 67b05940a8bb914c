"""load, store and len."""

from __future__ import annotations

import numpy as np

from ...ir.program import Op
from ...ir.types import DataType
from .frame import Frame
from .machine import Machine
from .memory import Storage, places, unwritten
from .registers import from_storage, register_type, to_storage

Array = np.ndarray


def locate(machine: Machine, frame: Frame, op: Op, index: Array, dtype: DataType) -> tuple[Storage, Array]:
    """The buffer an op names and the scalars it touches.  Raises ProgramError out of bounds."""
    storage = machine.storages[op.attrs["buffer"]]
    at, outside = places(storage, frame, op, index, dtype)
    if outside is not None:
        raise machine.out_of_bounds(storage, frame, op, dtype, outside)
    return storage, at


def check_written(machine: Machine, frame: Frame, op: Op, storage: Storage, at: Array, index: Array) -> None:
    lane = unwritten(storage, at)
    if lane is not None:
        raise machine.uninitialised(storage, frame, op, int(index[lane % len(index)]), lane)


def load(machine: Machine, frame: Frame, op: Op) -> None:
    dtype, index = op.results[0].type, frame.get(op.operands[0])
    storage, at = locate(machine, frame, op, index, dtype)
    check_written(machine, frame, op, storage, at, index)
    if storage.shadow is not None:
        found = storage.shadow.read(frame, frame.spread(at), machine.number(op))
        if found is not None:
            raise machine.race(storage, frame, op, found)
    frame.values[op.results[0]] = from_storage(storage.data[at], dtype)


def store(machine: Machine, frame: Frame, op: Op) -> None:
    value, index = op.operands
    dtype = value.type
    storage, at = locate(machine, frame, op, frame.get(index), dtype)
    at = frame.spread(at)
    if storage.shadow is not None:
        found = storage.shadow.write(frame, at, machine.number(op))
        if found is not None:
            raise machine.race(storage, frame, op, found)
    storage.data[at] = to_storage(frame.get(value), dtype)
    if storage.written is not None:
        storage.written[at] = True


def length(machine: Machine, frame: Frame, op: Op) -> None:
    result = op.results[0]
    count = machine.storages[op.attrs["buffer"]].count
    frame.values[result] = np.array([count]).astype(register_type(result.type))  # wraps
