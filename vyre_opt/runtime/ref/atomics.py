"""Atomics: as if the lanes came one after the other, in the order of their invocations.

Lanes that meet at one element are grouped, in lane order.  For an associative op on
integers the value that a lane finds is the element's, combined with a running total
over the lanes before it.  Compare-exchange and float addition are not associative, so
their lanes take turns: first all that are first at their element, then the second, ...
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.program import Op
from ...ir.types import DataType
from .elementwise import compute
from .frame import Frame
from .machine import Machine
from .memory_ops import check_written, locate
from .registers import from_storage, to_storage

Array = np.ndarray


def atomic(machine: Machine, frame: Frame, op: Op) -> None:
    """Any of the atomic ops; gives the old value."""
    dtype, index = op.operands[1].type, frame.get(op.operands[0])
    storage, at = locate(machine, frame, op, index, dtype)
    check_written(machine, frame, op, storage, at, index)
    at = frame.spread(at)
    if storage.shadow is not None:
        found = storage.shadow.atomic(frame, at, machine.number(op))
        if found is not None:
            raise machine.race(storage, frame, op, found)
    operands = [frame.spread(frame.get(value)) for value in op.operands[1:]]
    name = op.name.removeprefix("atomic_")
    order = np.argsort(at, kind="stable")
    places = at[order]
    sorted_operands = [operand[order] for operand in operands]
    rank = _rank(places)
    if name == "compare_exchange" or (dtype.is_float and name == "add"):
        old = _in_turns(name, storage.data, places, rank, sorted_operands, dtype)
    else:
        old = _combined(name, storage.data, places, rank, sorted_operands[0], dtype)
    result = np.empty_like(old)
    result[order] = old
    frame.values[op.results[0]] = result


def _rank(places: Array) -> Array:
    """How many lanes come before each one at its element; `places` is sorted."""
    number = np.arange(len(places))
    starts = np.concatenate(([True], places[1:] != places[:-1]))
    return number - np.maximum.accumulate(np.where(starts, number, 0))


def _combined(name: str, data: Array, places: Array, rank: Array, operand: Array, dtype: DataType) -> Array:
    """An associative op, by a running total over the lanes of each element."""
    step: Callable[[Array, Array], Array]
    if name == "exchange":
        step = lambda earlier, later: later  # noqa: E731
    else:
        step = lambda earlier, later: compute(name, [earlier, later], dtype)  # noqa: E731
    total, distance, most = operand.copy(), 1, int(rank.max())
    while distance <= most:
        far = np.flatnonzero(rank >= distance)
        total[far] = step(total[far - distance], total[far])
        distance *= 2
    before = from_storage(data[places], dtype)
    after = step(before, total)
    old = before.copy()
    later = np.flatnonzero(rank > 0)
    old[later] = after[later - 1]
    last = np.concatenate((places[1:] != places[:-1], [True]))
    data[places[last]] = to_storage(after[last], dtype)
    return old


def _in_turns(
    name: str, data: Array, places: Array, rank: Array, operands: list[Array], dtype: DataType
) -> Array:
    old = np.empty_like(operands[0])
    by_rank = np.argsort(rank, kind="stable")
    ends = np.cumsum(np.bincount(rank))
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        turn = by_rank[start:end]
        here = places[turn]
        found = from_storage(data[here], dtype)
        old[turn] = found
        if name == "compare_exchange":
            expected, new = (operand[turn] for operand in operands)
            new = np.where(found == expected, new, found)
        else:
            new = compute(name, [found, operands[0][turn]], dtype)
        data[here] = to_storage(new, dtype)
    return old
