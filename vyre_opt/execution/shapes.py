"""Shapes of the arrays that a caller passes for buffers of several dimensions.

An array has the buffer's dimensions, and one more for the lanes of a vector; extents that the text fixes agree.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ..ir.author_words import VYRE
from ..ir.program import MAX_EXTENT, Buffer
from ..ir.shapes import shapes_agree, show_shape
from .dispatcher import BadInputs, OutputAlloc

__all__ = [
    "argument_shape",
    "array_of",
    "in_shape_of",
    "unravel_index",
    "result_shape",
    "shape_in_elements",
    "shape_of",
]


def shape_of(array: Any) -> tuple[int, ...] | None:
    """The shape of an array, which may say it by `__cuda_array_interface__` alone; None for what has none."""
    shape: tuple[int, ...] | None = getattr(array, "shape", None)
    if shape is None:
        shape = (getattr(array, "__cuda_array_interface__", None) or {}).get("shape")
    return shape


def argument_shape(buffer: Buffer, argument: Any, where: str) -> tuple[int, ...]:
    """The extents of an argument for a buffer of several dimensions.

    `where`: how messages begin.  Raises BadInputs for a shape that the buffer does not have.
    """
    if isinstance(argument, (bytes, bytearray, memoryview)):
        return _shape_of_bytes(buffer, argument, where)
    shape = shape_in_elements(buffer, argument)
    declared = f"@{buffer.name} is {buffer.dtype}[{show_shape(buffer.shape)}]"
    if shape is None:
        raise BadInputs(f"{where}: {declared}; pass an array of that shape, not {_kind(argument)}")
    if not shapes_agree(shape, buffer.shape):
        given = show_tuple(tuple(getattr(argument, "shape", shape)))
        differs = _differing_dimensions(buffer, shape)
        raise BadInputs(
            f"{where}: an array of shape {given}, and {declared}{differs}{_advice(buffer, shape)}"
        )
    if max(shape) > MAX_EXTENT:
        raise BadInputs(f"{where}: shape {show_tuple(shape)}; an extent of several is at most 2^31-1")
    return shape


def _differing_dimensions(buffer: Buffer, shape: tuple[int, ...]) -> str:
    """Along which dimensions a shape is not the buffer's; empty where it has more or fewer of them."""
    if len(shape) != buffer.dimensions:
        return ""
    wrong = [
        f"{extent} along dimension {number}, not {declared}"
        for number, (extent, declared) in enumerate(zip(shape, buffer.shape, strict=True))
        if declared not in (None, extent)
    ]
    return f": it has {' and '.join(wrong)}"


def shape_in_elements(buffer: Buffer, argument: Any) -> tuple[int, ...] | None:
    """The extents of an array or `OutputAlloc`, without the lanes of vectors; None for what has none."""
    shape = shape_of(argument)
    if shape is None or (isinstance(argument, OutputAlloc) and not shape):
        return None
    extents = tuple(int(extent) for extent in shape)
    lanes = buffer.dtype.lanes
    if lanes == 1 or isinstance(argument, OutputAlloc):
        return extents
    if extents and extents[-1] == lanes:
        return extents[:-1]
    return (*extents[:-1], extents[-1] // lanes) if extents and extents[-1] % lanes == 0 else extents


def array_of(buffer: Buffer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the array for a buffer of these extents."""
    return (*shape, buffer.dtype.lanes) if buffer.dtype.is_vec else shape


def in_shape_of(buffer: Buffer, array: Any) -> Any:
    """Flat storage in the shape of the array for a buffer of known extents."""
    if buffer.dimensions > 1:
        return array.reshape(array_of(buffer, tuple(extent or 0 for extent in buffer.shape)))
    return array.reshape(-1, buffer.dtype.lanes) if buffer.dtype.is_vec else array


def result_shape(buffer: Buffer, length: Any) -> tuple[Any, ...]:
    """The shape of the array for an output.

    `length`: where an extent is open, the number of elements, or for several dimensions the extents along each of
    them; numbers of any kind, those of a tracer too.
    """
    extents = buffer.shape
    if None in extents:
        extents = (length,) if buffer.dimensions == 1 else tuple(length)
    lanes = buffer.dtype.lanes
    return (*extents, lanes) if lanes > 1 else tuple(extents)


def unravel_index(element: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The indices of an element, by its number in row-major order."""
    indices: list[int] = []
    for extent in reversed(shape[1:]):
        element, index = divmod(element, max(1, extent))
        indices.append(index)
    return (element, *reversed(indices))


def show_tuple(shape: tuple[int, ...]) -> str:
    """`(8, 64)`, `(512,)`."""
    return repr(tuple(shape))


def _kind(argument: Any) -> str:
    return "a number of elements" if isinstance(argument, OutputAlloc) else f"a {type(argument).__name__}"


def _advice(buffer: Buffer, shape: tuple[int, ...]) -> str:
    """Remedy for a flat array whose elements make up whole rows: a reshape."""
    name, more = buffer.name, buffer.dimensions - len(shape)
    if not more and len(shape) == 2 and buffer.loc is not None and buffer.loc.source.spelling is not VYRE:
        names = zip(buffer.shape, ("rows", "columns"), strict=True)
        fixed = [f"{extent} {name}" for extent, name in names if extent is not None]
        return f"; pass an array of {' and '.join(fixed)}, or write {buffer.dtype}[:, :] in the head"
    if len(shape) != 1:
        if more > 0:
            return f"; pass {name}.reshape({'1, ' * more}*{name}.shape)"
        kept = "".join(f", {name}.shape[{axis}]" for axis in range(1 - buffer.dimensions, 0))
        return f"; pass {name}.reshape(-1{kept})" if more else ""
    inner = list(buffer.shape[1:])
    if None in inner or (buffer.shape[0] is None and not prod(e or 0 for e in inner)):
        return f"; pass {name}.reshape({'1, ' * more}-1) for one row, or reshape it to the rows that it has"
    rows = prod(extent or 0 for extent in inner)
    if (buffer.shape[0] is not None and shape[0] != buffer.shape[0] * rows) or (rows and shape[0] % rows):
        return ""
    first = -1 if buffer.shape[0] is None else buffer.shape[0]
    return f"; pass array.reshape({', '.join(map(str, array_of(buffer, (first, *(e or 0 for e in inner)))))})"


def _shape_of_bytes(buffer: Buffer, data: bytes | bytearray | memoryview, where: str) -> tuple[int, ...]:
    """The extents of elements without a shape: those of the text, of which only the first may be open."""
    inner = buffer.shape[1:]
    if None in inner:
        raise BadInputs(
            f"{where}: bytes have no shape, and @{buffer.name} is {buffer.dtype}[{show_shape(buffer.shape)}]; "
            "pass an array of that shape"
        )
    size = data.nbytes if isinstance(data, memoryview) else len(data)
    row = prod(extent or 0 for extent in inner)
    rows, rest = divmod(size // (buffer.dtype.element_bytes or 1), row or 1)
    first = buffer.shape[0] if buffer.shape[0] is not None else rows
    if rest or first != rows:
        raise BadInputs(
            f"{where}: {size} bytes are no {buffer.dtype}[{show_shape(buffer.shape)}], whose rows take "
            f"{row * (buffer.dtype.element_bytes or 1)} bytes"
        )
    return (first, *(extent or 0 for extent in inner))
