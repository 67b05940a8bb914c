"""load, store, copies and len."""

from __future__ import annotations

import numpy as np

from ...execution.faults import out_of_bounds
from ...ir.program import Op
from ...ir.types import DataType
from .frame import Frame
from .machine import Machine
from .memory import Storage, scalar_offsets, uninitialised_lane
from .registers import from_storage, register_type, to_storage

Array = np.ndarray


def locate(machine: Machine, frame: Frame, op: Op, dtype: DataType) -> tuple[Storage, Array]:
    """The buffer that an op names, and the offsets of the scalars that it accesses.  Raises ProgramError."""
    storage = machine.storages[op.attrs["buffer"]]
    offsets, lane = scalar_offsets(storage, frame, op, [frame.get(index) for index in op.indices], dtype)
    if lane is not None:
        covered, invocation = dtype.lanes // storage.buffer.dtype.lanes, machine.invocation_at(frame, lane)
        indices = indices_at(frame, op, lane)
        raise out_of_bounds(machine.program, op, indices, covered, storage.shape, invocation)
    return storage, offsets


def indices_at(frame: Frame, op: Op, lane: int) -> tuple[int, ...]:
    """The indices of an access in one lane."""
    return tuple(int(values[lane % len(values)]) for values in map(frame.get, op.indices))


def check_written(machine: Machine, frame: Frame, op: Op, storage: Storage, offsets: Array) -> None:
    """Raises ProgramError for a read of an uninitialised scalar."""
    lane = uninitialised_lane(storage, offsets)
    if lane is not None:
        raise machine.uninitialised(storage, frame, op, indices_at(frame, op, lane), lane)


def check_race(
    machine: Machine,
    frame: Frame,
    op: Op,
    storage: Storage,
    offsets: Array,
    kind: str,
    is_collective: bool = False,
) -> None:
    """Record an access (see `Shadow.access`).  Raises ProgramError if it races with another, or with a copy."""
    if storage.in_flight is not None and (copying := storage.in_flight[offsets]).any():
        raise machine.unfinished(storage, frame, op, np.atleast_1d(copying), offsets)
    if storage.shadow is not None:
        spread = frame.spread(offsets)
        collision = storage.shadow.access(frame, spread, machine.number(op), kind, is_collective)
        if collision is not None:
            raise machine.race(storage, frame, op, collision)
    if machine.observer is not None:
        machine.observer.access(machine, frame, op, storage, frame.spread(offsets), kind)


def load(machine: Machine, frame: Frame, op: Op) -> None:
    dtype = op.results[0].type
    storage, offsets = locate(machine, frame, op, dtype)
    check_written(machine, frame, op, storage, offsets)
    check_race(machine, frame, op, storage, offsets, "read")
    frame.values[op.results[0]] = from_storage(storage.data[offsets], dtype)


def store(machine: Machine, frame: Frame, op: Op) -> None:
    _write(machine, frame, op)


def copy_async(machine: Machine, frame: Frame, op: Op) -> None:
    storage, offsets = _write(machine, frame, op)
    if machine.checks:
        machine.copies.begin(storage, frame, offsets, machine.number(op))


def copy_wait(machine: Machine, frame: Frame, op: Op) -> None:
    machine.copies.wait(frame, op.attrs["pending"])


def _write(machine: Machine, frame: Frame, op: Op) -> tuple[Storage, Array]:
    value = op.operands[0]
    dtype = value.type
    storage, offsets = locate(machine, frame, op, dtype)
    offsets = frame.spread(offsets)
    check_race(machine, frame, op, storage, offsets, "write")
    storage.data[offsets] = to_storage(frame.get(value), dtype)
    if storage.written is not None:
        storage.written[offsets] = True
    return storage, offsets


def length(machine: Machine, frame: Frame, op: Op) -> None:
    result = op.results[0]
    count = machine.storages[op.attrs["buffer"]].shape[op.attrs.get("dimension", 0)]
    frame.values[result] = np.array([count]).astype(register_type(result.type))  # wraps
