"""Barriers, and ops across the 32 lanes of a subgroup.

The lanes of a frame are arranged in a table with a row for each subgroup of the batch and 32 columns;
`present` says which cells have a lane.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import arith
from ...ir.diagnostics import spelling_at
from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op
from ...ir.types import DataType
from .elementwise import compute
from .frame import Frame
from .machine import Machine
from .registers import constant_register, register_type

Array = np.ndarray


def barrier(machine: Machine, frame: Frame, op: Op) -> None:
    scope = op.attrs["scope"]
    if machine.checks:
        arrived = {
            "grid": lambda: frame.size == frame.batch.lanes,
            "cluster": lambda: frame.size == frame.batch.lanes,  # those of all clusters meet
            "workgroup": lambda: frame.whole_rows,
            "subgroup": lambda: frame.whole_subgroups,
        }[scope]()
        if not arrived:
            raise _divergence(machine, frame, op, spelling_at(op.loc).barrier(scope), scope)
    machine.clock.barrier(scope, frame)


def _divergence(machine: Machine, frame: Frame, op: Op, what: str, scope: str) -> Exception:
    inside, outside = _split_pair(machine, frame, scope)
    return machine.fault(
        "divergence",
        op,
        f"{what} is reached by only part of a {scope}: by {machine.invocation(inside)}, "
        f"not by {machine.invocation(outside)}",
        help=f"move it to where all invocations of the {scope} come, out of the divergent if or loop",
    )


def _split_pair(machine: Machine, frame: Frame, scope: str) -> tuple[int, int]:
    """An invocation of the frame, and one of its group that is not in the frame."""
    batch = frame.batch
    in_frame = np.zeros(batch.lanes, np.bool_)
    in_frame[slice(None) if frame.ids is None else frame.ids] = True
    groups = {
        "grid": np.zeros(batch.lanes, np.int64),
        "cluster": np.zeros(batch.lanes, np.int64),
        "workgroup": batch.row_of_lane,
        "subgroup": batch.subgroup_of_lane,
    }[scope]
    missing = ~in_frame & np.isin(groups, groups[in_frame])
    lane = int(np.argmax(missing))
    mate = int(np.argmax(in_frame & (groups == groups[lane])))
    return int(batch.invocation_of_lane[mate]), int(batch.invocation_of_lane[lane])


class SubgroupTable:
    """The lanes of a frame by subgroup and lane of the subgroup.  `slots`: the cell of each lane."""

    def __init__(self, machine: Machine, frame: Frame, op: Op) -> None:
        if machine.checks and not frame.whole_subgroups:
            raise _divergence(machine, frame, op, op.name, "subgroup")
        self.rows = frame.batch.rows * frame.batch.subgroups_per_row
        self.lane = frame.locals % SUBGROUP_SIZE
        self.slots = frame.subgroups * SUBGROUP_SIZE + self.lane
        self.present = self.arrange(np.ones(frame.size, np.bool_))

    def arrange(self, values: Array) -> Array:
        """(lanes, ...) -> (subgroups, 32, ...), with zeros for absent lanes."""
        table = np.zeros((self.rows * SUBGROUP_SIZE, *values.shape[1:]), values.dtype)
        table[self.slots] = values
        return table.reshape(self.rows, SUBGROUP_SIZE, *values.shape[1:])

    def take(self, table: Array) -> Array:
        """(subgroups, 32, ...) -> (lanes, ...)."""
        lanes: Array = table.reshape(self.rows * SUBGROUP_SIZE, *table.shape[2:])[self.slots]
        return lanes


def shuffle(machine: Machine, frame: Frame, op: Op) -> None:
    table = SubgroupTable(machine, frame, op)
    values, operand = (frame.spread(frame.get(value)) for value in op.operands)
    amount = operand.astype(np.int64)
    mode = op.attrs["mode"]
    lane = table.lane
    source = {"idx": amount, "up": lane - amount, "down": lane + amount, "xor": lane ^ amount}[mode]
    inside = (source >= 0) & (source < SUBGROUP_SIZE)
    source = np.where(inside, source, lane)
    from_slot = table.slots - lane + source
    # a lane whose source is absent, or out of the subgroup, keeps its own value
    source_present = table.present.reshape(-1)[from_slot]
    flat = table.arrange(values).reshape(-1, *values.shape[1:])
    moved = flat[np.where(source_present, from_slot, table.slots)]
    frame.values[op.results[0]] = moved


def reduce(machine: Machine, frame: Frame, op: Op) -> None:
    table, running = _running(machine, frame, op)
    total = np.repeat(running[:, -1:], SUBGROUP_SIZE, axis=1)
    frame.values[op.results[0]] = table.take(total)


def scan(machine: Machine, frame: Frame, op: Op) -> None:
    """Inclusive, or exclusive: then the first lane gets the combiner's identity."""
    table, running = _running(machine, frame, op)
    if op.attrs["mode"] == "exclusive":
        before = np.empty_like(running)
        before[:, 0] = identity(op.attrs["combine"], op.operands[0].type)
        before[:, 1:] = running[:, :-1]
        # for the first lane that is present, not for lane 0, nothing comes before
        any_before = np.cumsum(table.present, axis=1) - table.present > 0
        shape = (*any_before.shape, *(1,) * (running.ndim - 2))
        running = np.where(any_before.reshape(shape), before, before[:1, :1])
    frame.values[op.results[0]] = table.take(running)


def _running(machine: Machine, frame: Frame, op: Op) -> tuple[SubgroupTable, Array]:
    """The lanes, and for (s, k) the combination of the present lanes 0 to k of subgroup s, from left to right."""
    table, combine, dtype = SubgroupTable(machine, frame, op), op.attrs["combine"], op.operands[0].type
    values = frame.spread(frame.get(op.operands[0]))
    arranged = table.arrange(values)
    running = arranged.copy()
    started = table.present[:, 0].copy()
    for k in range(1, SUBGROUP_SIZE):
        shape = (-1, *(1,) * (values.ndim - 1))
        is_present, before = table.present[:, k].reshape(shape), started.reshape(shape)
        # an absent lane passes on the total of the lanes before it
        both = compute(combine, [running[:, k - 1], arranged[:, k]], dtype)
        running[:, k] = np.where(
            is_present & before, both, np.where(is_present, arranged[:, k], running[:, k - 1])
        )
        started |= table.present[:, k]
    return table, running


def identity(combine: str, dtype: DataType) -> Any:
    """The neutral element of a combiner, as a scalar of the register type."""
    scalar = dtype.element
    kind = register_type(scalar).type
    if scalar.is_float:
        return kind({"add": 0.0, "mul": 1.0, "min": np.inf, "max": -np.inf}[combine])
    low, high = arith.int_range(scalar)
    ones = -1 if scalar.is_signed else high
    value = {"add": 0, "mul": 1, "min": high, "max": low, "and": ones, "or": 0, "xor": 0}[combine]
    return constant_register(value, scalar)[0]


def ballot(machine: Machine, frame: Frame, op: Op) -> None:
    table = SubgroupTable(machine, frame, op)
    votes = table.arrange(frame.spread(frame.get(op.operands[0]))) & table.present
    weights = np.uint64(1) << np.arange(SUBGROUP_SIZE, dtype=np.uint64)
    mask = (votes * weights).sum(axis=1, dtype=np.uint64).astype(np.uint32)
    frame.values[op.results[0]] = table.take(np.repeat(mask[:, None], SUBGROUP_SIZE, axis=1))
