"""Annotations of array arguments: `Read[f32[:, 64]]` is read, of f32, of shape (None, 64)."""

from __future__ import annotations

import ast
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from ..ir.program import MAX_DIMENSIONS, AccessMode, Buffer, Shape
from ..ir.types import DataType
from ..records import dataclass
from .python_source import Unsupported
from .scalars import scalar_type
from .types import Array, Read, ReadWrite, Write

__all__ = [
    "ArrayType",
    "array_type",
    "declaration_text",
    "declared_array",
    "element_text",
    "refuse_arguments",
    "show_array_type",
    "show_elements",
]

_CLASSES: dict[AccessMode, type[Array[Any]]] = {c.access: c for c in (Read, Write, ReadWrite)}


@dataclass(frozen=True, slots=True)
class ArrayType:
    """`shape`: as of a Buffer, None for an extent that each call's array has."""

    access: AccessMode
    element: DataType
    shape: Shape


def array_type(annotation: Any) -> ArrayType | None:
    """The type of an array argument; None for what is none.  Raises ValueError for extents that no array has."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin not in _CLASSES.values() or len(arguments) != 1:
        return None
    elements = arguments[0]
    extents: Sequence[Any] = getattr(elements, "__metadata__", (slice(None),))
    element = scalar_type(getattr(elements, "__origin__", elements))
    if element is None:
        return None
    if len(extents) > MAX_DIMENSIONS:
        raise ValueError(f"an array has 1 to {MAX_DIMENSIONS} dimensions, not {len(extents)}")
    return ArrayType(origin.access, element, tuple(map(_extent, extents)))


def declared_array(argument: ast.arg, annotation: Any) -> ArrayType | None:
    """`array_type` of an argument.  Raises Unsupported, at its annotation."""
    try:
        return array_type(annotation)
    except ValueError as error:
        help = (
            "write a : for a dimension of any extent, a number from 1 on for one of fixed extent: f32[:, 64]"
        )
        if "dimensions" in str(error):
            help = (
                "declare three, f32[:, :, :], and join others before the call: x.reshape(-1, *x.shape[-2:])"
            )
        raise Unsupported(argument.annotation or argument, str(error), help) from None


def refuse_arguments(annotation: ast.expr, arguments: Sequence[ast.arg], names: Mapping[str, Any]) -> None:
    """Raises Unsupported for an annotation that uses arguments: `Read[f32[:, n]]`.  `names`: those outside."""
    others = {argument.arg for argument in arguments} - names.keys()
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name) and node.id in others:
            help = "write : for an extent that the array says, and read it as x.shape[1]"
            raise Unsupported(
                node, f"{node.id} is an argument, and types are known before there are any", help
            )


def _extent(item: Any) -> int | None:
    if isinstance(item, slice) and item == slice(None):
        return None
    if isinstance(item, int) and not isinstance(item, bool) and item > 0:
        return item
    shown = "a part of a slice" if isinstance(item, slice) else repr(item)
    raise ValueError(f"{shown} is no extent of an array")


# --- as text, for messages


def show_elements(element: DataType, shape: Shape) -> str:
    """`f32`, `f32[:, 64]`; bool, which takes no brackets, as `Annotated[bool, :, 64]`."""
    if shape == (None,):
        return str(element)
    extents = ", ".join(":" if extent is None else str(extent) for extent in shape)
    return f"Annotated[bool, {extents}]" if element.is_bool else f"{element}[{extents}]"


def show_array_type(access: AccessMode, element: DataType, shape: Shape) -> str:
    """`Read[f32[:, 64]]`."""
    return f"{_CLASSES[access].__name__}[{show_elements(element, shape)}]"


def element_text(buffer: Buffer) -> str:
    """An element: `x[i, j]`."""
    return f"{buffer.name}[{', '.join('ijk'[: buffer.dimensions])}]"


def declaration_text(buffer: Buffer, dimensions: int) -> str:
    """Declaration of a buffer with so many dimensions: `x: Read[f32[:, :]]`."""
    if buffer.access is None or buffer.access not in _CLASSES:
        return f"{buffer.name} = vyre.shared({buffer.dtype}, ({', '.join(['16'] * dimensions)}))"
    return f"{buffer.name}: {show_array_type(buffer.access, buffer.dtype, (None,) * dimensions)}"
