"""Errors of a statement beside its first one, so that all of them are reported in one run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .bindings import Static
from .foreign_words import dotted_name, foreign_index
from .intrinsics import static
from .pointer_calls import is_pointer_call
from .python_source import Unsupported

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["further_errors"]

_OTHER_RULES = (
    ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.JoinedStr, ast.Starred, ast.IfExp, ast.BoolOp, ast.List,
)  # fmt: skip
"""Expressions whose parts have names of their own, or are not computed always."""


def further_errors(t: Expressions, statement: ast.stmt, first: Unsupported) -> Iterator[Unsupported]:
    """Errors of the other expressions of a statement, in the order in which they are written; those of its blocks are not looked at."""
    if not isinstance(first.node, (ast.expr, ast.keyword)):
        return
    failed: list[ast.AST] = [first.node]
    for part in _parts(statement):
        yield from _errors_in(t, part, failed)


def _errors_in(t: Expressions, node: ast.expr, failed: list[ast.AST]) -> Iterator[Unsupported]:
    if isinstance(node, (*_OTHER_RULES, ast.Constant)):
        return
    if not any(_contains(node, each) for each in failed) and _is_loaded(node):
        error = _error_of(t, node)
        if error is None:
            return
        if error.message and not any(_is_at(error.node, each) for each in failed):
            yield error
        failed.append(error.node)
    is_name = bool(dotted_name(node))  # whose error is of all its parts
    if (
        is_name
        or is_pointer_call(node)
        or (isinstance(node, ast.Call) and _is_static(t, node))
        or (isinstance(node, ast.BinOp) and foreign_index(node))
    ):
        return
    for part in _parts(node):
        yield from _errors_in(t, part, failed)


def _is_loaded(node: ast.expr) -> bool:
    """Whether an expression has a value of its own: it is not assigned to, and no index with a `:`."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and not any(
        isinstance(part, ast.Slice) for part in parts
    )


def _is_at(node: ast.AST, other: ast.AST) -> bool:
    place = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return all(getattr(node, name, None) == getattr(other, name, None) for name in place)


def _parts(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions that a node consists of; of a call its arguments, since what it calls is part of the call's own error."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            if child.arg != "out":  # which is written, and its own error
                yield child.value
        elif isinstance(child, ast.expr) and not (isinstance(node, ast.Call) and child is node.func):
            yield child


def _contains(node: ast.AST, inner: ast.AST) -> bool:
    return any(each is inner for each in ast.walk(node))


def _error_of(t: Expressions, node: ast.expr) -> Unsupported | None:
    try:
        with t.emitter.aside():
            t.expression(node)
    except Unsupported as error:
        return error
    except RecursionError:
        return None
    return None


def _is_static(t: Expressions, node: ast.Call) -> bool:
    try:
        callee = t.expression(node.func)
    except Unsupported:
        return False
    return isinstance(callee, Static) and callee.value is static
