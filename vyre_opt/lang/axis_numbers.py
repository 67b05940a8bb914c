"""Numbers beside a slice that were meant for an axis: `vyre.max(row, -1)`, which here is the larger of each element and -1.

e = vyre.exp(row - vyre.max(row, -1))       write vyre.max(row, axis=-1)
vyre.max(vyre.min(row, 1), -1)              limits, which are left alone
"""

from __future__ import annotations

import ast
import re
from typing import Any

from ..ir.diagnostics import Diagnostic
from ..ir.types import DataType
from .python_source import FunctionSource

__all__ = ["along_axis", "axis_argument", "axis_call", "warn_of_axis"]

_AXES = range(-2, 2)
_REDUCTIONS = [f"vyre.{name}" for name in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")]


def axis_call(source: FunctionSource, node: ast.expr) -> str | None:
    """`vyre.max(row, axis=0, keepdims=True)` for `vyre.max(row, 0, keepdims=True)`; None for another expression."""
    if not isinstance(node, ast.Call) or len(node.args) != 2 or any(k.arg == "axis" for k in node.keywords):
        return None
    function = source.text(node.func).rpartition(".")[2]
    axis = _literal(node.args[1])
    if function not in ("max", "min", "maximum", "minimum") or axis not in _AXES:
        return None
    rest = "".join(f", {source.text(keyword)}" for keyword in node.keywords)
    return f"vyre.{function[:3]}({source.text(node.args[0])}, axis={axis}{rest})"


def warn_of_axis(t: Any, node: ast.Call, op: str, found: DataType | None) -> None:
    """Warn of the larger or the smaller of a slice of floats and a number that was surely meant for an axis: it is below 0 and no limit, or the
    result is subtracted from the slice."""
    axis = _literal(node.args[-1]) if node.args else None
    help = axis_call(t.source, node)
    if help is None or found is None or axis is None or not found.element.is_float:
        return
    if not -len(found.extents) <= axis < len(found.extents):
        return
    call, slice = ast.unparse(node), ast.unparse(node.args[0])
    is_limit = node in t.source.limits or _is_extremum(node.args[0])
    is_subtracted = (slice, call) in t.source.differences
    if (axis < 0 and not is_limit) or is_subtracted:
        if is_subtracted and len(found.extents) > 1:
            help = f"{help.removesuffix(')')}, keepdims=True)"
        number, what = t.source.text(node.args[1]), "larger" if op == "max" else "smaller"
        message = f"this is the {what} of each element and {number}: {number} is a value here, not an axis"
        loc = t.source.location(node)
        t.emitter.warnings.append(Diagnostic("warning", message, loc, help=f"write {help}"))


def _literal(node: ast.expr) -> int | None:
    """A whole number that is written out, also one below 0."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _literal(node.operand)
        return None if number is None else -number
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _is_extremum(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("max", "min", "where")


def axis_argument(node: ast.Call) -> int | None:
    """The axis that a call of another library has as its second argument, or by name; None for one without."""
    second = node.args[1] if len(node.args) == 2 else None
    axis = next((k.value for k in node.keywords if k.arg in ("axis", "dim")), second)
    return None if axis is None else _literal(axis)


def along_axis(form: str, slice: str, rank: int, axis: int | None, keeps: bool = False) -> str:
    """An expression of rows, `vyre.sum(row) / f32(len(row))`, for a slice of `rank` axes along one of them, or all: `vyre.sum(b, axis=1) /
    f32(b.shape[1])`.  Reductions that meet elements of the slice keep their axis."""
    tree = ast.parse(form, mode="eval").body
    if rank == 1:
        axis = None
    extents = [f"{slice}.shape[{n}]" for n in ([axis % rank] if axis is not None else range(rank))]
    length = f"len({slice})" if rank == 1 else " * ".join(extents)

    def is_reduction(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and ast.unparse(node.func) in _REDUCTIONS

    def is_scan(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and ast.unparse(node.func) == "vyre.cumsum"

    def meets_elements(node: ast.AST) -> bool:
        """Whether an expression has elements outside of reductions and lengths."""
        if isinstance(node, ast.Call) and (is_reduction(node) or ast.unparse(node.func) == "len"):
            return False
        if isinstance(node, ast.Name) and node.id == "row":
            return True
        return any(map(meets_elements, ast.iter_child_nodes(node)))

    def write(node: ast.AST, within: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            write(child, node.args[0] if is_reduction(node) else within)  # type: ignore[attr-defined]
        if (is_reduction(node) or is_scan(node)) and axis is not None:
            is_kept = is_reduction(node) and (keeps if node is tree else meets_elements(within))
            node.keywords = [  # type: ignore[attr-defined]
                ast.keyword("axis", ast.Constant(axis)),
                *[ast.keyword("keepdims", ast.Constant(True))] * is_kept,
            ]

    write(tree, tree)
    text = re.sub(r"\blen\(row\)", lambda _: length, ast.unparse(tree))
    is_part = slice.isidentifier() or slice.endswith(("]", ")"))
    return re.sub(r"(?<![\w.])row(?!\w)", lambda _: slice if is_part else f"({slice})", text)
