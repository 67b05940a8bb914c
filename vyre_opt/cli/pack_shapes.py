"""`--shapes`: the arrays of a call as text, `main:x=64x100,y=64x100`."""

from __future__ import annotations

__all__ = ["check_shapes", "parse_shapes"]

Shapes = dict[str, tuple[int, ...]]


def parse_shapes(text: str) -> tuple[str, Shapes]:
    """The function, and the shapes of its arrays by name.  Raises ValueError."""
    function, colon, arrays = text.partition(":")
    shapes: Shapes = {}
    for array in arrays.split(","):
        name, equals, shape = array.partition("=")
        name, extents = name.strip().removeprefix("@"), shape.strip().split("x")
        if not colon or not equals or not name or not all(e.isascii() and e.isdigit() for e in extents):
            raise ValueError(
                f"{text!r} is not FUNCTION:NAME=NxM,...; write main:x=64x100,y=100 for arrays of these shapes"
            )
        if name in shapes:
            raise ValueError(f"{text!r} has two shapes for {name}; leave one out")
        shapes[name] = tuple(map(int, extents))
    return function.strip().removeprefix("@"), shapes


def check_shapes(text: str) -> str:
    """The text, if it can be parsed.  Raises ValueError."""
    parse_shapes(text)
    return text
