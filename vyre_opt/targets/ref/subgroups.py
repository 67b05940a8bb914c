"""Barriers, and ops across the 32 lanes of a subgroup and the subgroups of a workgroup.

The lanes of a frame are arranged in a table with a row for each subgroup of the batch and 32 columns;
`present` says which cells have a lane.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
    inside, outside = map(machine.invocation, _split_pair(machine, frame, scope))
    return machine.fault(
        "divergence",
        op,
        f"{what} is reached by only part of a {scope}: by {inside}, not by {outside}",
        by=inside,
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
        scope = "workgroup" if "workgroup" in op.definition.effects else "subgroup"
        if machine.checks and not (frame.whole_rows if scope == "workgroup" else frame.whole_subgroups):
            raise _divergence(machine, frame, op, op.name, scope)
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
    table = SubgroupTable(machine, frame, op)
    total = _folded(_arranged(table, frame, op), op)
    frame.values[op.results[0]] = table.take(np.repeat(total.values, SUBGROUP_SIZE, axis=1))


def scan(machine: Machine, frame: Frame, op: Op) -> None:
    table = SubgroupTable(machine, frame, op)
    running = _running(_arranged(table, frame, op), op)
    if op.attrs["mode"] == "exclusive":
        running = _one_later(running)
    frame.values[op.results[0]] = table.take(_or_identity(running, op))


def workgroup_reduce(machine: Machine, frame: Frame, op: Op) -> None:
    """Reduce each subgroup, then their totals."""
    table = SubgroupTable(machine, frame, op)
    of_subgroups = _folded(_arranged(table, frame, op), op)
    total = _folded(_by_workgroup(of_subgroups, frame), op)
    frame.values[op.results[0]] = total.values[frame.rows, 0]


def workgroup_scan(machine: Machine, frame: Frame, op: Op) -> None:
    """The scan of the totals of the subgroups before, then that of the lane's own subgroup."""
    table = SubgroupTable(machine, frame, op)
    running = _running(_arranged(table, frame, op), op)
    totals = _by_workgroup(running.part(slice(-1, None)), frame)
    before = _one_later(_running(totals, op))
    subgroups = frame.batch.subgroups_per_row
    of_subgroup = _Lanes(*(part[:, :subgroups].reshape(table.rows, 1) for part in before))
    own = _one_later(running) if op.attrs["mode"] == "exclusive" else running
    frame.values[op.results[0]] = table.take(_or_identity(_combined(of_subgroup, own, op), op))


def _by_workgroup(totals: _Lanes, frame: Frame) -> _Lanes:
    """One value for each subgroup, (subgroups, 1), as lanes of workgroups, (workgroups, 32)."""
    batch = frame.batch
    absent = ((0, 0), (0, SUBGROUP_SIZE - batch.subgroups_per_row))
    return _Lanes(*(np.pad(part.reshape(batch.rows, -1), absent) for part in totals))


class _Lanes(NamedTuple):
    """Values of the lanes of subgroups, (subgroups, lanes), and which lanes have one."""

    values: Array
    present: Array

    def part(self, lanes: slice) -> _Lanes:
        return _Lanes(self.values[:, lanes], self.present[:, lanes])


def _arranged(table: SubgroupTable, frame: Frame, op: Op) -> _Lanes:
    return _Lanes(table.arrange(frame.spread(frame.get(op.operands[0]))), table.present)


def _combined(left: _Lanes, right: _Lanes, op: Op) -> _Lanes:
    """Lane by lane `left` op `right`; the other one alone where one has no value."""
    both = compute(op.attrs["combine"], [left.values, right.values], op.operands[0].type)
    one = np.where(left.present, left.values, right.values)
    return _Lanes(np.where(left.present & right.present, both, one), left.present | right.present)


def _folded(lanes: _Lanes, op: Op) -> _Lanes:
    """The second half onto the first, until one lane is left: 16 and more onto 0 to 15, and so on."""
    half = SUBGROUP_SIZE // 2
    while half:
        lanes = _combined(lanes.part(slice(half)), lanes.part(slice(half, 2 * half)), op)
        half //= 2
    return lanes


def _running(lanes: _Lanes, op: Op) -> _Lanes:
    """Combine each lane with the lane 1 below it, then 2, 4, 8 and 16 below."""
    distance = 1
    while distance < SUBGROUP_SIZE:
        later = _combined(lanes.part(slice(-distance)), lanes.part(slice(distance, None)), op)
        lanes = _Lanes(
            *(np.concatenate((own[:, :distance], new), axis=1) for own, new in zip(lanes, later, strict=True))
        )
        distance *= 2
    return lanes


def _one_later(lanes: _Lanes) -> _Lanes:
    """Move each lane's value to the next lane; the first one gets nothing."""
    return _Lanes(*(np.concatenate((np.zeros_like(x[:, :1]), x[:, :-1]), axis=1) for x in lanes))


def _or_identity(lanes: _Lanes, op: Op) -> Array:
    first = identity(op.attrs["combine"], op.operands[0].type)
    return np.where(lanes.present, lanes.values, np.asarray(first, lanes.values.dtype))


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
