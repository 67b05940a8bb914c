"""Loops of compare-and-exchange on floats, and the atomic that each of them is.

while old < v: ... atomic_compare_exchange(m, 0, old, v)         vyre.atomic_max(m, 0, v)
atomic_compare_exchange(m, 0, old, old + v)                      vyre.atomic_add(m, 0, v)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .python_source import FunctionSource

__all__ = ["as_atomic"]


def as_atomic(
    source: FunctionSource, node: ast.Call, place: Sequence[str], values: Sequence[ast.expr]
) -> str | None:
    """The call that does the same as a loop around an exchange of `values`, the expected one and the new one, at the array and the index `place`;
    None for another loop."""
    if len(values) != 2:
        return None
    expected, new = values
    old = source.text(expected)
    assigned = source.assignments.get(new.id, []) if isinstance(new, ast.Name) else []
    value = assigned[-1].value if assigned else new
    change: tuple[str, ast.expr] | None = None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        others = [each for each in (value.left, value.right) if source.text(each) != old]
        change = ("add", others[0]) if len(others) == 1 else None
    elif isinstance(value, ast.Call) and source.text(value.func).rpartition(".")[2] in ("max", "min"):
        others = [each for each in value.args if source.text(each) != old]
        change = (
            (source.text(value.func)[-3:], others[0]) if len(others) == 1 and len(value.args) == 2 else None
        )
    else:
        for compared in _comparisons(source, node):
            sides = [source.text(compared.left), source.text(compared.comparators[0])]
            below = isinstance(compared.ops[0], (ast.Lt, ast.LtE))
            if sorted(sides) == sorted([old, source.text(new)]) and (
                below or isinstance(compared.ops[0], (ast.Gt, ast.GtE))
            ):
                change = ("max" if (sides[0] == old) is below else "min", new)
    return f"vyre.atomic_{change[0]}({', '.join([*place, source.text(change[1])])})" if change else None


def _comparisons(source: FunctionSource, node: ast.Call) -> Iterator[ast.Compare]:
    """Comparisons in the conditions around a call."""
    for each in ast.walk(source.tree):
        if isinstance(each, (ast.While, ast.If)) and any(inner is node for inner in ast.walk(each)):
            yield from (
                test for test in ast.walk(each.test) if isinstance(test, ast.Compare) and len(test.ops) == 1
            )
