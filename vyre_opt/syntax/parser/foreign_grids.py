"""Extents that are written with operators, as the functions that grids and sizes have.

(len(@x) + 63) / 64        ceil_div(len(@x), 64)
@n * 4 - 1                 sub(mul(len(@n), 4), 1)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

__all__ = ["with_functions"]

_FUNCTIONS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "div"}
_AT = "_at_"
"""Stands for an @ while an expression is read as one of Python, which has the same operators and parentheses."""


def with_functions(text: str, buffers: Collection[str]) -> str | None:
    """Extents between brackets, with functions for operators and lengths for names of buffers; None for what is no arithmetic."""
    try:
        tree = ast.parse(f"f({re.sub('@', _AT, text).strip()})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None
    if not isinstance(tree, ast.Call) or not tree.args or tree.keywords:
        return None
    parts = [_extent(part, buffers) for part in tree.args]
    return None if None in parts else ", ".join(map(str, parts))


def _extent(node: ast.expr, buffers: Collection[str]) -> str | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return str(node.value)
    if isinstance(node, ast.Name):
        name = node.id.replace(_AT, "@")
        return f"len({name})" if name.startswith("@") and name[1:] in buffers else name
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function, own = node.func.id, buffers if node.func.id not in ("len", "dim") else ()
        arguments = [_extent(argument, own) for argument in node.args]
    elif isinstance(node, ast.BinOp) and type(node.op) in _FUNCTIONS:
        rounded = _rounded_up(node, buffers)
        function = _FUNCTIONS[type(node.op)] if rounded is None else "ceil_div"
        arguments = [_extent(each, buffers) for each in (rounded or node.left, node.right)]
    else:
        return None
    return None if None in arguments else f"{function}({', '.join(map(str, arguments))})"


def _rounded_up(node: ast.BinOp, buffers: Collection[str]) -> ast.expr | None:
    """The `a` of `(a + b - 1) / b`, in any order; None for another operation."""
    if not isinstance(node.op, (ast.Div, ast.FloorDiv)) or not isinstance(node.left, ast.BinOp):
        return None
    divisor, constant = node.right, 0
    others: list[ast.expr] = []
    for sign, term in _terms(node.left, 1):
        if isinstance(term, ast.Constant) and type(term.value) is int:
            constant += sign * term.value
        elif sign == 1:
            others.append(term)
        else:
            return None
    if isinstance(divisor, ast.Constant) and type(divisor.value) is int:
        constant -= divisor.value
    else:
        shown = _extent(divisor, buffers)
        same = next((each for each in others if _extent(each, buffers) == shown), None)
        if same is None:
            return None
        others.remove(same)
    return others[0] if len(others) == 1 and constant == -1 else None


def _terms(node: ast.expr, sign: int) -> Iterator[tuple[int, ast.expr]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _terms(node.left, sign)
        yield from _terms(node.right, sign if isinstance(node.op, ast.Add) else -sign)
    else:
        yield sign, node
