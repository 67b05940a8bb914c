"""The builder's methods of ops, made from the op table when they are first used.

For editors and type checkers, op_methods.pyi has them all; `python docs/op_stubs.py` writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .op_builders import BUILDERS
from .ops import OPS, OpDef
from .plugin_ops import find_op
from .program import Value
from .suggestions import suggest

__all__ = ["OpMethods"]


class OpMethods:
    """A method for each op of the table, with an underscore after a Python keyword (`and_`)."""

    def __getattr__(self, name: str) -> Callable[..., Value]:
        """The method for an op of the table; it is added to the class, so that it is looked up once."""
        row = find_op(name.removesuffix("_"))
        method = BUILDERS.get(row.format) if row is not None else None
        if row is None or method is None:
            hint = suggest(name, OPS)
            raise AttributeError(f"no op {name}" + (f"; {hint}" if hint else ""))
        setattr(OpMethods, name, _named(method, row))
        bound: Callable[..., Value] = getattr(self, name)
        return bound


def _named(method: Callable[..., Value], row: OpDef) -> Callable[..., Value]:
    """A method of the builder, which takes `name=` too."""

    def build(b: Any, *args: Any, name: str | None = None, **options: Any) -> Value:
        value = method(b, row, *args, **options)
        if name is not None:
            value.name = name
        return value

    build.__name__, build.__doc__ = row.name, row.doc
    return build
