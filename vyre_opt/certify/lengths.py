"""The lengths of a pipeline's buffers as terms of z3, which are one term if they are written alike; the values of a program
that are such lengths.

A size that is an expression stands for the length wherever that is used, so `len(@y)` of `buffer @y : f32[len(@x)]` is
the term of `len(@x)`.  Functions of numbers are computed, others are not looked into.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

import z3

from ..ir.grids import FUNCTIONS, Extent, GridCall, GridError, length_key
from ..ir.program import Buffer, Op, Value

__all__ = ["LengthTerms", "extent_of"]

LEAST_BITS = 32
"""Least bits of integers that lengths fit in."""


class LengthTerms:
    """`of(extent)`: the term of an expression over the lengths of a pipeline with these buffers."""

    def __init__(self, buffers: Mapping[str, Buffer]) -> None:
        self._lengths: dict[str, z3.ArithRef] = {}
        for name, buffer in buffers.items():
            for dimension, extent in enumerate(buffer.extents):
                key = length_key(name, dimension if buffer.dimensions > 1 else None)
                self._lengths[key] = z3.Int(f"len {key}") if extent is None else self.of(extent)

    def of(self, extent: Extent) -> z3.ArithRef:
        if isinstance(extent, int):
            return z3.IntVal(extent)
        if extent.name in ("len", "param"):
            name, *dimension = extent.args
            key = length_key(str(name), *dimension)
            known = self._lengths.get(key) if extent.name == "len" else None
            return z3.Int(f"{extent.name} {key}") if known is None else known
        x, y = (self.of(arg) for arg in extent.args if not isinstance(arg, str))
        if z3.is_int_value(x) and z3.is_int_value(y):
            try:
                return z3.IntVal(FUNCTIONS[extent.name](x.as_long(), y.as_long()))
            except GridError:
                pass
        of_two = z3.Function(extent.name, z3.IntSort(), z3.IntSort(), z3.IntSort())
        term: z3.ArithRef = of_two(x, y)
        return term

    def agree(self, one: Extent | None, other: Extent | None) -> bool:
        """Whether two extents are the same, or both said by the caller."""
        if one is None or other is None:
            return one is other
        return bool(self.of(one).eq(self.of(other)))

    def equal(self) -> dict[str, list[str]]:
        """Lengths that are equal to each, by their keys (see ir/grids.py)."""
        same: dict[int, list[str]] = defaultdict(list)
        for key, term in self._lengths.items():
            same[term.get_id()].append(key)
        return {key: keys for keys in same.values() for key in keys}


def extent_of(value: Value, buffer_of: Callable[[str], str | None]) -> Extent | None:
    """The expression over lengths that a program computes a value by; None if it is no such.  `buffer_of`: what a buffer of
    the program is called in the expression, None if its length is not to be used."""
    op = value.owner
    if not isinstance(op, Op) or not value.type.is_int or (value.type.bits or 0) < LEAST_BITS:
        return None
    if op.name == "const":
        return int(op.attrs["value"])
    if op.name == "len":
        name = buffer_of(op.attrs["buffer"])
        dimension = () if "dimension" not in op.attrs else (op.attrs["dimension"],)
        return None if name is None else GridCall("len", (name, *dimension))
    operands = [extent_of(operand, buffer_of) for operand in op.operands]
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    if op.name == "cast":
        return known[0]
    if op.name == "div" and _is_rounded_up(*known):
        (numerator, divisor) = known
        assert isinstance(numerator, GridCall) and not isinstance(numerator.args[0], str)
        return GridCall("ceil_div", (numerator.args[0], divisor))
    return GridCall(op.name, tuple(known)) if op.name in FUNCTIONS else None


def _is_rounded_up(numerator: Extent, divisor: Extent) -> bool:
    """Whether `(x + (y - 1)) / y` is divided."""
    if not isinstance(numerator, GridCall) or numerator.name != "add":
        return False
    return numerator.args[1] in (
        GridCall("sub", (divisor, 1)),
        divisor - 1 if isinstance(divisor, int) else None,
    )
