"""The op that makes a NaN of operands without one: where the first NaN of a program comes from.

A NaN that a caller passes, that is written as a constant, or that is moved is none: only ops that compute make one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir.ops import OPS
from ...ir.program import Op
from .frame import Frame
from .machine import Handler, Machine

__all__ = ["watched"]

_ELEMENTWISE = ("unary", "binary", "ternary", "convert")
_COLLECTIVE = (
    "subgroup_reduce", "subgroup_scan", "workgroup_reduce", "workgroup_scan",
    "slice_reduce", "slice_scan", "slice_dot", "matrix_mul_add",
)  # fmt: skip
"""Ops that combine elements of several lanes, so that a NaN of any lane may be the cause."""

_CAUSES = {
    "div": "0 / 0 and inf / inf are NaN: guard the division",
    "rem": "a remainder by 0, and one of inf, is NaN: guard it",
    "add": "inf and -inf add to NaN: find what overflows before it",
    "sub": "inf - inf is NaN: find what overflows before it",
    "mul": "0 * inf is NaN: find what overflows before it",
    "fma": "0 * inf, and inf beside -inf, are NaN: find what overflows before it",
    "sqrt": "a number below 0 has no root: take max(x, 0) before it",
    "rsqrt": "a number below 0 has no root: take max(x, 0) before it",
    "log": "a number below 0 has no logarithm: take max(x, 0) before it",
    "log2": "a number below 0 has no logarithm: take max(x, 0) before it",
    "log1p": "a number below -1 has no log1p",
    "pow": "a number below 0 has powers with whole exponents alone",
    "asin": "only numbers from -1 to 1 have one: clamp them before it",
    "acos": "only numbers from -1 to 1 have one: clamp them before it",
    "sin": "inf has none: find what overflows before it",
    "cos": "inf has none: find what overflows before it",
    "tan": "inf has none: find what overflows before it",
}


def watched(table: Mapping[str, Handler]) -> dict[str, Handler]:
    """A table of handlers whose ops are at fault (`nan`) where they make a NaN of none."""
    return {name: _watched(name, handler) for name, handler in table.items()}


def _watched(name: str, handler: Handler) -> Handler:
    row = OPS.get(name)
    if row is None or (row.format not in _ELEMENTWISE and name not in _COLLECTIVE) or name == "bitcast":
        return handler

    def run(machine: Machine, frame: Frame, op: Op) -> None:
        handler(machine, frame, op)
        if op.results[0].type.element.is_float:
            _check(machine, frame, op)

    return run


def _check(machine: Machine, frame: Frame, op: Op) -> None:
    made = np.isnan(frame.values[op.results[0]])
    if not made.any():
        return
    operands = [frame.get(value) for value in op.operands if value.type.element.is_float]
    if op.definition.format not in _ELEMENTWISE:
        if any(np.isnan(each).any() for each in operands):
            return
        first = np.argwhere(made)[0]
        message = f"{op.name} of values of which none is NaN is NaN"
    else:
        for each in operands:
            made = made & ~np.isnan(each)
        if not made.any():
            return
        first = np.argwhere(made)[0]
        values = [np.broadcast_to(each, made.shape)[tuple(first)] for each in operands]
        message = f"{op.name} of {' and '.join(str(float(value)) for value in values)} is NaN"
    place = f", element {', '.join(map(str, first[1:]))}" if len(first) > 1 else ""
    invocation = machine.invocation_at(frame, int(first[0]))
    help = _CAUSES.get(op.name)
    raise machine.fault("nan", op, f"{message}{place}, by {invocation}", help=help, by=invocation)
