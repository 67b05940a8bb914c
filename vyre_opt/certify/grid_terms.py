"""Grids as terms of z3: over the lengths of a pipeline's buffers, which are numbers or variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import z3

from ..ir.grids import Extent, GridCall, length_key
from ..ir.types import DataType
from .mismatch import Mismatch
from .points import Point

__all__ = ["LONGEST", "extent_parts", "extent_term", "lengths_in_range", "variable_name"]

LONGEST = (1 << 32) - (1 << 16)
"""Elements of a buffer whose length a program of a pipeline takes as a u32; more are an error of the launch."""


def lengths_in_range(point: Point) -> list[z3.BoolRef]:
    """Condition that the lengths of a launch, which its program takes as a u32, are in range."""
    program = point.group.program
    lengths = {
        op.attrs["buffer"] for op in program.walk() if op.name == "len" and op.result.type is DataType.U32
    }
    return [point.group.length(name).term <= LONGEST for name in sorted(lengths)]


def extent_parts(extent: Extent) -> Iterator[Extent]:
    """An expression and all that it is made of."""
    yield extent
    if isinstance(extent, GridCall):
        for arg in extent.args:
            if not isinstance(arg, str):
                yield from extent_parts(arg)


def variable_name(extent: GridCall) -> str:
    """The name of a length or a param among the terms of an expression."""
    name, *dimension = extent.args
    return f"@{name}" if extent.name == "param" else length_key(str(name), *dimension)


def extent_term(
    extent: Extent, known: Mapping[str, int | None], lengths: dict[str, z3.ArithRef]
) -> z3.ArithRef:
    """`known`: the lengths of the pipeline's buffers, `lengths`: variables for others, to which it adds.  Raises Mismatch."""
    if isinstance(extent, int):
        return z3.IntVal(extent)
    if extent.name in ("len", "param") and (key := variable_name(extent)) in lengths:
        return lengths[key]
    if extent.name == "len" and len(extent.args) > 1:
        raise Mismatch(f"the grid depends on one dimension of @{extent.args[0]}")
    if extent.name == "len":
        name = str(extent.args[0])
        count = known.get(name)
        return z3.IntVal(count) if count is not None else lengths.setdefault(name, z3.Int(f"len.{name}"))
    if extent.name == "param":
        raise Mismatch(f"the grid depends on the param @{extent.args[0]}")
    x, y = (extent_term(arg, known, lengths) for arg in extent.args if not isinstance(arg, str))
    if extent.name in ("div", "ceil_div") and not (z3.is_int_value(y) and y.as_long() > 0):
        raise Mismatch("the grid divides by what may be 0")
    terms = {
        "add": lambda: x + y,
        "sub": lambda: x - y,
        "mul": lambda: x * y,
        "div": lambda: x / y,
        "ceil_div": lambda: (x + y - 1) / y,
        "min": lambda: z3.If(x < y, x, y),
        "max": lambda: z3.If(x > y, x, y),
    }
    return terms[extent.name]()
