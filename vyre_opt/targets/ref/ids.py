"""Constants, and the ids and sizes of the dispatch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...execution.params import value_of_word
from ...ir.ops import AXES, SUBGROUP_SIZE
from ...ir.program import Dim3, Op
from .frame import Frame, WorkgroupBatch
from .machine import Machine
from .registers import constant_register

Array = np.ndarray


def const(machine: Machine, frame: Frame, op: Op) -> None:
    result = op.results[0]
    frame.values[result] = constant_register(op.attrs["value"], result.type)


def spec(machine: Machine, frame: Frame, op: Op) -> None:
    result = op.results[0]
    frame.values[result] = constant_register(machine.call.specs[op.attrs["spec"]], result.type)


def param(machine: Machine, frame: Frame, op: Op) -> None:
    name, result = op.attrs["param"], op.results[0]
    value = value_of_word(machine.call.params[name], machine.program.params[name])
    frame.values[result] = constant_register(value, result.type)


def _along(linear: Array, extents: Dim3, axis: int) -> Array:
    """One coordinate of a linear id; x is the fastest."""
    below = int(np.prod(extents[:axis], dtype=np.int64))
    return (linear // below) % extents[axis]


def _local(batch: WorkgroupBatch, axis: int) -> Array:
    return _along(batch.local_of_lane, batch.workgroup, axis)


def _workgroup(batch: WorkgroupBatch, axis: int) -> Array:
    """Uniform if the batch is a single workgroup."""
    if batch.rows == 1:
        return _along(np.array([batch.first], np.int64), batch.grid, axis)
    return _along(batch.row_of_lane + batch.first, batch.grid, axis)


def _global(batch: WorkgroupBatch, axis: int) -> Array:
    ids: Array = _workgroup(batch, axis) * batch.workgroup[axis] + _local(batch, axis)
    return ids


_IDS: dict[str, Callable[[WorkgroupBatch, int], Array]] = {
    "global_id": _global,
    "local_id": _local,
    "workgroup_id": _workgroup,
    "num_workgroups": lambda batch, axis: np.array([batch.grid[axis]]),
    "workgroup_size": lambda batch, axis: np.array([batch.workgroup[axis]]),
    "global_size": lambda batch, axis: np.array([batch.grid[axis] * batch.workgroup[axis]]),
    "lane_id": lambda batch, axis: batch.local_of_lane % SUBGROUP_SIZE,
    "subgroup_id": lambda batch, axis: batch.local_of_lane // SUBGROUP_SIZE,
    "subgroup_size": lambda batch, axis: np.array([SUBGROUP_SIZE]),
    "num_subgroups": lambda batch, axis: np.array([batch.subgroups_per_row]),
}


def id_or_size(machine: Machine, frame: Frame, op: Op) -> None:
    """Any of the ops in _IDS, as u32."""
    batch, axis = frame.batch, AXES.index(op.attrs.get("axis", "x"))
    ids = batch.per_lane(f"{op.name} {axis}", lambda: _IDS[op.name](batch, axis).astype(np.uint32))
    frame.values[op.results[0]] = ids if len(ids) == 1 else frame.of_lanes(ids)
