"""Lines of kernels in Python that messages about their ops write anew: an update as an atomic, an access behind its guard."""

from __future__ import annotations

import ast

__all__ = ["guard", "index_parts", "stored_apart", "target_text", "update"]


def index_parts(index: ast.expr) -> list[ast.expr]:
    """Indices in the brackets of a subscript, one for each dimension."""
    return index.elts if isinstance(index, ast.Tuple) else [index]


def target_text(source: str) -> str:
    """The element that a statement stores to; "" for other text."""
    return "" if (target := _target(source)) is None else ast.unparse(target)


def stored_apart(source: str, name: str) -> str:
    """`out[i] = x[i] + x[i - 1]` for the text `x[i] += x[i - 1]`."""
    target = _target(source)
    if target is None:
        return "out[i] = ..."
    statement = ast.parse(source).body[0]
    value = ast.get_source_segment(source, statement.value)  # type: ignore[attr-defined]
    if isinstance(statement, ast.AugAssign):
        change = ast.BinOp(target, statement.op, statement.value)
        value = ast.unparse(ast.fix_missing_locations(change))
    return f"out[{ast.get_source_segment(source, target.slice)}] = {value}"


def _target(source: str) -> ast.Subscript | None:
    """The element that a statement stores to."""
    try:
        (statement,) = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return targets[0] if isinstance(targets[0], ast.Subscript) else None


def guard(source: str, buffer: str, below: str, length: str, dimension: int) -> str:
    """`: write if i < len(x): before it` for the text `x[i]`; "" for one whose index is not written there."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == buffer:
            parts = index_parts(node.slice)
            if dimension >= len(parts) or isinstance(parts[dimension], ast.Slice):
                return ""
            part = parts[dimension]
            index = ast.get_source_segment(source, part)
            return f": write if {below}{index} < {length}: before it"
    return ""


def update(op: str, source: str) -> str:
    """`vyre.atomic_add(y, 0, x[i])` for the text `y[0] += x[i]`, or `y[0] = y[0] + x[i]`."""
    target = _target(source)
    if target is None:
        return f"vyre.{op}(...)"
    statement = ast.parse(source).body[0]
    value = statement.value  # type: ignore[attr-defined]
    operands = [value]
    if isinstance(statement, ast.Assign):
        operands = (
            [value.left, value.right] if isinstance(value, ast.BinOp) else getattr(value, "args", operands)
        )
    other = next((each for each in operands if ast.unparse(each) != ast.unparse(target)), value)
    index = ast.get_source_segment(source, target.slice)
    index = f"({index})" if isinstance(target.slice, ast.Tuple) else index
    array, text = (ast.get_source_segment(source, each) for each in (target.value, other))
    return f"vyre.{op}({array}, {index}, {text})"
