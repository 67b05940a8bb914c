"""Python objects that kernels and pipelines know when they are translated, and how they are computed with."""

from __future__ import annotations

import ast
import operator
import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from .intrinsics import Intrinsic, instead_of
from .python_source import Unsupported

__all__ = ["checked", "compute", "constant_of", "evaluate", "is_foreign_array", "measured_name"]

MAX_BITS = 4096
"""Most bits of a whole number."""

MAX_LENGTH = 1 << 20
"""Longest tuple or text that `*` may make."""


def constant_of(obj: Any) -> Any:
    """An object as a kernel has it: a scalar of NumPy is the number that it holds, of no type of its own."""
    numpy = sys.modules.get("numpy")  # else there is none
    return obj.item() if numpy is not None and isinstance(obj, numpy.generic) else obj


def is_foreign_array(obj: Any) -> bool:
    """Whether an object is an array of NumPy, torch or another library, with elements that a kernel would have to know."""
    return hasattr(type(obj), "__array__") or hasattr(type(obj), "__cuda_array_interface__")


def compute(node: ast.AST, text: str, function: Callable[..., Any], *values: Any) -> Any:
    """Result of a function of Python.  Raises Unsupported for its errors, and for a result that would be too large."""
    try:
        _check_size(node, function, values)
        result = function(*values)
    except Unsupported:
        raise
    except Exception as error:  # of the caller's constants: it may be anything
        wrong = next((value for value in values if isinstance(value, Intrinsic)), None)
        raise Unsupported(node, f"{text}: {error}", None if wrong is None else instead_of(wrong)) from None
    return checked(node, result)


def _check_size(node: ast.AST, function: Callable[..., Any], values: tuple[Any, ...]) -> None:
    """Raises Unsupported for what would take long to compute, and then be too large."""
    if len(values) != 2:
        return
    a, b = values
    if isinstance(a, int) and isinstance(b, int):
        bits = {
            operator.pow: a.bit_length() * b,
            operator.lshift: a.bit_length() + b,
            pow: a.bit_length() * b,
        }
        if abs(a) > 1 and bits.get(function, 0) > 2 * MAX_BITS:
            raise _too_large(node)
    elif function is operator.mul and isinstance(a, int) is not isinstance(b, int):
        sequence, count = (b, a) if isinstance(a, int) else (a, b)
        if isinstance(sequence, (str, bytes, tuple)) and len(sequence) * count > MAX_LENGTH:
            raise Unsupported(node, f"this has more than {MAX_LENGTH:,} parts")


def checked(node: ast.AST, value: Any) -> Any:
    """An object that a name or an expression stands for as a constant.  Raises Unsupported for a very large number."""
    value = constant_of(value)
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise _too_large(node)
    return value


def _too_large(node: ast.AST) -> Unsupported:
    return Unsupported(node, f"this is a number of more than {MAX_BITS} bits")


def measured_name(node: ast.expr) -> str:
    """The name x in `len(x)` and in `x.shape`, or any attribute; "" for what is neither."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        node = node.args[0] if len(node.args) == 1 else node
    elif isinstance(node, ast.Attribute):
        node = node.value
    else:
        return ""
    return node.id if isinstance(node, ast.Name) else ""


def evaluate(
    node: ast.expr, text: str, value_of: Callable[[ast.expr], Any], is_known: Callable[[ast.expr], bool]
) -> Any:
    """Value of an expression of constants in Python.

    `value_of`: of a name, and of what `is_known`, such as the length of an array; it raises Unsupported.
    """
    names = _NameSubstitution(node, value_of, is_known)
    named = ast.fix_missing_locations(ast.Expression(names.visit(deepcopy(node))))
    try:
        # as globals, which the functions of comprehensions see, too
        value = eval(compile(named, "<constant>", "eval"), {"__builtins__": {}, **names.values})
    except Exception as error:  # of the caller's constants: it may be anything
        raise Unsupported(node, f"{text}: {error}") from None
    return checked(node, value)


class _NameSubstitution(ast.NodeTransformer):
    """Puts names of values in the place of names, but of those that the expression itself binds."""

    def __init__(
        self, node: ast.expr, value_of: Callable[[ast.expr], Any], is_known: Callable[[ast.expr], bool]
    ) -> None:
        self.value_of, self.is_known = value_of, is_known
        self.values: dict[str, Any] = {}
        inner = list(ast.walk(node))
        self._own = {n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self._own |= {n.arg for n in inner if isinstance(n, ast.arg)}

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Name):
            return node if node.id in self._own else self._named(node)
        if isinstance(node, ast.expr) and self.is_known(node):
            return self._named(node)
        return self.generic_visit(node)

    def _named(self, node: ast.expr) -> ast.Name:
        name = f"_{len(self.values)}_{node.id if isinstance(node, ast.Name) else ''}"
        self.values[name] = self.value_of(node)
        return ast.Name(name, ast.Load())
