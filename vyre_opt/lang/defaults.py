"""Numbers of a kernel or a pipeline that a call may leave out: `alpha: f32 = 1.0`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

from ..ir.literals import LiteralError, encode
from ..ir.pipeline_builder import literal_of
from ..ir.types import DataType
from .constants import constant_of
from .python_source import FunctionSource, Unsupported

__all__ = ["defaults_of", "encoded_default"]


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The values of arguments that have one, by their names."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: constant_of(p.default) for p in parameters if p.default is not p.empty}


def encoded_default(source: FunctionSource, argument: ast.arg, dtype: DataType | None) -> int | None:
    """The default of an argument, as a `Param` has it; None if there is none.  `dtype`: of a number, None for an array.

    Raises Unsupported, at the default.
    """
    node = source.default(argument)
    if node is None:
        return None
    name, value = argument.arg, defaults_of(source.function)[argument.arg]
    if dtype is None:
        raise Unsupported(
            node, f"{name} is an array, and only numbers have a default", "pass the array at each call"
        )
    try:
        return encode(literal_of(value), dtype)
    except (TypeError, LiteralError) as error:
        shown = f"{value!r} is no number" if isinstance(error, TypeError) else str(error)
        raise Unsupported(node, f"the default of {name}, which is {dtype}: {shown}") from None
