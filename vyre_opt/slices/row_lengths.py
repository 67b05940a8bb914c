"""Bounds of the lengths of open rows, as a program asserts them before all else.

    %n = len @x, 1
    %p = le %n, 64 : u32
    assert %p, "..."            each row of @x has at most 64 elements, and may be in registers

A program asserts what its code relies on, so that it is right for all arrays: a longer row is a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..ir.builder import Builder
from ..ir.program import Op, Program
from ..ir.rewrite import constant_value

__all__ = ["NO_ROWS", "Bounds", "Row", "assert_lengths", "asserted_lengths"]


class Row(NamedTuple):
    """A dimension of a buffer."""

    buffer: str
    dimension: int


class Bounds(NamedTuple):
    """The fewest and the most elements of a row; None: any number."""

    least: int = 0
    most: int | None = None


NO_ROWS: Mapping[Row, Bounds] = {}

_OFFSETS = {"le": 0, "lt": -1}
_SWAPPED = {"ge": "le", "gt": "lt"}


def asserted_lengths(program: Program) -> dict[Row, Bounds]:
    """Bounds of rows by the asserts of a program that every invocation runs."""
    known: dict[Row, Bounds] = {}
    for op in program.body.ops:
        comparison = op.operands[0].owner if op.name == "assert" else None
        if not isinstance(comparison, Op):
            continue
        name, operands = comparison.name, comparison.operands
        if name in _SWAPPED:
            name, operands = _SWAPPED[name], operands[::-1]
        if name not in _OFFSETS:
            continue
        low, high = (constant_value(value) for value in operands)
        length = operands[0].owner if low is None else operands[1].owner
        if not isinstance(length, Op) or length.name != "len" or (low is None) == (high is None):
            continue
        row = Row(length.attrs["buffer"], length.attrs.get("dimension") or 0)
        bounds = known.get(row, Bounds())
        if low is None:
            most = high + _OFFSETS[name]
            known[row] = Bounds(bounds.least, most if bounds.most is None else min(bounds.most, most))
        else:
            known[row] = Bounds(max(bounds.least, low - _OFFSETS[name]), bounds.most)
    return known


def assert_lengths(program: Program, rows: Mapping[Row, Bounds]) -> None:
    """Let a program assert bounds of rows before all else."""
    b = Builder.on(program)
    b.loc, end = program.loc, len(program.body.ops)
    for (name, dimension), (least, most) in rows.items():
        length = b.len(name, dimension=dimension if program.buffers[name].dimensions > 1 else None)
        message = f"the rows of @{name} are longer or shorter than those that the code is for"
        if least:
            b.assert_(b.ge(length, least), message)
        if most is not None:
            b.assert_(b.le(length, most), message)
    ops = program.body.ops
    program.body.ops = [*ops[end:], *ops[:end]]
