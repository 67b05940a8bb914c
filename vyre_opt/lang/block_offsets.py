"""Places in a block of a loop that are taken for places in the array.

for j in range(0, x.shape[1], 32):
    b = x[r, j : j + 32]
    at = vyre.argmax(b)          counts from the beginning of the block: j + vyre.argmax(b)
"""

from __future__ import annotations

import ast
from typing import Any

from ..ir.diagnostics import Diagnostic

__all__ = ["warn_of_offset"]


def warn_of_offset(t: Any, node: ast.Call, argument: ast.expr) -> None:
    """Warn of an index within a block that begins at the counter of a loop, where nothing adds the two."""
    source = t.source
    begin = source.assignments.get(argument.id, []) if isinstance(argument, ast.Name) else []
    block = begin[0].value if len(begin) == 1 else argument
    if not isinstance(block, ast.Subscript):
        return
    parts = block.slice.elts if isinstance(block.slice, ast.Tuple) else [block.slice]
    starts = {
        part.lower.id for part in parts if isinstance(part, ast.Slice) and isinstance(part.lower, ast.Name)
    }
    start = next((name for name in sorted(starts) if name in source.counters), None)
    if start is None:
        return
    call = source.text(node)
    statement = source.statements.get(node)
    assigned = statement.targets if isinstance(statement, ast.Assign) and statement.value is node else []
    names = [target.id for target in assigned if isinstance(target, ast.Name)]
    if not source.sums & {(start, each) for each in (call, *names)}:
        message = f"this counts from the beginning of the block, which is at {start} in this round"
        help = f"write {start} + {call}"
        t.emitter.warnings.append(Diagnostic("warning", message, source.location(node), help=help))
