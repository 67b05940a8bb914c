"""Checks of a function when it is decorated, before its names stand for anything.

Most functions are right, which is seen here; what is wrong with another one, the translation says, which takes longer to import.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, get_args, get_origin

from ..worker import import_module
from .array_types import array_type
from .python_source import FunctionSource, Unsupported
from .scalars import Float, Int, Scalar, scalar_type
from .types import Read, ReadWrite, Write
from .unsupported import surely_unsupported

__all__ = ["check_decorated", "is_usual"]


def check_decorated(function: Callable[..., Any], has_types: bool = True) -> None:
    """Raise DiagnosticError for what is wrong with a program whatever its names will stand for when it is translated: types of
    arguments, but those in quotes, and statements that kernels do not have.

    `has_types`: whether its arguments have types, as those of a program.
    """
    source = FunctionSource(function)
    if not is_usual(source, has_types):
        import_module("vyre_opt.lang.program_translation")
        from .program_translation import check_source

        check_source(source, has_types)


def is_usual(source: FunctionSource, has_types: bool) -> bool:
    """Whether a function has the usual types, and statements that kernels have."""
    arguments = source.tree.args
    return (
        arguments.vararg is arguments.kwarg is None
        and not any(surely_unsupported(source.tree.body))
        and (not has_types or all(_has_usual_type(source, argument) for argument in source.arguments))
    )


def _has_usual_type(source: FunctionSource, argument: ast.arg) -> bool:
    """Whether an argument is a number, or an array whose extents each call decides, of which the annotation has all names."""
    annotation = source.function.__annotations__.get(argument.arg)
    if argument.annotation is None or isinstance(annotation, str):
        return False
    names = {node.id for node in ast.walk(argument.annotation) if isinstance(node, ast.Name)}
    if not names <= source.names.keys():
        return False
    scalar = scalar_type(annotation)
    if source.default(argument) is not None:
        from .defaults import encoded_default

        try:
            encoded_default(source, argument, scalar)
        except Unsupported:
            return False
    if scalar is not None:
        return True
    if get_origin(annotation) in (Read, Write, ReadWrite) and get_args(annotation)[0] in (Scalar, Int, Float):
        return True
    try:
        array = array_type(annotation)
    except ValueError:
        return False
    return array is not None and not any(array.shape)
