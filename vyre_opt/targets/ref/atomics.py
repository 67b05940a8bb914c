"""Atomics: as if the lanes came one after the other, in the order of their invocations.

Lanes are grouped by the element that they access, in lane order.  For an associative op on integers
the old value of a lane is the element's value combined with a running total over the lanes before it.
Compare-exchange and float addition are not associative, so their lanes go in rounds: in round k
the lane number k of each element.
"""

from __future__ import annotations

import numpy as np

from ...ir.program import Op
from ...ir.types import DataType
from .elementwise import compute
from .frame import Frame
from .machine import Machine
from .memory_ops import check_race, check_written, locate
from .registers import from_storage, to_storage

Array = np.ndarray


def atomic(machine: Machine, frame: Frame, op: Op) -> None:
    """Any of the atomic ops; its result is the old value."""
    dtype = op.result.type
    storage, offsets = locate(machine, frame, op, dtype)
    check_written(machine, frame, op, storage, offsets)
    offsets = frame.spread(offsets)
    check_race(machine, frame, op, storage, offsets, "atomic")
    operands = [frame.spread(frame.get(value)) for value in op.operands[len(op.indices) :]]
    name = op.name.removeprefix("atomic_")
    # stable, so that the lanes of an element stay in the order of their invocations
    order = np.argsort(offsets, kind="stable")
    sorted_offsets = offsets[order]
    sorted_operands = [operand[order] for operand in operands]
    rank = _rank(sorted_offsets)
    if name == "compare_exchange" or (dtype.is_float and name == "add"):
        old = _in_rounds(name, storage.data, sorted_offsets, rank, sorted_operands, dtype)
    else:
        old = _combined(name, storage.data, sorted_offsets, rank, sorted_operands[0], dtype)
    result = np.empty_like(old)
    result[order] = old
    frame.values[op.results[0]] = result


def _rank(offsets: Array) -> Array:
    """Number of lanes before each one at its element; `offsets` is sorted."""
    number = np.arange(len(offsets))
    starts = np.concatenate(([True], offsets[1:] != offsets[:-1]))
    return number - np.maximum.accumulate(np.where(starts, number, 0))


def _combined(name: str, data: Array, offsets: Array, rank: Array, operand: Array, dtype: DataType) -> Array:
    """The old values of an associative op, by a running total over the lanes of each element.

    The total doubles its distance in each step (Hillis and Steele).
    """

    def step(earlier: Array, later: Array) -> Array:
        return later if name == "exchange" else compute(name, [earlier, later], dtype)

    total, distance, max_rank = operand.copy(), 1, int(rank.max())
    while distance <= max_rank:
        far = np.flatnonzero(rank >= distance)
        # lane `far - distance` is at the same element; the operands are copies, so no total is used twice
        total[far] = step(total[far - distance], total[far])
        distance *= 2
    before = from_storage(data[offsets], dtype)
    after = step(before, total)
    old = before.copy()
    later = np.flatnonzero(rank > 0)
    old[later] = after[later - 1]
    last = np.concatenate((offsets[1:] != offsets[:-1], [True]))
    # only the last lane of an element has combined all of them
    data[offsets[last]] = to_storage(after[last], dtype)
    return old


def _in_rounds(
    name: str, data: Array, offsets: Array, rank: Array, operands: list[Array], dtype: DataType
) -> Array:
    old = np.empty_like(operands[0])
    by_rank = np.argsort(rank, kind="stable")
    ends = np.cumsum(np.bincount(rank))
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        lanes = by_rank[start:end]
        round_offsets = offsets[lanes]
        current = from_storage(data[round_offsets], dtype)
        old[lanes] = current
        if name == "compare_exchange":
            expected, new = (operand[lanes] for operand in operands)
            new = np.where(current == expected, new, current)
        else:
            new = compute(name, [current, operands[0][lanes]], dtype)
        # no element comes twice in a round, so this loses no update
        data[round_offsets] = to_storage(new, dtype)
    return old
