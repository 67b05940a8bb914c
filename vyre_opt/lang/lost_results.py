"""Results of calls that are stored to copies which nobody sees.

double[2](x, y.astype(np.float32))     a new array, which is gone behind the call
double[2](x, y[mask])                  so is what a mask or a list of indices selects
double[2](x, y[3:])                    a part of y itself
double[2](x, y.copy())                 y is to stay as it is
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.caller import caller_call, caller_frame, caller_location
from ..ir.diagnostics import Diagnostic

__all__ = ["lost_results"]


def lost_results(name: str, parameters: Sequence[str], written: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """The warnings of a call of a kernel from outside of this package.  `written`: arrays that it stores to, by parameters."""
    arrays = {parameter: array for parameter, array in written.items() if type(array) is np.ndarray}
    call = caller_call() if arrays else None
    frame = caller_frame()
    if call is None or frame is None or any(isinstance(node, ast.Starred) for node in call.args):
        return
    given = dict(zip(parameters, call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    for parameter, array in arrays.items():
        node = given.get(parameter)
        root = None if node is None else _root(node)
        if node is None or root is None:
            continue
        origin = frame.f_locals.get(root, frame.f_globals.get(root))
        if type(origin) is not np.ndarray or np.may_share_memory(origin, array):
            continue
        text = ast.unparse(node)
        target = text if isinstance(node, ast.Subscript) else f"{root}[...]"
        message = f"{name} stores to {text}, which is a copy and no part of {root}: its results are lost"
        help = f"write t = {text}, pass t, and behind the call write {target} = t"
        yield Diagnostic("warning", message, caller_location(), help=help)


def _root(node: ast.expr) -> str | None:
    """Name of the array that an expression selects from or converts; None for the array itself, for `.copy()`, and for other expressions."""
    is_derived = False
    while not isinstance(node, ast.Name):
        is_derived |= isinstance(node, (ast.Call, ast.Subscript))
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Attribute) or node.func.attr == "copy":
                return None
            node = node.func.value
        elif isinstance(node, (ast.Subscript, ast.Attribute)):
            node = node.value
        else:
            return None
    return node.id if is_derived else None
