"""Grids of launches, and sizes of buffers: numbers, or expressions of lengths and params of the pipeline.

    grid(4096)    grid(ceil_div(len(@text), 256))    grid(max(1, div(@n, 64)), 8)    buffer @y : u8[div(len(@text), 2)]

In a mapping of lengths, "x" has the number of elements of @x, "x,1" its extent along dimension 1, and "@n" the value
of the param @n.

Arithmetic is on Python ints, without overflow; the result is checked against the limits where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from ..records import dataclass

__all__ = [
    "FUNCTIONS",
    "MAX_DEPTH",
    "MAX_REPEATED_DEPTH",
    "Extent",
    "Grid",
    "GridCall",
    "GridError",
    "bounds",
    "ceil_divided",
    "dimensions_of",
    "evaluate",
    "fold",
    "largest",
    "length_key",
    "lengths_by_dimension",
    "lengths_of",
    "params_of",
    "renamed_lengths",
    "show_extent",
    "show_values",
]

MAX_DEPTH = 50
"""The most levels that calls may nest."""

MAX_REPEATED_DEPTH = 5
"""The most levels of an expression that passes put in place of a length: it may stand there more than once."""


class GridError(ValueError):
    """An expression without a value: a division by zero, or a length that is not known."""


@dataclass(frozen=True, slots=True)
class GridCall:
    """A function of `FUNCTIONS`; `len` of the buffer that is its first argument, along the dimension that is its second,
    if any; or `param`, the value of that param."""

    name: str
    args: tuple[Extent | str, ...]
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        depth = 1 + max((arg.depth for arg in self.args if isinstance(arg, GridCall)), default=0)
        object.__setattr__(self, "depth", depth)


Extent = int | GridCall
"""Workgroups along an axis."""

Grid = tuple[Extent, Extent, Extent]


def _div(x: int, y: int) -> int:
    if y == 0:
        raise GridError("it divides by zero")
    return x // y


FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": _div,
    "ceil_div": lambda x, y: -_div(-x, y),
    "min": min,
    "max": max,
}
"""Each takes two numbers; div rounds down, ceil_div up."""


def evaluate(extent: Extent, lengths: Mapping[str, int | None]) -> int:
    """The value for these buffer lengths, in elements.  Raises GridError."""
    if isinstance(extent, int):
        return extent
    if extent.name == "len":
        name, *dimension = extent.args
        length = lengths.get(length_key(str(name), *dimension))
        if length is None:
            raise GridError(f"the length of @{name} is not known")
        return length
    if extent.name == "param":
        value = lengths.get(f"@{extent.args[0]}")
        if value is None:
            raise GridError(f"the value of @{extent.args[0]} is not known")
        return value
    x, y = (evaluate(arg, lengths) for arg in extent.args if not isinstance(arg, str))
    return FUNCTIONS[extent.name](x, y)


def fold(extent: Extent, lengths: Mapping[str, Extent | None]) -> Extent:
    """`extent` with known lengths put in, which may be expressions, and every subexpression computed that has a value."""
    if isinstance(extent, int):
        return extent
    if extent.name in ("len", "param"):
        name, *dimension = extent.args
        known = lengths.get(f"@{name}" if extent.name == "param" else length_key(str(name), *dimension))
        return extent if known is None else known
    x, y = (fold(arg, lengths) for arg in extent.args if not isinstance(arg, str))
    try:
        return (
            FUNCTIONS[extent.name](x, y)
            if isinstance(x, int) and isinstance(y, int)
            else GridCall(extent.name, (x, y))
        )
    except GridError:
        return GridCall(extent.name, (x, y))


MAX_LENGTH = (1 << 32) - (1 << 16)
"""The greatest length that a program of a pipeline may take as a u32, and the most elements of a named kernel's operand.

A last tile that is not whole then ends below 2^32, so that no index in it wraps.
"""


def bounds(extent: Extent) -> tuple[int, int] | None:
    """The least and the greatest value for lengths of at most MAX_LENGTH; None where it may have no value, or any."""
    if isinstance(extent, int):
        return extent, extent
    if extent.name == "len":
        return 0, MAX_LENGTH
    if extent.name == "param":
        return None
    x, y = (bounds(arg) for arg in extent.args if not isinstance(arg, str))
    if x is None or y is None or (extent.name in ("div", "ceil_div") and y[0] <= 0 <= y[1]):
        return None
    # each function is monotonic in each argument, so its extremes are at corners
    corners = [FUNCTIONS[extent.name](a, b) for a in x for b in y]
    return min(corners), max(corners)


def ceil_divided(extent: Extent, by: int) -> Extent:
    """`ceil_div(extent, by)`, for a `by` above zero, in a short form."""
    if by == 1:
        return extent
    if isinstance(extent, int):
        return -(-extent // by)
    if extent.name == "ceil_div" and isinstance(extent.args[1], int) and extent.args[1] > 0:
        inner = extent.args[0]
        assert not isinstance(inner, str)
        return ceil_divided(inner, extent.args[1] * by)
    if extent.name == "max":  # rounding up keeps the order
        x, y = (ceil_divided(arg, by) for arg in extent.args if not isinstance(arg, str))
        return largest([x, y])
    return GridCall("ceil_div", (extent, by))


def largest(extents: Iterable[Extent]) -> Extent:
    """The maximum, in which equal ones stand once."""
    parts: dict[Extent, None] = {}
    pending = list(extents)[::-1]
    while pending:
        extent = pending.pop()
        if isinstance(extent, GridCall) and extent.name == "max":
            pending += [arg for arg in extent.args[::-1] if not isinstance(arg, str)]
        else:
            parts[extent] = None
    number = max((part for part in parts if isinstance(part, int)), default=None)
    calls = [part for part in parts if not isinstance(part, int)]
    result: Extent | None = number
    for call in calls:
        result = call if result is None else GridCall("max", (result, call))
    assert result is not None
    return result


def length_key(name: str, dimension: Extent | str | None = None) -> str:
    """Key, in a mapping of lengths, of the number of elements of a buffer or of its extent along a dimension."""
    return name if dimension is None else f"{name},{dimension}"


def lengths_by_dimension(name: str, shape: Sequence[int | None]) -> dict[str, int | None]:
    """The extents of a buffer, as a mapping of lengths has them beside its number of elements."""
    return {length_key(name, number): extent for number, extent in enumerate(shape)}


def renamed_lengths(lengths: Mapping[str, int | None], names: Mapping[str, str]) -> dict[str, int | None]:
    """The lengths of the buffers that are keys of `names`, under their new names."""
    result: dict[str, int | None] = {}
    for key, length in lengths.items():
        name, comma, dimension = key.partition(",")
        if name in names:
            result[f"{names[name]}{comma}{dimension}"] = length
    return result


def dimensions_of(extent: Extent) -> Iterator[tuple[str, int | None]]:
    """The buffers whose length `extent` uses, each with the dimension that it names, or None."""
    if isinstance(extent, GridCall) and extent.name == "len":
        name, *dimension = extent.args
        number = dimension[0] if dimension else None
        yield str(name), number if isinstance(number, int) else None
    elif isinstance(extent, GridCall):
        for arg in extent.args:
            if not isinstance(arg, str):
                yield from dimensions_of(arg)


def lengths_of(extent: Extent) -> Iterator[str]:
    """The names of the buffers whose length `extent` uses."""
    return _named(extent, "len")


def params_of(extent: Extent) -> Iterator[str]:
    """The names of the params whose value `extent` uses."""
    return _named(extent, "param")


def _named(extent: Extent, kind: str) -> Iterator[str]:
    if isinstance(extent, GridCall):
        for arg in extent.args:
            if not isinstance(arg, str):
                yield from _named(arg, kind)
            elif extent.name == kind:
                yield arg


def show_extent(extent: Extent) -> str:
    """The text of `extent`."""
    if isinstance(extent, int):
        return str(extent)
    if extent.name == "param":
        return f"@{extent.args[0]}"
    args = (f"@{arg}" if isinstance(arg, str) else show_extent(arg) for arg in extent.args)
    return f"{extent.name}({', '.join(args)})"


def show_values(extents: Iterable[Extent], lengths: Mapping[str, int | None]) -> str:
    """The values of the lengths and params that expressions use, ` (len(@x) is 5, @n is 3)`; empty if they use none."""
    used = list(extents)
    pairs = dict.fromkeys(pair for extent in used for pair in dimensions_of(extent))
    names = dict.fromkeys(name for extent in used for name in params_of(extent))
    values = [
        f"len(@{name}{'' if number is None else f', {number}'}) is {lengths[length_key(name, number)]}"
        for name, number in pairs
    ]
    values += [f"@{name} is {lengths[f'@{name}']}" for name in names]
    return f" ({', '.join(values)})" if values else ""
