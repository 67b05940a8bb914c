"""Lines of kernels in Python that messages about their ops write anew: an update as an atomic, an access behind its guard."""

from __future__ import annotations

import ast
from collections.abc import Sequence

__all__ = ["bound", "guard", "index_parts", "lengthened", "stored_apart", "target_text", "update"]


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


def lengthened(made: str, launch: str) -> str:
    """`vyre.buffer(f32, len(x))` for memory made by `vyre.buffer(f32, 8)` and a launch `kernel[vyre.ceil_div(len(x), 64)](x, y)`; "" where the
    text does not show how far the launch goes."""
    try:
        memory, call = (ast.parse(text, mode="eval").body for text in (made, launch))
    except (SyntaxError, ValueError):
        return ""
    if not (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript) and isinstance(memory, ast.Call)
    ):
        return ""
    count, grid = ast.unparse(call.func.slice), call.func.slice
    if isinstance(grid, ast.Call) and ast.unparse(grid.func) == "vyre.ceil_div" and len(grid.args) == 2:
        count = ast.unparse(grid.args[0])
    elif isinstance(grid, ast.BinOp) and isinstance(grid.op, ast.FloorDiv):
        count = ast.unparse(grid.left)
    elif not (count.startswith("len(") or ".shape[" in count):
        return ""
    if len(memory.args) != 2 or memory.keywords:
        return ""
    sizes = 1 if ast.unparse(memory.func).endswith("buffer") else 0
    memory.args[sizes] = ast.parse(count, mode="eval").body
    return ast.unparse(memory)


MOST_PARSED = 200_000
"""Characters of a file that is parsed, at most."""


def bound(text: str, start: int, end: int, buffer: str, lengths: Sequence[str], dimension: int) -> str:
    """Say what is wrong with the bound that an index out of bounds has, and the line as it should be; "" where that is not seen.

    for j in range(x.shape[0]): ... x[i, j]          if i < x.shape[1]: ... x[i, j]          x[len(x) - i]          x.vec(4)[i]
    """
    try:
        tree = ast.parse(text) if len(text) <= MOST_PARSED else None
    except (SyntaxError, ValueError):
        tree = None
    if tree is None:
        return ""
    around = _around(tree, _place(text, start), _place(text, end))
    access = next((node for node in ast.walk(around[-1]) if _is_of(node, buffer)), None)
    if not isinstance(access, ast.Subscript):
        return ""
    parts = index_parts(access.slice)
    if dimension >= len(parts) or isinstance(parts[dimension], ast.Slice):
        return ""
    index, length = ast.unparse(parts[dimension]), lengths[dimension]
    if (
        isinstance(access.value, ast.Call)
        and getattr(access.value.func, "attr", "") == "vec"
        and access.value.args
    ):
        lanes, base = ast.unparse(access.value.args[0]), ast.unparse(access.value)
        before = "".join(f"{ast.unparse(part)}, " for part in parts[:-1])
        return (
            f"an index of {base} counts vectors of {lanes} elements: write {base}[{before}{_operand(index)} // {lanes}] for the one at element {index}, "
            f"or if {index} < {length} // {lanes}: before it"
        )
    if index.startswith(f"{length} - ") and not index.startswith(f"{length} - 1"):
        parts[dimension] = ast.parse(index.replace(f"{length} - ", f"{length} - 1 - ", 1), mode="eval").body
        return f"the last element is at {length} - 1: write {buffer}[{', '.join(map(ast.unparse, parts))}]"
    own = {ast.unparse(part): lengths[number] for number, part in enumerate(parts) if number < len(lengths)}
    for node in reversed(around):
        if isinstance(node, ast.For) and ast.unparse(node.target) == index:
            call = node.iter
            if (
                isinstance(call, ast.Call)
                and call.args
                and _is_extent(last := call.args[min(1, len(call.args) - 1)], length)
            ):
                was = ast.unparse(last)
                call.args[call.args.index(last)] = ast.parse(length, mode="eval").body
                return f"{index} counts to {was}, and this goes along {length}: write for {index} in {ast.unparse(call)}:"
        tests = [node.test] if isinstance(node, (ast.If, ast.While, ast.IfExp)) else []
        for test in tests:
            wrong = [
                each
                for each in ast.walk(test)
                if isinstance(each, ast.Compare)
                and isinstance(each.ops[0], ast.Lt)
                and (of := own.get(ast.unparse(each.left))) is not None
                and _is_extent(each.comparators[0], of)
            ]
            if any(ast.unparse(each.left) == index for each in wrong):
                was = next(
                    ast.unparse(each.comparators[0]) for each in wrong if ast.unparse(each.left) == index
                )
                for each in wrong:
                    each.comparators[0] = ast.parse(own[ast.unparse(each.left)], mode="eval").body
                word = "while" if isinstance(node, ast.While) else "if"
                return f"{index} is compared with {was}, and this goes along {length}: write {word} {ast.unparse(test)}:"
    return ""


def _operand(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def _place(text: str, offset: int) -> tuple[int, int]:
    """Line and column, in bytes, as the nodes of a tree have them."""
    line = text.rfind("\n", 0, offset) + 1
    return text.count("\n", 0, offset) + 1, len(text[line:offset].encode())


def _around(tree: ast.AST, start: tuple[int, int], end: tuple[int, int]) -> list[ast.AST]:
    """The nodes around a place, from the outermost in."""
    around = [tree]
    while True:
        for child in ast.iter_child_nodes(around[-1]):
            first = getattr(child, "lineno", None), getattr(child, "col_offset", None)
            last = getattr(child, "end_lineno", None), getattr(child, "end_col_offset", None)
            if None not in first and first <= start and end <= last:
                around.append(child)
                break
        else:
            return around


def _is_of(node: ast.AST, buffer: str) -> bool:
    """Whether a node is an element of a buffer: `x[i]`, `x.vec(4)[i]`."""
    if not isinstance(node, ast.Subscript):
        return False
    base: ast.expr = node.value
    if isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute):
        base = base.func.value
    return isinstance(base, ast.Name) and base.id == buffer


def _is_extent(node: ast.expr, other: str) -> bool:
    """Whether an expression is the extent of an array, `len(x)` or `x.shape[1]`, and not `other`."""
    text = ast.unparse(node)
    return text != other and (text.startswith("len(") or ".shape[" in text)
