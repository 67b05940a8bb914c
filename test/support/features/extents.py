"""Sizes and grids as expressions of lengths: written in either language, and computed.

An expression is a number, `("len", buffer, axis, dimensions)`, or a function of two expressions, `("ceil_div", a, b)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Extent", "lengths_in", "rename", "show", "value"]

Extent = Any

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "//"}


def show(extent: Extent, is_python: bool) -> str:
    if isinstance(extent, int):
        return str(extent)
    if extent[0] == "len":
        _, name, axis, dimensions = extent
        if is_python:
            return f"{name}.shape[{axis}]" if dimensions > 1 else f"len({name})"
        return f"len(@{name}, {axis})" if dimensions > 1 else f"len(@{name})"
    function, a, b = extent[0], show(extent[1], is_python), show(extent[2], is_python)
    if not is_python:
        return f"{function}({a}, {b})"
    if function in _INFIX:
        return f"({a} {_INFIX[function]} {b})"
    return f"{'vyre.' if function == 'ceil_div' else ''}{function}({a}, {b})"


def rename(extent: Extent, names: Mapping[str, str]) -> Extent:
    if isinstance(extent, int):
        return extent
    if extent[0] == "len":
        return ("len", names[extent[1]], *extent[2:])
    return (extent[0], rename(extent[1], names), rename(extent[2], names))


def lengths_in(extent: Extent) -> set[str]:
    """The buffers whose lengths an expression has."""
    if isinstance(extent, int):
        return set()
    return {extent[1]} if extent[0] == "len" else lengths_in(extent[1]) | lengths_in(extent[2])


def value(extent: Extent, shapes: Mapping[str, tuple[int, ...]]) -> int:
    if isinstance(extent, int):
        return extent
    if extent[0] == "len":
        length: int = shapes[extent[1]][extent[2]]
        return length
    a, b = value(extent[1], shapes), value(extent[2], shapes)
    match extent[0]:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "div":
            return a // b
        case "ceil_div":
            return -(-a // b)
        case "min":
            return min(a, b)
        case _:
            return max(a, b)
