"""Ops on values alone: arithmetic, compare, select, convert, vectors.

Arithmetic is looked up in two tables, for integers and for floats, of functions
`(operands..., scalar type) -> array`.  They work element by element, so they need not know of
vectors, whose axis comes last.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.program import Op
from ...ir.types import DataType
from . import integers
from .convert import bitcast, cast
from .floats import FLOAT_OPS, exact
from .frame import Frame
from .machine import Machine

Array = np.ndarray


INT_OPS: dict[str, Callable[..., Array]] = {
    "add": exact(np.add),
    "sub": exact(np.subtract),
    "mul": exact(np.multiply),
    "div": integers.div,
    "rem": integers.rem,
    "min": exact(np.minimum),
    "max": exact(np.maximum),
    "abs_diff": integers.abs_diff,
    "neg": exact(np.negative),
    "abs": exact(np.abs),
    "mul_hi": integers.mul_hi,
    "add_sat": integers.add_sat,
    "sub_sat": integers.sub_sat,
    "mul_sat": integers.mul_sat,
    "and": exact(np.bitwise_and),  # also for bools
    "or": exact(np.bitwise_or),
    "xor": exact(np.bitwise_xor),
    "not": exact(np.bitwise_not),
    "shl": integers.shl,
    "shr": integers.shr,
    "rotl": integers.rotl,
    "rotr": integers.rotr,
    "popcount": integers.popcount,
    "clz": integers.clz,
    "ctz": integers.ctz,
    "reverse_bits": integers.reverse_bits,
}

COMPARISONS: dict[str, Callable[..., Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def compute(name: str, operands: list[Array], dtype: DataType) -> Array:
    """An arithmetic op on values of `dtype`."""
    scalar = dtype.element
    table = FLOAT_OPS if scalar.is_float else INT_OPS
    return table[name](*operands, scalar)


def arithmetic(machine: Machine, frame: Frame, op: Op) -> None:
    result = op.results[0]
    frame.values[result] = compute(op.name, [frame.get(v) for v in op.operands], result.type)


def compare(machine: Machine, frame: Frame, op: Op) -> None:
    a, b = op.operands
    frame.values[op.results[0]] = COMPARISONS[op.name](frame.get(a), frame.get(b))


def select(machine: Machine, frame: Frame, op: Op) -> None:
    condition, a, b = (frame.get(value) for value in op.operands)
    if condition.ndim < a.ndim:  # one bool for a whole vector
        condition = condition[:, None]
    frame.values[op.results[0]] = np.where(condition, a, b)


def convert(machine: Machine, frame: Frame, op: Op) -> None:
    source, result = op.operands[0], op.results[0]
    change = cast if op.name == "cast" else bitcast
    frame.values[result] = change(frame.get(source), source.type, result.type)


# --- vectors


def splat(machine: Machine, frame: Frame, op: Op) -> None:
    scalar, result = frame.get(op.operands[0]), op.results[0]
    frame.values[result] = np.repeat(scalar[:, None], result.type.lanes, axis=1)


def vector(machine: Machine, frame: Frame, op: Op) -> None:
    parts = np.broadcast_arrays(*(frame.get(value) for value in op.operands))
    frame.values[op.results[0]] = np.stack(parts, axis=1)


def extract(machine: Machine, frame: Frame, op: Op) -> None:
    frame.values[op.results[0]] = frame.get(op.operands[0])[:, op.attrs["index"]]


def insert(machine: Machine, frame: Frame, op: Op) -> None:
    scalar, old = (frame.get(value) for value in op.operands)
    result = np.array(np.broadcast_to(old, (max(len(scalar), len(old)), old.shape[1])))
    result[:, op.attrs["index"]] = scalar
    frame.values[op.results[0]] = result


def permute(machine: Machine, frame: Frame, op: Op) -> None:
    """Row by row: an invocation has its own table and its own index; one row of either is for all."""
    table, index = (frame.get(value) for value in op.operands)
    entries, rows = table.shape[1], max(len(table), len(index))
    indices = np.broadcast_to(index, (rows, index.shape[1])).astype(np.intp)
    nearest = np.minimum(indices, entries - 1)
    found = np.take_along_axis(np.broadcast_to(table, (rows, entries)), nearest, axis=1)
    frame.values[op.results[0]] = np.where(indices < entries, found, np.uint8(0))


def movemask(machine: Machine, frame: Frame, op: Op) -> None:
    flags, result = frame.get(op.operands[0]), op.results[0]
    octets = np.ascontiguousarray(np.packbits(flags, axis=1, bitorder="little"))
    frame.values[result] = octets.view(f"<u{octets.shape[1]}")[:, 0]
